package checks

import (
	"context"
	"path/filepath"
	"time"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/probe"
)

// crashes are the checks about halts around a commit.
func crashes() []lab.Check {
	return []lab.Check{
		{
			ID: "06-crash-send.before_insert", Invariant: "D2", Short: true,
			What:   "The server halts before it writes a message; the client starts anew from its state file and sends again.",
			Expect: "exit code 137, no reply, rows 0 → 1, dup=false, empty outbox",
			Twins:  []lab.Sabotage{outboxInMemory},
			Run:    crash(fault.BeforeInsert, 0),
		},
		{
			ID: "06-crash-send.before_commit", Invariant: "D2", Short: true,
			What:   "The server halts after it wrote a message and before the commit; the client starts anew and sends again.",
			Expect: "exit code 137, no reply, rows 0 → 1, dup=false, empty outbox",
			Twins:  []lab.Sabotage{lab.Planted(fault.DedupApart, "the dedup key is committed before the event")},
			Run:    crash(fault.BeforeCommit, 0),
		},
		{
			ID: "06-crash-api.after_send_commit", Invariant: "D2", Short: true,
			What:   "The server halts after the commit and before the reply; the client starts anew and sends again.",
			Expect: "exit code 137, no reply, rows 1 → 1, dup=true, the same seq, empty outbox",
			Twins:  []lab.Sabotage{noDedup},
			Run:    crash(fault.AfterCommit, 1),
		},
	}
}

const halted = 137

// crash is the story of a server that halts at a point, and a client
// that starts anew. before is how many rows there have to be in between.
func crash(at fault.Point, before int64) func(context.Context, *lab.Bench) {
	return func(ctx context.Context, b *lab.Bench) {
		s := b.Serve()
		s.PutConv(ab, ana, ben)
		s.Restart("IM_FAULT=" + string(at) + ":halt")
		path := filepath.Join(b.Data, "ana.json")
		box, err := openOutbox(path)
		b.Must(err)
		message := item{ab, "m-1", "hi"}
		if !b.Sabotaged(outboxInMemory.Name) {
			b.Must(box.put(message))
		}
		phone := b.Device(s.Addr(), ana)
		_, failed := phone.Send(message.Conv, message.CMID, message.Body)
		code := s.Exit(10 * time.Second)
		b.Bit("exit code 137", count(code == halted))
		replied := phone.Count(probe.IsSent) > 0
		b.Wants(!replied && failed != nil, "a reply came although the server halted: %v", failed)
		between := s.Copies(ana, message.CMID)
		b.Wants(between == before, "%d row(s) after the crash instead of %d", between, before)
		seq := s.Place(ana, message.CMID)

		s.Start()
		box, err = openOutbox(path) // the client is a new process
		b.Must(err)
		phone = b.Device(s.Addr(), ana)
		dup := false
		for _, i := range append([]item(nil), box.items...) {
			sent, err := phone.Send(i.Conv, i.CMID, i.Body)
			b.Must(err)
			dup = sent.Dup
			b.Wants(dup == (before == 1), "the resend was answered dup=%v", dup)
			b.Wants(before == 0 || sent.Seq == seq, "the resend got seq %d, the row has %d", sent.Seq, seq)
			b.Must(box.settle(i.CMID))
		}
		after := s.Copies(ana, message.CMID)
		b.Wants(after == 1, "%d row(s) after the resend instead of 1", after)
		box, err = openOutbox(path)
		b.Must(err)
		b.Wants(len(box.items) == 0, "%d message(s) left in the outbox", len(box.items))
		b.Saw("exit code %d, replied %v, rows %d → %d, dup=%v, outbox %d", code, replied, between, after, dup, len(box.items))
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
