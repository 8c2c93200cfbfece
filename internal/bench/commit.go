package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// yardstick is a store that is called directly, in this process, on the disk of
// the server under load: what a commit costs there without a server around it.
type yardstick struct {
	store store.Store
	users []impart.UserID
	convs []impart.ConvID
	body  string
	next  int64
}

// newYardstick makes a store with as many conversations and members as a run has.
func (e *Env) newYardstick(ctx context.Context, users, convs, body int) (*yardstick, error) {
	st, err := e.OpenStore(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening a store to compare with: %w", err)
	}
	y := &yardstick{store: st, body: strings.Repeat("m", body)}
	for i := range users {
		y.users = append(y.users, impart.UserID(fmt.Sprintf("u-%04d", i)))
	}
	stamp := func() (impart.MID, impart.Millis) { return "", 0 } // creation writes no event
	for i := range convs {
		spec := impart.ConvSpec{Conv: impart.ConvID(fmt.Sprintf("c-%04d", i)), Kind: impart.Group}
		for _, u := range y.users {
			spec.Members = append(spec.Members, impart.Member{User: u})
		}
		if _, _, err := st.PutConversation(ctx, spec, stamp); err != nil {
			return nil, errors.Join(err, st.Close())
		}
		y.convs = append(y.convs, spec.Conv)
	}
	return y, nil
}

func (y *yardstick) close() error { return y.store.Close() }

// batch appends n messages with one call.
func (y *yardstick) batch(ctx context.Context, n int) error {
	items := make([]store.Append, n)
	for i := range items {
		items[i] = y.item()
	}
	for _, a := range y.store.Append(ctx, items) {
		if a.Err != nil {
			return a.Err
		}
	}
	return nil
}

func (y *yardstick) item() store.Append {
	n := y.next
	y.next++
	cmid := fmt.Sprintf("m-%d", n)
	sum := sha256.Sum256([]byte(cmid))
	now := time.Now()
	return store.Append{
		Kind: impart.KindMsg, Sender: y.users[n%int64(len(y.users))], Conv: y.convs[n%int64(len(y.convs))],
		CMID: impart.CMID(cmid), Type: impart.DefaultType, Body: y.body,
		// As long as a server's and rising with time like them.
		MID: impart.MID(fmt.Sprintf("%016x-%019d", now.UnixNano(), n)), At: impart.Millis(now.UnixMilli()), Hash: [16]byte(sum[:16]),
	}
}

// commit appends one message alone, and returns how long that took.
func (y *yardstick) commit(ctx context.Context) (time.Duration, error) {
	item := []store.Append{y.item()}
	start := time.Now()
	err := y.store.Append(ctx, item)[0].Err
	return time.Since(start), err
}

// controlEvery is how far apart the lone commits during a load are: too few to
// be a load themselves.
const controlEvery = 50 * time.Millisecond

// controlP99 is the figure that tells what they took.
const controlP99 = "a lone commit meanwhile, p99"

// control commits now and then while a load runs, until stop: what a lone commit
// costs on a machine as busy as it is then. A nil yardstick measures nothing.
func (y *yardstick) control(ctx context.Context) (stop func() (*Latency, error)) {
	if y == nil {
		return func() (*Latency, error) { return nil, nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	r := newRecorder()
	ended := make(chan error, 1)
	go func() {
		for sleep(ctx, controlEvery) {
			took, err := y.commit(context.WithoutCancel(ctx))
			if err != nil {
				ended <- err
				return
			}
			r.record(took)
		}
		ended <- nil
	}()
	return func() (*Latency, error) {
		cancel()
		err := <-ended
		return r.latency(), err
	}
}

// meanwhile adds to an open loop how late the bench itself was, and what a lone
// commit took while it ran: parts of the latencies that are not the server's.
func (r *Run) meanwhile(late *recorder, commit *Latency) {
	if l := late.latency(); l != nil {
		r.add("the bench itself late, p50", l.P50, "ms")
		r.add("the bench itself late, p99", l.P99, "ms")
	}
	if commit != nil {
		r.add("a lone commit meanwhile, p50", commit.P50, "ms")
		r.add(controlP99, commit.P99, "ms")
	}
}

// loneTurns is how often a lone sender and a lone commit take turns.
const loneTurns = 1000

// lone measures one sender alone, and turn and turn about with it a commit of
// one message on a store of the same kind. It returns the two runs.
func (e *Env) lone(ctx context.Context, c *crowd, y *yardstick, turns int) (send, commit Run, err error) {
	s := c.senders[0]
	over, alone := newMeter(), newRecorder()
	send, err = e.window(ctx, window{name: "one sender alone", unit: "sends"}, over, func(ctx context.Context) error {
		for range turns {
			if ctx.Err() != nil {
				return nil
			}
			start := time.Now()
			if answered, err := c.one(ctx, s); err != nil || !answered {
				return err
			}
			over.finish(time.Since(start))
			if y == nil {
				continue
			}
			took, err := y.commit(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			alone.record(took)
		}
		return nil
	})
	send.Loop, send.Of, send.Points = Closed, "a send, by the client", nil
	send.Figures = send.Figures[:1] // half of the time went to the commits
	commit = Run{Name: "a lone commit", Of: "one message committed by the store alone, in turns with the sends above", Latency: alone.latency()}
	return send, commit, err
}
