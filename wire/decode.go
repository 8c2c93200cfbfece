package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// Limits of a hello that no other rule names; BAD_FRAME beyond.
const (
	maxInstall  = 128
	maxFeatures = 64
	maxFeature  = 64
)

// maxEcho is the longest rid, in bytes, that an error echoes. An rid over
// impart.MaxRID is refused, and its sender should still find out which frame it was.
const maxEcho = 1 << 10

// Decode reads one frame of a client. The error is an [*impart.Error] with
// BAD_FRAME or TOO_LARGE whose message names the field; rid is whatever rid
// could be read, with an error too. The frame keeps nothing of data.
//
// Unknown fields are ignored, null counts as absent, and numbers are integers
// without fraction or exponent within ±(2^53-1). A body's limit and a frame's
// are the caller's business, and so is everything that takes a store to know:
// a negative seq passes.
func Decode(data []byte) (frame Frame, rid string, err error) {
	s := open(data)
	defer s.close()
	if refused := s.document(); refused != nil {
		return nil, readRID(data), refused
	}
	rid = s.text(nRID)
	s.short(nRID, rid, impart.MaxRID)
	if len(rid) > maxEcho {
		rid = ""
	}
	t := s.text(nT)
	if !s.has(nT) {
		s.refuse(impart.BadFrame, "t is missing")
	}
	if s.err != nil {
		return nil, rid, s.err
	}
	if frame = s.frame(t, rid); s.err != nil {
		return nil, rid, s.err
	}
	return frame, rid, nil
}

// DecodeAs reads the fields of a frame of type t from a JSON object that has
// neither "t" nor "rid" (an HTTP body); both are ignored if present. Errors as
// in [Decode].
func DecodeAs(t string, data []byte) (Frame, error) {
	s := open(data)
	defer s.close()
	if refused := s.document(); refused != nil {
		return nil, refused
	}
	frame := s.frame(t, "")
	if s.err != nil {
		return nil, s.err
	}
	return frame, nil
}

// readRID finds the rid of a frame whose text is refused, past whatever is wrong
// with it as long as data is JSON at all; "" without a usable rid.
func readRID(data []byte) string {
	s := open(data, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	defer s.close()
	if s.dec.PeekKind() != '{' {
		return ""
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return ""
	}
	for s.dec.PeekKind() == '"' {
		quoted, err := s.dec.ReadValue()
		if err != nil {
			return ""
		}
		if n, known := lookup(quoted); !known || n != nRID || s.dec.PeekKind() != '"' {
			if s.dec.SkipValue() != nil {
				return ""
			}
			continue
		}
		value, err := s.dec.ReadValue()
		if err != nil {
			return ""
		}
		rid, err := jsontext.AppendUnquote(nil, value)
		if err != nil || len(rid) > maxEcho {
			return ""
		}
		return string(rid)
	}
	return ""
}

// frame builds the frame of type t from the noted fields; s.err says whether it
// is worth anything.
func (s *scanner) frame(t, rid string) Frame {
	switch t {
	case "hello":
		return s.hello(rid)
	case "sub":
		return &Sub{RID: rid}
	case "send":
		return s.send(rid)
	case "ack":
		return s.ack(rid)
	case "sync":
		return s.sync(rid)
	case "pull":
		return &Pull{RID: rid, Limit: s.limit()}
	case "convs":
		return &Convs{RID: rid, After: impart.ConvID(s.after(nAfter)), Limit: s.limit()}
	case "read":
		return &Read{RID: rid, Conv: s.conv(), Seq: impart.Seq(s.required(nSeq)), Epoch: s.namedEpoch()}
	case "recall":
		return &Recall{
			RID: rid, Conv: s.conv(), Seq: impart.Seq(s.required(nSeq)), CMID: impart.CMID(s.id(nCMID, impart.MaxCMID)),
			MID: impart.MID(s.optionalID(nMID, impart.MaxID)), Epoch: s.namedEpoch(),
		}
	case "who":
		return &Who{
			RID: rid, Conv: s.conv(), Seq: impart.Seq(s.required(nSeq)),
			After: impart.UserID(s.after(nAfter)), Limit: s.limit(),
		}
	case "typing":
		return &Typing{RID: rid, Conv: s.conv()}
	case "ping":
		return &Ping{RID: rid}
	default:
		s.refuse(impart.BadFrame, "t %q is not a frame of this protocol", clip(t))
		return nil
	}
}

func (s *scanner) conv() impart.ConvID { return impart.ConvID(s.id(nConv, impart.MaxID)) }

func (s *scanner) epoch() impart.Epoch { return impart.Epoch(s.number(nEpoch)) }

// namedEpoch is the epoch of a request, 0 when it names none. A 0 in the text
// is no way to name none: like any other epoch that is not the current one it
// must be refused, and so it becomes one that never is.
func (s *scanner) namedEpoch() impart.Epoch {
	epoch := s.epoch()
	if epoch == 0 && len(s.raw(nEpoch)) > 0 && s.raw(nEpoch)[0] != 'n' {
		return noEpoch
	}
	return epoch
}

// noEpoch is never the current epoch: those begin at 1.
const noEpoch impart.Epoch = -1

// hello leaves the token unchecked: a missing one is UNAUTHENTICATED, which is
// not for the codec to say.
func (s *scanner) hello(rid string) *Hello {
	f := &Hello{
		RID: rid, Token: s.text(nToken), Device: impart.DeviceID(s.id(nDevice, impart.MaxID)), Install: s.kept(nInstall),
		N: s.count(nN), Proto: s.number(nProto), History: s.count(nHistory), Features: s.strings(nFeatures, maxFeatures, maxFeature),
	}
	if len(f.Install) > maxInstall {
		s.refuse(impart.BadFrame, "install is %d bytes, at most %d are allowed", len(f.Install), maxInstall)
	}
	if s.has(nProto) && f.Proto != Proto {
		s.refuse(impart.BadFrame, "proto %d is not spoken here, only %d", f.Proto, Proto)
	}
	return f
}

func (s *scanner) send(rid string) *Send {
	return s.message(rid, s.conv(), nCMID, nBody)
}

// message reads what a send frame and the HTTP send request have in common.
func (s *scanner) message(rid string, conv impart.ConvID, cmid, body name) *Send {
	f := &Send{RID: rid, Conv: conv, CMID: impart.CMID(s.id(cmid, impart.MaxCMID))}
	if !s.has(body) {
		s.refuse(impart.BadFrame, "%s is missing", names[body])
	}
	f.Body = s.kept(body)
	f.Type = s.short(nType, s.kept(nType), impart.MaxType)
	f.Ext = s.ext()
	f.Prev = impart.CMID(s.optionalID(nPrev, impart.MaxCMID))
	f.Epoch = s.namedEpoch()
	return f
}

// ack reads either form. An empty list of acks is one that acknowledges nothing.
func (s *scanner) ack(rid string) *Ack {
	f := &Ack{RID: rid, N: s.count(nN), Epoch: s.namedEpoch(), Batch: s.has(nAcks)}
	single := s.has(nConv) || s.has(nSeq)
	switch {
	case f.Batch && single:
		s.refuse(impart.BadFrame, "an ack has either conv and seq or acks, not both")
	case !f.Batch && !single:
		s.refuse(impart.BadFrame, "an ack needs conv and seq, or acks")
	case single:
		f.Items = []impart.AckItem{{Conv: s.conv(), Seq: impart.Seq(s.required(nSeq))}}
	default:
		f.Items = s.ackItems()
	}
	return f
}

func (s *scanner) ackItems() []impart.AckItem {
	items := []impart.AckItem{}
	s.objects(nAcks, func(sub *scanner) {
		if len(items) == impart.MaxLimit {
			sub.refuse(impart.TooLarge, "at most %d acks are allowed in one frame", impart.MaxLimit)
			return
		}
		items = append(items, impart.AckItem{Conv: sub.conv(), Seq: impart.Seq(sub.required(nSeq))})
	})
	return items
}

func (s *scanner) sync(rid string) *Sync {
	f := &Sync{
		RID: rid, Conv: s.conv(), After: s.seq(nAfter), Before: s.seq(nBefore),
		AfterMID: impart.MID(s.optionalID(nAfterMID, impart.MaxID)), Limit: s.limit(), Epoch: s.namedEpoch(),
	}
	switch {
	case f.After == nil && f.Before == nil:
		s.refuse(impart.BadFrame, "a sync needs after or before")
	case f.After != nil && f.Before != nil:
		s.refuse(impart.BadFrame, "a sync has either after or before, not both")
	}
	return f
}
