package processes

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/impart-im/impart/internal/lab/campaign"
)

// startDatabases starts the primary, and its standby where the plan has one.
func (n *Nodes) startDatabases(ctx context.Context) (err error) {
	if n.primary, err = startDatabase(ctx, n.cfg.Store, filepath.Join(n.cfg.Dir, "database.log")); err != nil {
		return err
	}
	if err = n.primary.CreateDatabase(ctx, served); err != nil || !n.plan.Standby {
		return err
	}
	n.standby, err = n.primary.Standby(ctx, filepath.Join(n.cfg.Dir, "standby.log"))
	return err
}

// db is the primary.
func (n *Nodes) db() database {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.primary
}

// wake lets the database run and answer.
func (n *Nodes) wake() error {
	return errors.Join(n.db().Resume(), n.db().Start(n.ctx))
}

// breakDatabase breaks the primary for a while, or for good.
func (n *Nodes) breakDatabase(s *campaign.Step) (mend func() error, err error) {
	db := n.db()
	if !db.Running() { // one fault of it at a time
		return nil, nil
	}
	switch s.Do {
	case campaign.DBStop:
		return n.wake, db.Halt(n.ctx)
	case campaign.DBKill:
		return n.wake, db.Kill()
	case campaign.DBPause:
		return func() error { return db.Resume() }, db.Pause()
	case campaign.Promote:
		return nil, n.promote(db)
	}
	return nil, nil
}

// promote kills the primary and lets the standby take its place, behind the same
// links.
func (n *Nodes) promote(old database) error {
	if n.standby == nil {
		return nil
	}
	if err := errors.Join(old.Resume(), old.Kill(), n.standby.Promote(n.ctx)); err != nil {
		return err
	}
	n.mu.Lock()
	n.primary, n.standby = n.standby, nil
	n.mu.Unlock()
	return old.Close()
}
