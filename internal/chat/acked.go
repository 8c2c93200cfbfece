package chat

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/impart-im/impart"
)

// How long a run waits, once everything is stored, for its own acks.
const (
	ackTime  = 2 * time.Second        // at most: a known device learns of a new conversation within a second or so
	ackLong  = 500 * time.Millisecond // once one of the user's devices has it: the others may be away
	ackAgain = 50 * time.Millisecond  // between two questions
)

// waitAcked waits until the server knows that this device holds what it has sent:
// told holds the newest seq of each conversation. Without it the last thing that
// the server hears of a script is a message, and an operator sees a device that
// lags for ever. It is a courtesy: what is stored is stored, and nothing fails.
func (c *Chat) waitAcked(ctx context.Context, told map[impart.ConvID]impart.Seq) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	for conv, seq := range told {
		for {
			own, err := c.ownDevices(ctx, conv, seq)
			if err != nil || own.Delivered > 0 && (own.Delivered == own.Devices || time.Since(began) >= ackLong) {
				break
			}
			select {
			case <-time.After(ackAgain):
			case <-ctx.Done():
				return
			}
		}
	}
}

// ownDevices asks the server on how many of the user's devices an event is. The SDK
// does not say what this one has acknowledged.
func (c *Chat) ownDevices(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.UserReport, error) {
	_, last := utf8.DecodeLastRuneInString(string(c.user))
	after := c.user[:len(c.user)-last] // sorts before the user, and after nearly all who do
	for {
		page, err := c.Who(ctx, conv, seq, after)
		if err != nil {
			return impart.UserReport{}, err
		}
		for _, u := range page.Users {
			if u.User == c.user {
				return u, nil
			}
			after = u.User
		}
		if !page.More || len(page.Users) == 0 || after > c.user {
			return impart.UserReport{}, nil
		}
	}
}
