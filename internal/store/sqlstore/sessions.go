package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// selectStanding is a user with the highest session of one of their devices.
const selectStanding = "SELECT u.disabled, u.revoked, coalesce(d.session, 0) FROM users u " +
	"LEFT JOIN devices d ON d.user_id = u.user_id AND d.device_id = ? WHERE u.user_id = ?"

// Standings implements [store.Directory].
func (s *Store) Standings(ctx context.Context, of []impart.Session) ([]store.Standing, error) {
	out := make([]store.Standing, len(of))
	if len(of) == 0 {
		return out, nil
	}
	err := s.read(ctx, func(c session) error {
		asks := make([]ask, len(of))
		for i := range of {
			asks[i] = ask{selectStanding, []any{of[i].Device, of[i].User}}
		}
		if err := c.prefetch(asks); err != nil {
			return err
		}
		for i := range of {
			err := c.query(selectStanding, func(r row) error {
				out[i] = store.Standing{Disabled: r.num(0) != 0, Revoked: impart.Millis(r.num(1)), Session: r.num(2)}
				return nil
			}, of[i].Device, of[i].User)
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
