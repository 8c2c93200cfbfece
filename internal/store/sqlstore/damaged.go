package sqlstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// damagedEvent is an event that cannot be shown as it stands in the database.
type damagedEvent struct {
	conv impart.ConvID
	seq  impart.Seq
	what string
}

func (d *damagedEvent) Error() string {
	return fmt.Sprintf("the event at seq %d of %q: %s", d.seq, d.conv, d.what)
}

// undamaged refuses an event whose ext would make every frame that it is in
// unreadable, since ext goes out as it is; every other text is quoted.
func undamaged(ev *impart.Event) error {
	if len(ev.Ext) == 0 || jsontext.Value(ev.Ext).Kind() == '{' && jsontext.Value(ev.Ext).IsValid() {
		return nil
	}
	err := impart.Errorf(impart.Unavailable, "the event at seq %d is damaged in the database; what it is a part of cannot be read until an operator has mended it", ev.Seq)
	err.RetryAfter = damageRetry
	err.Cause = &damagedEvent{conv: ev.Conv, seq: ev.Seq, what: "its ext is not a JSON object"}
	return err
}

// maxDamageTold bounds the conversations that are remembered as told of.
const maxDamageTold = 1000

// damageLog is when the damage of a conversation was last logged.
type damageLog struct {
	mu   sync.Mutex
	told map[impart.ConvID]time.Time
}

// next reports whether it is time to log the damage of conv.
func (l *damageLog) next(conv impart.ConvID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, known := l.told[conv]; known && now.Sub(at) < damageTold {
		return false
	}
	if l.told == nil || len(l.told) >= maxDamageTold {
		l.told = map[impart.ConvID]time.Time{}
	}
	l.told[conv] = now
	return true
}

// tellDamage logs err if it is of a damaged event, not each time.
func (s *Store) tellDamage(err error) {
	var damage *damagedEvent
	if errors.As(err, &damage) && s.damageLog.next(damage.conv) {
		s.opts.Log.Error("a conversation is damaged: it cannot be read from there on", "conv", string(damage.conv), "seq", int64(damage.seq), "error", damage)
	}
}
