package memstore

import (
	"context"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// PutConversation implements [store.Directory].
func (s *Store) PutConversation(ctx context.Context, spec impart.ConvSpec, stamp store.Stamp) (info impart.ConvInfo, created bool, err error) {
	failed := s.write(ctx, 1, func(st *state) {
		if err = s.checkSpec(st, &spec); err != nil {
			return
		}
		c := st.convs[spec.Conv]
		if created = c == nil; created {
			c = &conversation{id: spec.Conv, kind: spec.Kind, history: spec.History, version: 1, members: map[impart.UserID]*member{}}
			st.convs[spec.Conv] = c
			for _, m := range spec.Members {
				c.members[m.User] = &member{role: orMember(m.Role), periods: impart.Periods{{From: 1}}}
			}
		} else {
			for _, m := range spec.Members {
				s.join(c, m, impart.System, stamp)
			}
		}
		info = c.info()
	})
	if failed != nil {
		return impart.ConvInfo{}, false, failed
	}
	return info, created, err
}

func orMember(role impart.Role) impart.Role {
	if role == "" {
		return impart.RoleMember
	}
	return role
}

// checkSpec refuses what cannot become, or is not, the conversation asked for.
func (s *Store) checkSpec(st *state, spec *impart.ConvSpec) error {
	if spec.History == "" {
		spec.History = impart.FromJoin
	}
	named := map[impart.UserID]bool{}
	for _, m := range spec.Members {
		named[m.User] = true
	}
	if spec.Kind == impart.Direct && len(named) != 2 && !s.breaks[BreakDirect] {
		return impart.Errorf(impart.Invalid, "a direct conversation has exactly two members, not %d", len(named))
	}
	c := st.convs[spec.Conv]
	if c == nil {
		return nil
	}
	if (c.kind != spec.Kind || c.history != spec.History) && !s.breaks[BreakConflict] {
		return impart.Errorf(impart.Conflict, "%q exists as %s with history %s", spec.Conv, c.kind, c.history)
	}
	for user := range named {
		if c.kind == impart.Direct && c.members[user] == nil {
			return impart.Errorf(impart.Invalid, "%q is a direct conversation of two others", spec.Conv)
		}
	}
	return nil
}

// join opens a period unless the user is a member already.
func (s *Store) join(c *conversation, m impart.Member, by impart.UserID, stamp store.Stamp) bool {
	old := c.members[m.User]
	if old != nil && (m.Role != "" || s.breaks[BreakRoleKept]) {
		old.role = orMember(m.Role)
	}
	if old != nil && old.periods.Open() {
		if s.breaks[BreakJoinTwice] {
			mid, at := stamp()
			s.push(c, &impart.Event{Conv: c.id, Kind: impart.KindJoin, MID: mid, Sender: impart.System, User: m.User, By: by, At: at})
		}
		return false
	}
	if old == nil {
		old = &member{role: orMember(m.Role)}
		c.members[m.User] = old
	}
	mid, at := stamp()
	s.push(c, &impart.Event{Conv: c.id, Kind: impart.KindJoin, MID: mid, Sender: impart.System, User: m.User, By: by, At: at})
	from := c.head
	if c.history == impart.HistoryAll && !s.breaks[BreakHistoryPolicy] {
		from = 1
		if n := len(old.periods); n > 0 {
			from = old.periods[n-1].To + 1
		}
	}
	old.periods = append(old.periods, impart.Period{From: from})
	s.membersChanged(c)
	return true
}

func (s *Store) membersChanged(c *conversation) {
	if !s.breaks[BreakMembersVersion] {
		c.version++
	}
}

// PutMember implements [store.Directory].
func (s *Store) PutMember(ctx context.Context, conv impart.ConvID, m impart.Member, by impart.UserID, stamp store.Stamp) (info impart.ConvInfo, joined bool, err error) {
	failed := s.write(ctx, 1, func(st *state) {
		c := st.convs[conv]
		if err = checkGroup(c, conv); err != nil {
			return
		}
		joined = s.join(c, m, by, stamp)
		info = c.info()
	})
	if failed != nil {
		return impart.ConvInfo{}, false, failed
	}
	return info, joined, err
}

func checkGroup(c *conversation, conv impart.ConvID) error {
	switch {
	case c == nil:
		return notFound(conv)
	case c.kind == impart.Direct:
		return impart.Errorf(impart.Invalid, "%q is a direct conversation: its two members stay", conv)
	}
	return nil
}

// RemoveMember implements [store.Directory].
func (s *Store) RemoveMember(ctx context.Context, conv impart.ConvID, user, by impart.UserID, stamp store.Stamp) (info impart.ConvInfo, left bool, err error) {
	failed := s.write(ctx, 1, func(st *state) {
		c := st.convs[conv]
		if err = checkGroup(c, conv); err != nil {
			return
		}
		if m := c.members[user]; m != nil && m.periods.Open() {
			mid, at := stamp()
			s.push(c, &impart.Event{Conv: conv, Kind: impart.KindLeave, MID: mid, Sender: impart.System, User: user, By: by, At: at})
			m.periods[len(m.periods)-1].To = c.head
			s.membersChanged(c)
			left = true
		}
		info = c.info()
	})
	if failed != nil {
		return impart.ConvInfo{}, false, failed
	}
	return info, left, err
}

func (c *conversation) info() impart.ConvInfo {
	info := impart.ConvInfo{Conv: c.id, Kind: c.kind, History: c.history, Head: c.head, Floor: c.floor}
	for _, user := range sortedKeys(c.members) {
		m := c.members[user]
		info.Members = append(info.Members, impart.MemberInfo{User: user, Role: m.role, Periods: slices.Clone(m.periods)})
	}
	return info
}

// Conversation implements [store.Directory].
func (s *Store) Conversation(ctx context.Context, conv impart.ConvID) (info impart.ConvInfo, err error) {
	failed := s.read(ctx, func(st *state) {
		c := st.convs[conv]
		if c == nil {
			err = notFound(conv)
			return
		}
		info = c.info()
	})
	if failed != nil {
		return impart.ConvInfo{}, failed
	}
	return info, err
}

// Audience implements [store.Directory].
func (s *Store) Audience(ctx context.Context, conv impart.ConvID) (audience *impart.Audience, err error) {
	failed := s.read(ctx, func(st *state) {
		c := st.convs[conv]
		if c == nil {
			err = notFound(conv)
			return
		}
		audience = &impart.Audience{Conv: conv, Version: c.version, Members: map[impart.UserID]impart.Periods{}}
		for user, m := range c.members {
			audience.Members[user] = slices.Clone(m.periods)
			if m.periods.Open() {
				audience.Current++
			}
		}
	})
	if failed != nil {
		return nil, failed
	}
	return audience, err
}

// Delivery implements [store.Directory].
func (s *Store) Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (out impart.Delivery, err error) {
	failed := s.read(ctx, func(st *state) {
		c := st.convs[conv]
		if c == nil {
			err = notFound(conv)
			return
		}
		ev := c.at(seq)
		if ev == nil {
			err = impart.Errorf(impart.NotFound, "there is no event at seq %d of %q", seq, conv)
			return
		}
		out = impart.Delivery{Event: copyOf(ev), Head: c.head}
		out.Event.Body, out.Event.Ext = "", nil
		for _, user := range sortedKeys(c.members) {
			if c.members[user].periods.Sees(ev) {
				out.Users = append(out.Users, s.userDelivery(st, user, ev))
			}
		}
	})
	if failed != nil {
		return impart.Delivery{}, failed
	}
	return out, err
}

func (s *Store) userDelivery(st *state, user impart.UserID, ev *impart.Event) impart.UserDelivery {
	out := impart.UserDelivery{User: user, Read: s.readUpTo(st, readKey{user, ev.Conv}) >= ev.Seq}
	mine := map[impart.DeviceID]bool{}
	for key := range st.devices {
		if key.user == user {
			mine[key.device] = true
		}
	}
	for _, id := range sortedKeys(mine) {
		out.Devices = append(out.Devices, s.deviceCursor(st, cursorKey{deviceKey{user, id}, ev.Conv}))
	}
	return out
}
