package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
)

// selectSession is a device's highest session.
const selectSession = "SELECT session FROM devices WHERE user_id = ? AND device_id = ?"

// Sessions implements [store.Directory].
func (s *Store) Sessions(ctx context.Context, of []impart.Session) ([]int64, error) {
	out := make([]int64, len(of))
	if len(of) == 0 {
		return out, nil
	}
	err := s.read(ctx, func(c session) error {
		asks := make([]ask, len(of))
		for i := range of {
			asks[i] = ask{selectSession, []any{of[i].User, of[i].Device}}
		}
		if err := c.prefetch(asks); err != nil {
			return err
		}
		for i := range of {
			err := c.query(selectSession, func(r row) error {
				out[i] = r.num(0)
				return nil
			}, of[i].User, of[i].Device)
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
