package wire

import (
	"bytes"
	"errors"
	"time"

	"github.com/impart-im/impart"
)

// ErrUnknownFrame is what [DecodeServer] returns for a "t" that it does not know:
// a newer server's frame, which a client ignores.
var ErrUnknownFrame = errors.New("wire: a frame of a type this client does not know")

// DecodeServer reads one frame of the server, for clients. The result is a
// pointer to one of the server frame structs ([*Event], [*Sent] …). It is as
// strict as [Decode] about text and numbers and ignores unknown fields; kinds,
// codes and reasons that it does not know are kept as they are. The error is an
// [*impart.Error] with BAD_FRAME, or [ErrUnknownFrame].
func DecodeServer(data []byte) (ServerFrame, error) {
	s := open(data)
	defer s.close()
	if refused := s.document(); refused != nil {
		return nil, refused
	}
	if !s.has(nT) {
		return nil, impart.Errorf(impart.BadFrame, "t is missing")
	}
	frame := s.serverFrame(s.text(nT), s.text(nRID))
	switch {
	case s.err != nil:
		return nil, s.err
	case frame == nil:
		return nil, ErrUnknownFrame
	}
	return frame, nil
}

// serverFrame builds the frame of type t, nil for an unknown one.
func (s *scanner) serverFrame(t, rid string) ServerFrame {
	switch t {
	case "welcome":
		return s.welcome(rid)
	case "subbed":
		f := &Subbed{RID: rid, More: s.bool(nMore), Epoch: s.epoch()}
		s.objects(nConvs, func(sub *scanner) { f.Convs = append(f.Convs, sub.convState()) })
		return f
	case "sent":
		return &Sent{RID: rid, Sent: impart.Sent{
			Conv: s.conv(), Seq: s.position(nSeq), MID: s.mid(nMID), Dup: s.bool(nDup), Epoch: s.epoch(), At: s.at(),
		}}
	case "acked":
		return s.acked(rid)
	case "synced":
		f := &Synced{RID: rid, Back: !s.has(nThrough), Page: s.page()}
		f.Page.More, f.Page.Epoch = s.bool(nMore), s.epoch()
		return f
	case "pulled":
		return s.pulled(rid)
	case "convs":
		f := &ConvsPage{RID: rid, Page: impart.ConvsPage{More: s.bool(nMore), Epoch: s.epoch()}}
		s.objects(nConvs, func(sub *scanner) { f.Page.Convs = append(f.Page.Convs, sub.convState()) })
		return f
	case "readed":
		return &Readed{RID: rid, Conv: s.conv(), Read: s.position(nRead)}
	case "whos":
		return s.whos(rid)
	case "pong":
		return &Pong{RID: rid}
	case "error":
		return s.errorFrame(rid)
	default:
		return s.push(t)
	}
}

// push builds a frame that answers no request.
func (s *scanner) push(t string) ServerFrame {
	switch t {
	case "event":
		f := &Event{Epoch: s.epoch(), Event: s.eventIn(nEv)}
		if f.Event == nil {
			s.refuse(impart.BadFrame, "ev is missing")
		}
		return f
	case "hint":
		f := &Hint{Epoch: s.epoch(), Why: s.text(nWhy)}
		if s.has(nConv) {
			f.Conv, f.Head = s.conv(), s.position(nHead)
		}
		return f
	case "receipt":
		return &Receipt{Conv: s.conv(), User: s.user(nUser), Delivered: s.position(nDelivered), Read: s.position(nRead)}
	case "typing":
		return &TypingNote{Conv: s.conv(), User: s.user(nUser)}
	case "bye":
		return &Bye{Code: ByeCode(s.text(nCode)), ReconnectAfter: s.duration(nReconnectAfterMS)}
	default:
		return nil
	}
}

func (s *scanner) welcome(rid string) *Welcome {
	f := &Welcome{
		RID: rid, User: s.user(nUser), Device: impart.DeviceID(s.id(nDevice, impart.MaxID)),
		Install: impart.InstallEpoch(s.required(nInstallEpoch)), Conn: s.text(nConn), Epoch: s.epoch(),
		Now: impart.Millis(s.required(nNow)), N: s.number(nN), Features: s.strings(nFeatures, maxFeatures, maxFeature),
	}
	s.nested(nLimits, func(sub *scanner) {
		f.Limits = Limits{
			Body: int(sub.number(nBody)), Frame: int(sub.number(nFrame)), Inflight: int(sub.number(nInflight)),
			AckEvery: int(sub.number(nAckEvery)), Heartbeat: sub.duration(nHeartbeatMS),
		}
	})
	return f
}

func (s *scanner) acked(rid string) *Acked {
	f := &Acked{RID: rid, Batch: s.has(nAcks)}
	if !f.Batch {
		f.Items = []impart.Acked{s.ackedItem()}
		return f
	}
	s.objects(nAcks, func(sub *scanner) { f.Items = append(f.Items, sub.ackedItem()) })
	return f
}

func (s *scanner) ackedItem() impart.Acked {
	item := impart.Acked{Conv: s.conv()}
	if s.has(nCode) {
		item.Err = impart.Errorf(impart.Code(s.text(nCode)), "the server refused this ack")
		return item
	}
	item.Delivered = s.position(nDelivered)
	return item
}

func (s *scanner) pulled(rid string) *Pulled {
	f := &Pulled{RID: rid, Pulled: impart.Pulled{More: s.bool(nMore), Epoch: s.epoch()}}
	s.objects(nConvs, func(sub *scanner) { f.Pulled.Convs = append(f.Pulled.Convs, sub.page()) })
	s.objects(nFailed, func(sub *scanner) {
		f.Pulled.Failed = append(f.Pulled.Failed, impart.PullFailure{Conv: sub.conv(), Code: impart.Code(sub.text(nCode))})
	})
	return f
}

func (s *scanner) whos(rid string) *Whos {
	f := &Whos{RID: rid, Conv: s.conv(), Seq: s.position(nSeq), Report: impart.Report{More: s.bool(nMore)}}
	s.objects(nUsers, func(sub *scanner) {
		f.Report.Users = append(f.Report.Users, impart.UserReport{
			User: sub.user(nUser), Delivered: int(sub.number(nDelivered)), Devices: int(sub.number(nDevices)), Read: sub.bool(nRead),
		})
	})
	return f
}

func (s *scanner) errorFrame(rid string) *ErrorFrame {
	err := &impart.Error{
		Code: impart.Code(s.text(nCode)), Message: s.text(nMessage), Epoch: s.epoch(), RetryAfter: s.duration(nRetryAfterMS),
	}
	if err.Code == "" {
		s.refuse(impart.BadFrame, "code is missing")
	}
	return &ErrorFrame{RID: rid, Err: err, Retry: s.bool(nRetry)}
}

// page reads what synced and pulled say of one conversation.
func (s *scanner) page() impart.Page {
	page := impart.Page{Conv: s.conv(), Head: s.position(nHead), Floor: s.position(nFloor)}
	if s.has(nThrough) {
		page.Through = s.position(nThrough)
	}
	s.objects(nEvents, func(sub *scanner) { page.Events = append(page.Events, sub.event()) })
	return page
}

// convState reads a conversation as subbed and convs have it.
func (s *scanner) convState() impart.ConvState {
	return impart.ConvState{
		Conv: s.conv(), Kind: impart.ConvKind(s.text(nKind)), Head: s.position(nHead), Delivered: s.position(nDelivered),
		Read: s.position(nRead), Floor: s.position(nFloor), Unread: int(s.number(nUnread)), Last: s.eventIn(nLast),
	}
}

// eventIn reads the event object in field n, nil when absent.
func (s *scanner) eventIn(n name) *impart.Event {
	if !s.has(n) {
		return nil
	}
	ev := new(impart.Event)
	s.nested(n, func(sub *scanner) { *ev = sub.event() })
	return ev
}

// event reads an event of any kind, known or not.
func (s *scanner) event() impart.Event {
	ev := impart.Event{
		Conv: s.conv(), Seq: s.position(nSeq), Kind: impart.Kind(s.text(nKind)), MID: s.mid(nMID), Sender: s.user(nSender),
		CMID: impart.CMID(s.text(nCMID)), Type: s.text(nType), Body: s.text(nBody), At: s.at(),
		Target: impart.Seq(s.number(nTarget)), TargetMID: impart.MID(s.text(nTargetMID)),
		User: impart.UserID(s.text(nUser)), By: impart.UserID(s.text(nBy)), Recalled: s.bool(nRecalled),
	}
	if raw, ok := s.typed(nExt, '{'); ok {
		ev.Ext = bytes.Clone(raw)
	}
	if ev.Kind == impart.KindMsg && !ev.Recalled && !s.has(nBody) {
		s.refuse(impart.BadFrame, "body is missing")
	}
	return ev
}

// position reads a required seq.
func (s *scanner) position(n name) impart.Seq {
	value := s.required(n)
	if value < 0 {
		s.refuse(impart.BadFrame, "%s must not be negative", names[n])
	}
	return impart.Seq(value)
}

func (s *scanner) at() impart.Millis { return impart.Millis(s.required(nAt)) }

func (s *scanner) mid(n name) impart.MID { return impart.MID(s.id(n, impart.MaxID)) }

func (s *scanner) user(n name) impart.UserID { return impart.UserID(s.id(n, impart.MaxID)) }

// duration reads milliseconds. Negative ones count as none, and more than a day
// as a day, so that no server can send a client to sleep for good.
func (s *scanner) duration(n name) time.Duration {
	const most = int64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(max(s.number(n), 0), most)) * time.Millisecond
}
