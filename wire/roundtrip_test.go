package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
)

// Whatever one side writes, the other reads as the same value, and writes again
// as the same text.

func TestClientFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawClientFrame(t)
		text := AppendFrame(nil, want)
		got, _, err := Decode(text)
		if err != nil {
			t.Fatalf("%s\nis refused: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s\nchanged (-wrote +read):\n%s", text, diff)
		}
		if again := AppendFrame(nil, got); string(again) != string(text) {
			t.Fatalf("%s\nis written again as\n%s", text, again)
		}
	})
}

func TestServerFramesRoundTrip(t *testing.T) {
	sameError := cmp.Comparer(func(a, b *impart.Error) bool {
		return a == b || a != nil && b != nil && a.Code == b.Code && a.Message == b.Message && a.Epoch == b.Epoch && a.RetryAfter == b.RetryAfter
	})
	sameCode := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".Err" && p.Last().Type().Kind().String() == "interface"
	},
		cmp.Comparer(func(a, b error) bool { return impart.CodeOf(a) == impart.CodeOf(b) }))
	rapid.Check(t, func(t *rapid.T) {
		want := drawServerFrame(t)
		text := want.Append(nil)
		got, err := DecodeServer(text)
		if err != nil {
			t.Fatalf("%s\nis refused: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), sameError, sameCode); diff != "" {
			t.Fatalf("%s\nchanged (-wrote +read):\n%s", text, diff)
		}
		if again := got.Append(nil); string(again) != string(text) {
			t.Fatalf("%s\nis written again as\n%s", text, again)
		}
	})
}

func drawClientFrame(t *rapid.T) Frame {
	rid, conv, seq, epoch := drawRID(t), drawID[impart.ConvID](t, 128), drawSeq(t), drawEpoch(t)
	switch rapid.SampledFrom(clientTypes).Draw(t, "t") {
	case "hello":
		return &Hello{
			RID: rid, Token: drawText(t), Device: drawID[impart.DeviceID](t, 128), Install: drawShort(t, maxInstall),
			N: drawPointer[int64](t, 0, impart.MaxNumber), Proto: rapid.Int64Range(0, Proto).Draw(t, "proto"),
			History: drawPointer[int64](t, 0, impart.MaxNumber), Features: drawList(t, func(t *rapid.T) string { return drawShort(t, maxFeature) }),
		}
	case "sub":
		return &Sub{RID: rid}
	case "send":
		return &Send{
			RID: rid, Conv: conv, CMID: drawID[impart.CMID](t, 64), Body: drawText(t), Type: drawShort(t, impart.MaxType),
			Ext: drawExt(t), Prev: drawMaybe[impart.CMID](t, 64), Epoch: epoch,
		}
	case "ack":
		f := &Ack{RID: rid, N: drawPointer[int64](t, 0, impart.MaxNumber), Epoch: epoch, Batch: rapid.Bool().Draw(t, "batch")}
		f.Items = []impart.AckItem{{Conv: conv, Seq: seq}}
		if f.Batch {
			f.Items = drawList(t, func(t *rapid.T) impart.AckItem {
				return impart.AckItem{Conv: drawID[impart.ConvID](t, 128), Seq: drawSeq(t)}
			})
		}
		return f
	case "sync":
		f := &Sync{RID: rid, Conv: conv, AfterMID: drawMaybe[impart.MID](t, 128), Limit: drawPointer[int](t, 1, impart.MaxLimit), Epoch: epoch}
		if rapid.Bool().Draw(t, "back") {
			f.Before = &seq
		} else {
			f.After = &seq
		}
		return f
	case "pull":
		return &Pull{RID: rid, Limit: drawPointer[int](t, 1, impart.MaxLimit)}
	case "convs":
		return &Convs{RID: rid, After: drawMaybe[impart.ConvID](t, 128), Limit: drawPointer[int](t, 1, impart.MaxLimit)}
	case "read":
		return &Read{RID: rid, Conv: conv, Seq: seq, Epoch: epoch}
	case "recall":
		return &Recall{RID: rid, Conv: conv, Seq: seq, CMID: drawID[impart.CMID](t, 64), MID: drawMaybe[impart.MID](t, 128), Epoch: epoch}
	case "who":
		return &Who{RID: rid, Conv: conv, Seq: seq, After: drawMaybe[impart.UserID](t, 128), Limit: drawPointer[int](t, 1, impart.MaxLimit)}
	case "typing":
		return &Typing{RID: rid, Conv: conv}
	default:
		return &Ping{RID: rid}
	}
}

func drawServerFrame(t *rapid.T) ServerFrame {
	rid, conv, user := drawRID(t), drawID[impart.ConvID](t, 128), drawID[impart.UserID](t, 128)
	seq, read, epoch := drawPosition(t), drawPosition(t), drawEpoch(t)
	more := rapid.Bool().Draw(t, "more")
	switch rapid.SampledFrom(serverTypes).Draw(t, "t") {
	case "welcome":
		return &Welcome{
			RID: rid, User: user, Device: drawID[impart.DeviceID](t, 128), Install: impart.InstallEpoch(seq), Conn: drawText(t),
			Epoch: epoch, Now: impart.Millis(read), N: int64(read), Features: drawList(t, func(t *rapid.T) string { return drawShort(t, maxFeature) }),
			Limits: Limits{Body: drawSmall(t), Frame: drawSmall(t), Inflight: drawSmall(t), AckEvery: drawSmall(t), Heartbeat: drawDelay(t)},
		}
	case "subbed":
		return &Subbed{RID: rid, Convs: drawList(t, drawCursor), More: more, Epoch: epoch}
	case "sent":
		return &Sent{RID: rid, Sent: impart.Sent{Conv: conv, Seq: seq, MID: drawID[impart.MID](t, 36), Dup: more, Epoch: epoch, At: impart.Millis(read)}}
	case "acked":
		if more {
			return &Acked{RID: rid, Batch: true, Items: drawList(t, drawAcked)}
		}
		return &Acked{RID: rid, Items: []impart.Acked{{Conv: conv, Delivered: seq}}}
	case "synced":
		f := &Synced{RID: rid, Back: rapid.Bool().Draw(t, "back"), Page: drawPage(t)}
		f.Page.More, f.Page.Epoch = more, epoch
		if f.Back {
			f.Page.Through = 0
		}
		return f
	case "pulled":
		return &Pulled{RID: rid, Pulled: impart.Pulled{Convs: drawList(t, drawPage), Failed: drawList(t, drawFailure), More: more, Epoch: epoch}}
	case "convs":
		return &ConvsPage{RID: rid, Page: impart.ConvsPage{Convs: drawList(t, drawConv), More: more, Epoch: epoch}}
	case "readed":
		return &Readed{RID: rid, Conv: conv, Read: read}
	case "whos":
		return &Whos{RID: rid, Conv: conv, Seq: seq, Report: impart.Report{Users: drawList(t, drawReport), More: more}}
	case "event":
		ev := drawEvent(t)
		return &Event{Event: &ev, Epoch: epoch}
	case "hint":
		if more {
			return &Hint{Epoch: epoch, Why: WhyOverflow}
		}
		return &Hint{Conv: conv, Head: seq, Epoch: epoch, Why: rapid.SampledFrom([]string{WhySweep, WhyRetry}).Draw(t, "why")}
	case "receipt":
		return &Receipt{Conv: conv, User: user, Delivered: seq, Read: read}
	case "typing":
		return &TypingNote{Conv: conv, User: user}
	case "pong":
		return &Pong{RID: rid}
	case "error":
		return drawError(t, rid)
	default:
		return &Bye{Code: rapid.SampledFrom(ByeCodes()).Draw(t, "code"), ReconnectAfter: drawDelay(t)}
	}
}

func drawError(t *rapid.T, rid string) *ErrorFrame {
	err := impart.Errorf(rapid.SampledFrom(impart.Codes()).Draw(t, "code"), "%s", drawText(t))
	if err.Code == impart.EpochChanged {
		err.Epoch = drawEpoch(t)
	}
	err.RetryAfter = drawDelay(t)
	return &ErrorFrame{RID: rid, Err: err, Retry: err.Code.Retry()}
}

func drawPage(t *rapid.T) impart.Page {
	return impart.Page{
		Conv: drawID[impart.ConvID](t, 128), Events: drawList(t, drawEvent), Through: drawPosition(t), Head: drawPosition(t), Floor: drawPosition(t),
	}
}

func drawFailure(t *rapid.T) impart.PullFailure {
	return impart.PullFailure{Conv: drawID[impart.ConvID](t, 128), Code: rapid.SampledFrom(impart.Codes()).Draw(t, "code")}
}

func drawAcked(t *rapid.T) impart.Acked {
	item := impart.Acked{Conv: drawID[impart.ConvID](t, 128)}
	if rapid.Bool().Draw(t, "refused") {
		item.Err = impart.Errorf(rapid.SampledFrom(impart.Codes()).Draw(t, "code"), "no")
		return item
	}
	item.Delivered = drawPosition(t)
	return item
}

func drawCursor(t *rapid.T) impart.ConvState {
	return impart.ConvState{
		Conv: drawID[impart.ConvID](t, 128), Head: drawPosition(t), Delivered: drawPosition(t), Read: drawPosition(t), Floor: drawPosition(t),
	}
}

func drawConv(t *rapid.T) impart.ConvState {
	conv := drawCursor(t)
	conv.Kind = rapid.SampledFrom([]impart.ConvKind{impart.Direct, impart.Group}).Draw(t, "kind")
	conv.Unread = drawSmall(t)
	if rapid.Bool().Draw(t, "last") {
		ev := drawEvent(t)
		conv.Last = &ev
	}
	return conv
}

func drawReport(t *rapid.T) impart.UserReport {
	return impart.UserReport{
		User: drawID[impart.UserID](t, 128), Delivered: drawSmall(t), Devices: drawSmall(t), Read: rapid.Bool().Draw(t, "read"),
	}
}

func drawEvent(t *rapid.T) impart.Event {
	ev := impart.Event{
		Conv: drawID[impart.ConvID](t, 128), Seq: drawPosition(t), MID: drawID[impart.MID](t, 36), Sender: drawID[impart.UserID](t, 128),
		At: impart.Millis(drawPosition(t)),
	}
	ev.Kind = rapid.SampledFrom([]impart.Kind{impart.KindMsg, impart.KindMsg, impart.KindRecall, impart.KindJoin, impart.KindLeave, impart.KindMeta, "react"}).Draw(t, "kind")
	switch ev.Kind {
	case impart.KindMsg, "react":
		ev.CMID, ev.Type = drawID[impart.CMID](t, 64), drawShort(t, impart.MaxType)
		if ev.Recalled = rapid.Bool().Draw(t, "recalled"); !ev.Recalled {
			ev.Body, ev.Ext = drawText(t), drawExt(t)
		}
	case impart.KindRecall:
		ev.CMID, ev.Target, ev.TargetMID = drawID[impart.CMID](t, 64), drawPosition(t), drawID[impart.MID](t, 36)
	case impart.KindJoin, impart.KindLeave:
		ev.User, ev.By = drawID[impart.UserID](t, 128), drawID[impart.UserID](t, 128)
	case impart.KindMeta:
	}
	return ev
}

// drawText draws any text that may be kept: many scripts, escapes and controls.
func drawText(t *rapid.T) string {
	runes := rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\x01\n\"\\/\x1f\x7f\u0080\u200d\u2028\u202e\ufffd\uffff😀é消a")))
	text := rapid.StringOfN(runes, 0, 40, -1).Draw(t, "text")
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "0"), "?")
}

// drawShort draws text of at most maxLen bytes.
func drawShort(t *rapid.T, maxLen int) string {
	text := drawText(t)
	if len(text) > maxLen {
		text = strings.ToValidUTF8(text[:maxLen], "")
	}
	return text
}

func drawID[S ~string](t *rapid.T, maxLen int) S {
	return S(rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\ é消😀/\u2028")), 1, -1, maxLen).
		Filter(func(s string) bool { return impart.CheckID("id", s, maxLen) == nil }).Draw(t, "id"))
}

func drawMaybe[S ~string](t *rapid.T, maxLen int) S {
	if rapid.Bool().Draw(t, "absent") {
		return ""
	}
	return drawID[S](t, maxLen)
}

func drawRID(t *rapid.T) string { return drawMaybe[string](t, impart.MaxRID) }

func drawExt(t *rapid.T) []byte {
	return rapid.SampledFrom([][]byte{nil, []byte(`{}`), []byte("{ \"a\":\t[1.50, 1e3,\n null]}"), []byte(`{"é\u0041":{"b":"\ud83d\ude00"}}`)}).Draw(t, "ext")
}

func drawSeq(t *rapid.T) impart.Seq {
	return impart.Seq(rapid.Int64Range(-impart.MaxNumber, impart.MaxNumber).Draw(t, "seq"))
}

func drawPosition(t *rapid.T) impart.Seq {
	return impart.Seq(rapid.Int64Range(0, impart.MaxNumber).Draw(t, "position"))
}

func drawEpoch(t *rapid.T) impart.Epoch {
	return impart.Epoch(rapid.Int64Range(0, impart.MaxNumber).Draw(t, "epoch"))
}

func drawSmall(t *rapid.T) int { return rapid.IntRange(0, 1<<20).Draw(t, "small") }

func drawDelay(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond
}

func drawPointer[N ~int | ~int64](t *rapid.T, lowest, highest int64) *N {
	if rapid.Bool().Draw(t, "absent") {
		return nil
	}
	value := N(rapid.Int64Range(lowest, highest).Draw(t, "number"))
	return &value
}

func drawList[T any](t *rapid.T, draw func(*rapid.T) T) []T {
	return rapid.SliceOfN(rapid.Custom(draw), 0, 4).Draw(t, "list")
}
