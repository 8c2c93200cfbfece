package checks

import (
	"context"
	"fmt"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/internal/lab/rows"
)

// crowd are three apps that talk in one group, each through one of the nodes.
type crowd struct {
	apps []*lab.App
	sent []int
	body string // follows the number of each message
}

func newCrowd(b *lab.Bench, nodes []*lab.Server) *crowd {
	users := []impart.UserID{"u-1", "u-2", "u-3"}
	nodes[0].PutConv(ab, users...)
	c := &crowd{sent: make([]int, len(users))}
	for i, user := range users {
		a := b.App(nodes[i%len(nodes)].Addr(), user)
		a.Start()
		a.Online()
		c.apps = append(c.apps, a)
	}
	return c
}

// talk lets all of them send for a while.
func (c *crowd) talk(b *lab.Bench, d time.Duration) {
	end := time.Now().Add(d)
	b.Each(len(c.apps), func(i int) {
		for ; time.Now().Before(end); c.sent[i]++ {
			c.apps[i].Send(ab, cmid(string(c.apps[i].User), c.sent[i]), fmt.Sprint("message ", c.sent[i], c.body))
			b.Pause(15 * time.Millisecond)
		}
	})
}

// stored waits until there are as many rows as messages.
func (c *crowd) stored(b *lab.Bench, nodes []*lab.Server, within time.Duration) bool {
	messages := int64(0)
	for _, n := range c.sent {
		messages += int64(n)
	}
	stored := b.Eventually(within, func() bool { return nodes[0].Total() >= messages })
	b.Wants(stored, "%d row(s) for %d message(s)", nodes[0].Total(), messages)
	return stored
}

// goesBackExpect is what must hold when a history lacks what was acknowledged.
const goesBackExpect = "the epoch rises once, lost promises are counted, the apps send again what was undone, and all end with one log, without a hole and each message once"

// judgeRaised holds against goesBackExpect what became of a log that went back when
// the epoch was before.
func (c *crowd) judgeRaised(ctx context.Context, b *lab.Bench, nodes []*lab.Server, before impart.Epoch, began time.Time) {
	stored := c.stored(b, nodes, 25*time.Second)
	took := time.Since(began)
	epoch := nodes[0].Epoch()
	b.Wants(epoch > before, "the epoch is still %d, and acknowledged events are gone", epoch)
	counted := 0.0
	for _, s := range nodes {
		counted += s.Metric("im_lost_acknowledged_total")
	}
	b.Wants(counted > 0, "nothing is counted as lost")
	for i := 0; stored && i < len(c.apps); i++ {
		judgeConverged(ctx, b, nodes[0], c.apps[i])
	}
	checkLog(ctx, b, nodes[0])
	b.Wants(nodes[0].Epoch() == epoch, "the epoch rose again, to %d", nodes[0].Epoch())
	b.Figure("until all messages are stored again", took.Seconds()*1000, "ms")
	b.Saw("epoch %d → %d, %v lost promise(s) counted, %d row(s), all there after %d ms", before, epoch, counted, nodes[0].Total(), took.Milliseconds())
}

// judgeConverged wants an app whose history was rewound to end with the log: what it
// holds after all that it was told, and what its messages were last said to be.
func judgeConverged(ctx context.Context, b *lab.Bench, s *lab.Server, a *lab.App) {
	var log []rows.Event
	s.Look(func(db *rows.DB) (err error) { log, err = db.Events(ctx, ab); return err })
	there := map[impart.CMID]rows.Event{}
	for _, e := range log {
		if e.Sender == a.User {
			there[e.CMID] = e
		}
	}
	holds := func() (map[impart.Seq]impart.MID, map[impart.CMID]impart.Seq) {
		has, told := map[impart.Seq]impart.MID{}, map[impart.CMID]impart.Seq{}
		for _, l := range a.All() {
			switch {
			case l.Saw == "handled" && l.Conv == ab:
				has[l.Seq] = l.MID
			case l.Saw == "rewound" && l.Conv == ab:
				for seq := range has {
					if seq > l.Seq {
						delete(has, seq)
					}
				}
			case l.Saw == "settled" && l.Err == "":
				told[l.CMID] = l.Seq
			}
		}
		return has, told
	}
	wrong := func() (n int) {
		has, _ := holds()
		for _, e := range log {
			if has[e.Seq] != e.MID {
				n++
			}
		}
		return n + max(0, len(has)-len(log))
	}
	b.Eventually(20*time.Second, func() bool { return wrong() == 0 && a.Outbox() == 0 })
	b.Wants(wrong() == 0, "%s differs from the log in %d of %d event(s)", a.Name, wrong(), len(log))
	b.Wants(a.Outbox() == 0, "the outbox of %s is not empty", a.Name)
	_, told := holds()
	for m, seq := range told {
		b.Wants(there[m].Seq == seq, "%s was last told that %s is sent as seq %d, and the log has it as %d", a.Name, m, seq, there[m].Seq)
	}
}
