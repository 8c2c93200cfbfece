package wire

import (
	"fmt"

	"github.com/impart-im/impart"
)

// AppendFrame appends the JSON text of a client's frame. Empty optional fields
// are left out. It checks nothing: what breaks a limit is refused by the server.
// It panics on a type that is not one of this package's client frames.
func AppendFrame(dst []byte, frame Frame) []byte {
	switch f := frame.(type) {
	case *Hello:
		return end(appendHello(begin(dst, f.T(), f.RID), f))
	case *Sub:
		return end(begin(dst, f.T(), f.RID))
	case *Send:
		return end(appendSend(begin(dst, f.T(), f.RID), f))
	case *Ack:
		return end(appendAck(begin(dst, f.T(), f.RID), f))
	case *Sync:
		return end(appendSync(begin(dst, f.T(), f.RID), f))
	case *Pull:
		return end(appendPointer(begin(dst, f.T(), f.RID), nLimit, f.Limit))
	case *Convs:
		dst = appendOptional(begin(dst, f.T(), f.RID), nAfter, f.After)
		return end(appendPointer(dst, nLimit, f.Limit))
	case *Read:
		dst = appendPosition(begin(dst, f.T(), f.RID), f.Conv, f.Seq)
		return end(appendEpoch(dst, f.Epoch))
	case *Recall:
		dst = appendPosition(begin(dst, f.T(), f.RID), f.Conv, f.Seq)
		dst = appendOptional(appendText(dst, nCMID, f.CMID), nMID, f.MID)
		return end(appendEpoch(dst, f.Epoch))
	case *Who:
		dst = appendPosition(begin(dst, f.T(), f.RID), f.Conv, f.Seq)
		return end(appendPointer(appendOptional(dst, nAfter, f.After), nLimit, f.Limit))
	case *Typing:
		return end(appendText(begin(dst, f.T(), f.RID), nConv, f.Conv))
	case *Ping:
		return end(begin(dst, f.T(), f.RID))
	default:
		panic(fmt.Sprintf("wire: %T is not a client frame", frame))
	}
}

func appendHello(dst []byte, f *Hello) []byte {
	dst = appendOptional(dst, nToken, f.Token)
	dst = appendText(dst, nDevice, f.Device)
	dst = appendOptional(dst, nInstall, f.Install)
	dst = appendPointer(dst, nN, f.N)
	if f.Proto != 0 {
		dst = appendNumber(dst, nProto, f.Proto)
	}
	dst = appendPointer(dst, nHistory, f.History)
	if f.Features != nil {
		dst = appendStrings(dst, nFeatures, f.Features)
	}
	return dst
}

func appendSend(dst []byte, f *Send) []byte {
	dst = appendText(dst, nConv, f.Conv)
	dst = appendText(dst, nCMID, f.CMID)
	dst = appendText(dst, nBody, f.Body)
	dst = appendOptional(dst, nType, f.Type)
	if len(f.Ext) > 0 {
		dst = append(appendName(dst, nExt), f.Ext...)
	}
	return appendEpoch(appendOptional(dst, nPrev, f.Prev), f.Epoch)
}

func appendAck(dst []byte, f *Ack) []byte {
	if !f.Batch && len(f.Items) == 1 {
		dst = appendPosition(dst, f.Items[0].Conv, f.Items[0].Seq)
	}
	dst = appendEpoch(appendPointer(dst, nN, f.N), f.Epoch)
	if f.Batch || len(f.Items) != 1 {
		dst = appendObjects(dst, nAcks, f.Items, func(dst []byte, item *impart.AckItem) []byte {
			return appendPosition(dst, item.Conv, item.Seq)
		})
	}
	return dst
}

func appendSync(dst []byte, f *Sync) []byte {
	dst = appendText(dst, nConv, f.Conv)
	dst = appendPointer(dst, nAfter, f.After)
	dst = appendPointer(dst, nBefore, f.Before)
	dst = appendPointer(appendOptional(dst, nAfterMID, f.AfterMID), nLimit, f.Limit)
	return appendEpoch(dst, f.Epoch)
}

// appendPosition appends where an event stands.
func appendPosition(dst []byte, conv impart.ConvID, seq impart.Seq) []byte {
	return appendNumber(appendText(dst, nConv, conv), nSeq, seq)
}

// appendEpoch leaves out 0, which means the current epoch.
func appendEpoch(dst []byte, epoch impart.Epoch) []byte {
	if epoch == 0 {
		return dst
	}
	return appendNumber(dst, nEpoch, epoch)
}

// appendPointer appends a number that may be absent.
func appendPointer[N ~int | ~int64](dst []byte, n name, value *N) []byte {
	if value == nil {
		return dst
	}
	return appendNumber(dst, n, *value)
}
