package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart/internal/bus"
)

// tell sends what waits to the other nodes, until ctx ends or the outbox is closed and
// empty. What cannot be sent is not kept: newer hints are worth more. That it is lost
// is told to everybody as soon as that can be sent.
func (b *Bus) tell(ctx context.Context) {
	defer b.out.Finish()
	var spare []bus.Message
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-b.out.More():
		}
		messages := b.out.Take(spare[:0])
		lost, err := b.send(ctx, messages)
		b.out.Lost(lost)
		clear(messages) // their strings are not kept alive
		spare = messages
		b.setMute(err)
		if err != nil && ctx.Err() == nil {
			if failed++; failed == 1 {
				b.c.metrics.breaks.WithLabelValues("publish").Inc()
				b.cfg.Log.Warn("the bus cannot tell other nodes what is new; their sweeps find it", "err", err)
			}
			b.c.metrics.failed.WithLabelValues(partBus).Inc()
			if !wait(ctx, 25*time.Millisecond+rand.N(min(b.cfg.MaxBackoff, 25*time.Millisecond<<min(failed, 10)))) {
				return
			}
			continue
		}
		failed = 0
		if b.out.Empty() {
			return
		}
	}
}

// send sends messages, twice if need be, and gives back those that were not sent.
func (b *Bus) send(ctx context.Context, messages []bus.Message) (lost []bus.Message, err error) {
	conn := b.c.get()
	if len(messages) == 0 {
		return nil, nil
	}
	if conn == nil {
		return messages, errDown
	}
	letters := b.letters(messages)
	for attempt := 0; attempt < 2 && len(letters) > 0; attempt++ {
		letters, err = b.post(ctx, conn, letters)
	}
	for i := range letters {
		lost = append(lost, letters[i].messages...)
	}
	b.c.metrics.told.Add(float64(len(messages) - len(lost)))
	return lost, err
}

// letter is one payload for one channel.
type letter struct {
	to       string
	payload  string
	messages []bus.Message
}

// letters puts what goes through one channel together.
func (b *Bus) letters(messages []bus.Message) []letter {
	var order []channel
	to := map[channel][]bus.Message{}
	for i := range messages {
		c := channelOf(&messages[i])
		if to[c] == nil {
			order = append(order, c)
		}
		to[c] = append(to[c], messages[i])
	}
	var letters []letter
	for _, c := range order {
		for rest := to[c]; len(rest) > 0; {
			var payload []byte
			all := rest
			payload, rest = bus.AppendPayload(nil, b.cfg.Origin, rest...)
			letters = append(letters, letter{b.names.of(c), string(payload), all[:len(all)-len(rest)]})
		}
	}
	return letters
}

// lettersAtOnce bounds what is sent before an answer is waited for.
const lettersAtOnce = 256

// post sends letters once, and gives back those that failed.
func (b *Bus) post(ctx context.Context, conn rueidis.Client, letters []letter) (failed []letter, err error) {
	for len(letters) > 0 {
		n := min(len(letters), lettersAtOnce)
		some, e := b.postSome(ctx, conn, letters[:n])
		if failed = append(failed, some...); e != nil {
			err = e
		}
		letters = letters[n:]
	}
	return failed, err
}

func (b *Bus) postSome(ctx context.Context, conn rueidis.Client, letters []letter) (failed []letter, err error) {
	ctx, cancel := context.WithTimeout(ctx, silentFor) // nobody waits for it
	defer cancel()
	sharded := b.c.clustered()
	cmds := make([]rueidis.Completed, len(letters))
	for i, l := range letters {
		if sharded {
			cmds[i] = conn.B().Spublish().Channel(l.to).Message(l.payload).Build()
		} else {
			cmds[i] = conn.B().Publish().Channel(l.to).Message(l.payload).Build()
		}
	}
	for i, result := range conn.DoMulti(ctx, cmds...) {
		if e := result.Error(); e != nil {
			failed, err = append(failed, letters[i]), e
		}
	}
	return failed, err
}
