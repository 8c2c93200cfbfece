package bench

import (
	"context"
	"fmt"
)

// findLimit doubles the multiple until the load is not carried, and then halves
// the interval until it is narrow.
func (b *baseline) findLimit(ctx context.Context) error {
	const (
		highest = 256.0
		lowest  = 0.01
		narrow  = 1.15 // between what is carried and what is not
	)
	good, bad := 0.0, 0.0
	var why string
	for next := b.load.Multiple; next <= highest && ctx.Err() == nil; {
		h, err := b.window(ctx, next, b.load.Step)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break // cut short, so it says nothing
		}
		b.Report.Runs = append(b.Report.Runs, h.sends, h.pushes)
		if h.carried() {
			good = next
		} else {
			bad, why = next, h.why()
			if h.behind > 0 {
				break // the devices do not come back from that
			}
		}
		switch {
		case bad == 0:
			next *= 2
		case good == 0:
			next /= 2
		default:
			next = (good + bad) / 2
		}
		if bad > 0 && good > 0 && bad/good < narrow || next < lowest {
			break
		}
	}
	if good == 0 && ctx.Err() != nil {
		return nil // interrupted before anything was found
	}
	b.Report.add(Check{"a multiple was carried", good > 0, fmt.Sprintf("%s × the baseline, %.0f messages a second", number(good), good*baselineSends)})
	if bad > 0 {
		b.Report.note(fmt.Sprintf("%s × the baseline is carried; %s × is not: %s", number(good), number(bad), why))
	}
	return nil
}
