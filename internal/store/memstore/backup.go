package memstore

import (
	"maps"
	"slices"

	"github.com/impart-im/impart"
)

// Backup is a store on a copy of what has committed by now. Like one that has
// crashed it does nothing until [Store.Reopen].
func (s *Store) Backup() *Store {
	b := open(Options{Now: s.now, Shared: s.shared}, s.on().copied())
	maps.Copy(b.breaks, s.breaks)
	b.Crash()
	return b
}

func (d *disk) copied() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{server: d.server, timeline: d.timeline, state: d.state.clone()}
}

// clone copies everything that a later transaction could change.
func (st *state) clone() state {
	out := *st
	out.users, out.devices, out.dedup = cloneRows(st.users), cloneRows(st.devices), cloneRows(st.dedup)
	out.cursors, out.reads = cloneRows(st.cursors), cloneRows(st.reads)
	out.nodes, out.verdicts = cloneRows(st.nodes), cloneRows(st.verdicts)
	out.convs = cloneRows(st.convs)
	out.hidden = map[*impart.Event]bool{}
	for _, c := range out.convs {
		c.log = slices.Clone(c.log)
		for i, ev := range c.log {
			event := copyOf(ev)
			c.log[i] = &event
			if st.hidden[ev] {
				out.hidden[&event] = true
			}
		}
		c.members = cloneRows(c.members)
		for _, m := range c.members {
			m.periods = slices.Clone(m.periods)
		}
	}
	return out
}

func cloneRows[K comparable, V any](rows map[K]*V) map[K]*V {
	out := make(map[K]*V, len(rows))
	for key, row := range rows {
		copied := *row
		out[key] = &copied
	}
	return out
}
