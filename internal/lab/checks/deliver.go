package checks

import (
	"context"
	"errors"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/probe"
)

// deliveries are the checks about replies, acks and pushes.
func deliveries() []lab.Check {
	return []lab.Check{
		{
			ID: "06-lost-reply-retry", Invariant: "D2", Short: true,
			What:   "The reply to a send is lost once; the client times out after 1,500 ms and sends again.",
			Expect: "timeout, then dup=true with the same seq, 1 row",
			Twins:  []lab.Sabotage{freshCMID, noDedup},
			Run:    lostReply,
		},
		{
			ID: "06-push-ack-advances-cursor", Invariant: "D3", Short: true,
			What:   "A device gets a push, is looked at, and acknowledges: its cursor moves then and not before.",
			Expect: "cursor 0 after the push, the event's seq after the ack",
			Twins:  []lab.Sabotage{lab.Planted(fault.AckOnPush, "a pushed event counts as delivered")},
			Run:    pushAck,
		},
		{
			ID: "06-ack-monotonic-and-bounded", Invariant: "D4", Short: true,
			What:   "A device acknowledges less than before, and more than there is.",
			Expect: "acked stays at 7, CURSOR_AHEAD for 107, the row stays at 7",
			Twins: []lab.Sabotage{
				lab.Planted(fault.CursorBack, "the last ack wins instead of the highest"),
				lab.Planted(fault.CursorAhead, "an ack beyond head is taken"),
			},
			Run: ackBounds,
		},
		{
			ID: "06-lost-push-swept", Invariant: "D5", Short: true,
			What:   "Every push is lost, retries too; the sweep runs each 500 ms and the device syncs when it is hinted.",
			Expect: "hint, sync and ack within 3,000 ms, without a push",
			Twins:  []lab.Sabotage{noSweep},
			Run:    lostPush,
		},
	}
}

// freshCMID is the mistake that clients make most easily.
var freshCMID = lab.Sabotage{Name: "fresh-cmid", What: "the client makes a new cmid for each attempt"}

const replyTimeout = 1500 * time.Millisecond

func lostReply(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_FAULT=gw.reply.send:drop:0:1")
	s.PutConv(ab, ana, ben)
	phone := b.Device(s.Addr(), ana)
	_, err := phone.SendWithin(replyTimeout, ab, "m-1", "hi")
	b.Bit("replies lost", s.Struck(fault.ReplySend))
	b.Wants(err != nil, "the first attempt was answered although its reply was lost")
	seq := s.Place(ana, "m-1")
	cmid := impart.CMID("m-1")
	if b.Sabotaged(freshCMID.Name) {
		cmid = "m-1-again"
	}
	sent := phone.MustSend(ab, cmid, "hi")
	n := s.Sent(ana)
	b.Wants(sent.Dup && sent.Seq == seq, "the resend got dup=%v and seq %d, the row has seq %d", sent.Dup, sent.Seq, seq)
	b.Wants(n == 1, "%d row(s) instead of 1", n)
	first := "no reply"
	if err == nil {
		first = "a reply"
	}
	b.Saw("%s within %v; resend: dup=%v seq=%d; %d row(s)", first, replyTimeout, sent.Dup, sent.Seq, n)
}

func pushAck(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_SWEEP_MS=200")
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	const last = 7
	for i := range last {
		phone.MustSend(ab, cmid("m", i), "hi")
	}
	_, pushed := other.Hears(5*time.Second, probe.IsEvent(ab, last))
	b.Bit("pushes", other.Count(isPush))
	b.Wants(pushed, "the push did not come")
	// A cursor that moves by itself does so within a sweep or two.
	moved := b.Eventually(time.Second, func() bool { return s.Cursor(ben, other.ID, ab) > 0 })
	before := s.Cursor(ben, other.ID, ab)
	b.Wants(!moved, "the cursor is at %d and nothing was acknowledged", before)
	acked, err := other.Ack(ab, last)
	b.Must(err)
	after := s.Cursor(ben, other.ID, ab)
	b.Wants(acked == last && after == last, "acked says %d and the row %d instead of %d", acked, after, last)
	b.Saw("cursor %d after the push, %d after the ack of %d", before, after, last)
}

func ackBounds(ctx context.Context, b *lab.Bench) {
	s := b.Serve()
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	const last = 7
	for i := range last {
		phone.MustSend(ab, cmid("m", i), "hi")
	}
	_, err := other.Ack(ab, last)
	b.Must(err)
	lower, err := other.Ack(ab, 1)
	b.Must(err)
	b.Bit("acks below", 1)
	b.Wants(lower == last, "an ack of 1 was answered with %d instead of %d", lower, last)
	_, err = other.Ack(ab, last+100)
	b.Bit("acks beyond", 1)
	var refused *impart.Error
	ahead := errors.As(err, &refused) && refused.Code == impart.CursorAhead
	b.Wants(ahead, "an ack of %d got %v instead of CURSOR_AHEAD", last+100, err)
	row := s.Cursor(ben, other.ID, ab)
	b.Wants(row == last, "the row is at %d instead of %d", row, last)
	b.Saw("acked=%d after an ack of 1; %v after one of %d; the row is at %d", lower, impart.CodeOf(err), last+100, row)
}

func lostPush(ctx context.Context, b *lab.Bench) {
	s := b.Serve("IM_FAULT=gw.push:drop", "IM_SWEEP_MS=500")
	s.PutConv(ab, ana, ben)
	phone, other := b.Device(s.Addr(), ana), b.Device(s.Addr(), ben)
	began := time.Now()
	sent := phone.MustSend(ab, "m-1", "hi")
	const bound = 3 * time.Second
	_, hinted := other.Hears(bound, probe.IsHint(ab, ""))
	if hinted {
		page := other.Sync(ab, 0)
		_, err := other.Ack(ab, page.Through)
		b.Must(err)
	}
	took := time.Since(began)
	row := s.Cursor(ben, other.ID, ab)
	b.Bit("pushes lost", s.Struck(fault.Push))
	pushes := other.Count(isPush)
	b.Wants(pushes == 0, "%d push(es) came through although all were lost", pushes)
	b.Wants(row == sent.Seq && took <= bound, "the cursor is at %d of %d after %v", row, sent.Seq, took.Round(time.Millisecond))
	b.Saw("repaired in %d ms, cursor %d, pushes %d", took.Milliseconds(), row, pushes)
}
