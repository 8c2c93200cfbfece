package wire

import (
	"time"

	"github.com/impart-im/impart"
)

// The fields of each server frame, in the order in which the protocol prints
// them. Lists are never null.

func (f Welcome) fields(dst []byte) []byte {
	dst = appendText(dst, nUser, f.User)
	dst = appendText(dst, nDevice, f.Device)
	dst = appendNumber(dst, nInstallEpoch, f.Install)
	dst = appendText(dst, nConn, f.Conn)
	dst = appendNumber(dst, nEpoch, f.Epoch)
	dst = appendNumber(dst, nNow, f.Now)
	dst = appendNumber(dst, nN, f.N)
	dst = appendStrings(dst, nFeatures, f.Features)
	dst = appendName(dst, nLimits)
	start := len(dst)
	dst = appendNumber(dst, nBody, f.Limits.Body)
	dst = appendNumber(dst, nFrame, f.Limits.Frame)
	dst = appendNumber(dst, nInflight, f.Limits.Inflight)
	dst = appendNumber(dst, nAckEvery, f.Limits.AckEvery)
	dst = appendNumber(dst, nHeartbeatMS, f.Limits.Heartbeat.Milliseconds())
	return wrap(dst, start)
}

func (f Subbed) fields(dst []byte) []byte {
	dst = appendObjects(dst, nConvs, f.Convs, appendCursor)
	dst = appendBool(dst, nMore, f.More)
	return appendNumber(dst, nEpoch, f.Epoch)
}

func (f Sent) fields(dst []byte) []byte {
	dst = appendText(dst, nConv, f.Sent.Conv)
	dst = appendNumber(dst, nSeq, f.Sent.Seq)
	dst = appendText(dst, nMID, f.Sent.MID)
	dst = appendBool(dst, nDup, f.Sent.Dup)
	dst = appendNumber(dst, nEpoch, f.Sent.Epoch)
	return appendNumber(dst, nAt, f.Sent.At)
}

func (f Acked) fields(dst []byte) []byte {
	if f.Batch || len(f.Items) != 1 {
		return appendObjects(dst, nAcks, f.Items, appendAcked)
	}
	return appendAcked(dst, &f.Items[0])
}

func (f Synced) fields(dst []byte) []byte {
	dst = appendPage(dst, &f.Page, f.Back)
	dst = appendNumber(dst, nEpoch, f.Page.Epoch)
	return appendBool(dst, nMore, f.Page.More)
}

func (f Pulled) fields(dst []byte) []byte {
	dst = appendObjects(dst, nConvs, f.Pulled.Convs, func(dst []byte, page *impart.Page) []byte {
		return appendPage(dst, page, false)
	})
	dst = appendObjects(dst, nFailed, f.Pulled.Failed, func(dst []byte, failure *impart.PullFailure) []byte {
		return appendText(appendText(dst, nConv, failure.Conv), nCode, failure.Code)
	})
	dst = appendBool(dst, nMore, f.Pulled.More)
	return appendNumber(dst, nEpoch, f.Pulled.Epoch)
}

func (f ConvsPage) fields(dst []byte) []byte {
	dst = appendObjects(dst, nConvs, f.Page.Convs, appendConv)
	dst = appendBool(dst, nMore, f.Page.More)
	return appendNumber(dst, nEpoch, f.Page.Epoch)
}

func (f Readed) fields(dst []byte) []byte {
	return appendNumber(appendText(dst, nConv, f.Conv), nRead, f.Read)
}

func (f Whos) fields(dst []byte) []byte {
	dst = appendText(dst, nConv, f.Conv)
	dst = appendNumber(dst, nSeq, f.Seq)
	dst = appendObjects(dst, nUsers, f.Report.Users, appendUserReport)
	return appendBool(dst, nMore, f.Report.More)
}

func (f Event) fields(dst []byte) []byte {
	dst = AppendEventObject(appendName(dst, nEv), f.Event)
	return appendNumber(dst, nEpoch, f.Epoch)
}

func (f Hint) fields(dst []byte) []byte {
	if f.Conv != "" {
		dst = appendNumber(appendText(dst, nConv, f.Conv), nHead, f.Head)
	}
	return appendText(appendNumber(dst, nEpoch, f.Epoch), nWhy, f.Why)
}

func (f Receipt) fields(dst []byte) []byte {
	dst = appendText(dst, nConv, f.Conv)
	dst = appendText(dst, nUser, f.User)
	dst = appendNumber(dst, nDelivered, f.Delivered)
	return appendNumber(dst, nRead, f.Read)
}

func (f TypingNote) fields(dst []byte) []byte {
	return appendText(appendText(dst, nConv, f.Conv), nUser, f.User)
}

func (f Pong) fields(dst []byte) []byte {
	return dst
}

func (f ErrorFrame) fields(dst []byte) []byte {
	err := f.Err
	if err == nil { // a caller's mistake must not look like success
		err = impart.Errorf(impart.Unavailable, "the server lost the outcome of this; send it again unchanged")
	}
	dst = appendText(dst, nCode, err.Code)
	dst = appendText(dst, nMessage, err.Message)
	dst = appendBool(dst, nRetry, err.Code.Retry())
	if err.RetryAfter > 0 {
		dst = appendNumber(dst, nRetryAfterMS, millis(err.RetryAfter))
	}
	if err.Code == impart.EpochChanged {
		dst = appendNumber(dst, nEpoch, err.Epoch)
	}
	return dst
}

func (f Bye) fields(dst []byte) []byte {
	dst = appendText(dst, nCode, f.Code)
	dst = appendNumber(dst, nReconnectAfterMS, millis(f.ReconnectAfter))
	return appendBool(dst, nFinal, f.Code.Final())
}

// appendCursor appends a conversation as a subbed frame has it.
func appendCursor(dst []byte, conv *impart.ConvState) []byte {
	dst = appendText(dst, nConv, conv.Conv)
	dst = appendNumber(dst, nHead, conv.Head)
	dst = appendNumber(dst, nDelivered, conv.Delivered)
	dst = appendNumber(dst, nRead, conv.Read)
	return appendNumber(dst, nFloor, conv.Floor)
}

// appendConv appends a conversation as a convs frame has it.
func appendConv(dst []byte, conv *impart.ConvState) []byte {
	dst = appendText(dst, nConv, conv.Conv)
	dst = appendText(dst, nKind, conv.Kind)
	dst = appendNumber(dst, nHead, conv.Head)
	dst = appendNumber(dst, nDelivered, conv.Delivered)
	dst = appendNumber(dst, nRead, conv.Read)
	dst = appendNumber(dst, nUnread, conv.Unread)
	if conv.Last != nil {
		dst = AppendEventObject(appendName(dst, nLast), conv.Last)
	}
	return appendNumber(dst, nFloor, conv.Floor)
}

// appendPage appends what synced and pulled say of one conversation.
func appendPage(dst []byte, page *impart.Page, back bool) []byte {
	dst = appendText(dst, nConv, page.Conv)
	dst = appendObjects(dst, nEvents, page.Events, appendEvent)
	if !back {
		dst = appendNumber(dst, nThrough, page.Through)
	}
	dst = appendNumber(dst, nHead, page.Head)
	return appendNumber(dst, nFloor, page.Floor)
}

// appendAcked appends one outcome of an ack.
func appendAcked(dst []byte, item *impart.Acked) []byte {
	dst = appendText(dst, nConv, item.Conv)
	if item.Err != nil {
		return appendText(dst, nCode, impart.CodeOf(item.Err))
	}
	return appendNumber(dst, nDelivered, item.Delivered)
}

func appendUserReport(dst []byte, user *impart.UserReport) []byte {
	dst = appendText(dst, nUser, user.User)
	dst = appendNumber(dst, nDelivered, user.Delivered)
	dst = appendNumber(dst, nDevices, user.Devices)
	return appendBool(dst, nRead, user.Read)
}

// millis rounds up, so that nobody is told to come back too early.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
