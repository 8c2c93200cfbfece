package sqlstore

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// PutConversation implements [store.Directory].
func (s *Store) PutConversation(ctx context.Context, spec impart.ConvSpec, stamp store.Stamp) (impart.ConvInfo, bool, error) {
	var info impart.ConvInfo
	created := false
	err := s.direct(ctx, func(tx *txn) (err error) {
		created, err = tx.putConversation(spec, stamp)
		if err == nil {
			info, err = readInfo(tx, spec.Conv)
		}
		return err
	})
	if err != nil {
		return impart.ConvInfo{}, false, err
	}
	return info, created, nil
}

func (tx *txn) putConversation(spec impart.ConvSpec, stamp store.Stamp) (created bool, err error) {
	if spec.History == "" {
		spec.History = impart.FromJoin
	}
	spec.Members = distinct(spec.Members)
	if spec.Kind == impart.Direct && len(spec.Members) != 2 {
		return false, impart.Errorf(impart.Invalid, "a direct conversation has exactly two members, not %d", len(spec.Members))
	}
	c, err := tx.lockConv(spec.Conv)
	if err != nil {
		return false, err
	}
	if c == nil {
		return true, tx.create(&spec)
	}
	if c.kind != spec.Kind || c.history != spec.History {
		return false, impart.Errorf(impart.Conflict, "%q exists as %s with history %s", c.id, c.kind, c.history)
	}
	if c.kind == impart.Direct {
		for _, m := range spec.Members {
			if known, err := readMember(tx, c.id, m.User); err != nil || known == nil {
				return false, orElse(err, impart.Errorf(impart.Invalid, "%q is a direct conversation of two others", c.id))
			}
		}
	}
	for _, m := range spec.Members {
		if _, err := tx.join(c.id, m, impart.System, stamp); err != nil {
			return false, err
		}
	}
	return false, nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// distinct keeps the last naming of each user, where the first one stood.
func distinct(members []impart.Member) []impart.Member {
	at := map[impart.UserID]int{}
	var out []impart.Member
	for _, m := range members {
		if i, ok := at[m.User]; ok {
			out[i] = m
			continue
		}
		at[m.User] = len(out)
		out = append(out, m)
	}
	return out
}

// create makes a conversation whose members see it from seq 1. It writes no event.
func (tx *txn) create(spec *impart.ConvSpec) error {
	err := tx.one("INSERT INTO conversations (conv_id, kind, next_seq, floor, history, members_version, updated_at) VALUES (?, ?, 1, 0, ?, 1, 0)",
		spec.Conv, spec.Kind, spec.History)
	if err != nil {
		return err
	}
	for _, m := range spec.Members {
		if err := tx.openPeriod(spec.Conv, m.User, roleOr(m.Role, impart.RoleMember), 1); err != nil {
			return err
		}
	}
	return nil
}

func roleOr(role, other impart.Role) impart.Role {
	if role == "" {
		return other
	}
	return role
}

func (tx *txn) openPeriod(conv impart.ConvID, user impart.UserID, role impart.Role, from impart.Seq) error {
	if _, err := tx.exec(tx.s.sql.newUser, user); err != nil {
		return err
	}
	err := tx.one("INSERT INTO members (conv_id, user_id, role, from_seq) VALUES (?, ?, ?, ?)", conv, user, role, from)
	tx.members.drop(memberKey{conv, user})
	return err
}

// PutMember implements [store.Directory].
func (s *Store) PutMember(ctx context.Context, conv impart.ConvID, m impart.Member, by impart.UserID, stamp store.Stamp) (impart.ConvInfo, bool, error) {
	var info impart.ConvInfo
	joined := false
	err := s.direct(ctx, func(tx *txn) error {
		err := tx.checkGroup(conv)
		if err != nil {
			return err
		}
		if joined, err = tx.join(conv, m, by, stamp); err != nil {
			return err
		}
		info, err = readInfo(tx, conv)
		return err
	})
	if err != nil {
		return impart.ConvInfo{}, false, err
	}
	return info, joined, nil
}

// checkGroup refuses an unknown conversation, and a direct one, whose members stay.
func (tx *txn) checkGroup(conv impart.ConvID) error {
	c, err := tx.lockConv(conv)
	switch {
	case err != nil:
		return err
	case c == nil:
		return noConversation(conv)
	case c.kind == impart.Direct:
		return impart.Errorf(impart.Invalid, "%q is a direct conversation: its two members stay", conv)
	}
	return nil
}

// join opens a period with its event, unless the user is a member already; then
// only the role may change.
func (tx *txn) join(conv impart.ConvID, m impart.Member, by impart.UserID, stamp store.Stamp) (bool, error) {
	old, err := tx.member(conv, m.User)
	if err != nil {
		return false, err
	}
	if old != nil && old.periods.Open() {
		return false, tx.changeRole(conv, m, old)
	}
	c, err := tx.conv(conv)
	if err != nil {
		return false, err
	}
	ev := impart.Event{Conv: conv, Kind: impart.KindJoin, User: m.User, By: by}
	if err := tx.logChange(c, &ev, stamp); err != nil {
		return false, err
	}
	from, role := ev.Seq, roleOr(m.Role, impart.RoleMember)
	if c.history == impart.HistoryAll {
		from = 1
		if old != nil {
			from = old.periods[len(old.periods)-1].To + 1
		}
	}
	if old != nil {
		role = roleOr(m.Role, old.role)
	}
	return true, tx.openPeriod(conv, m.User, role, from)
}

// changeRole writes no event, and yet raises the members' version: who remembers
// members by it must not go by an old role.
func (tx *txn) changeRole(conv impart.ConvID, m impart.Member, old *member) error {
	if m.Role == "" || m.Role == old.role {
		return nil
	}
	tx.convs.drop(conv)
	if err := tx.one("UPDATE conversations SET members_version = members_version + 1 WHERE conv_id = ?", conv); err != nil {
		return err
	}
	from := old.periods[len(old.periods)-1].From
	err := tx.one("UPDATE members SET role = ? WHERE conv_id = ? AND user_id = ? AND from_seq = ?", m.Role, conv, m.User, from)
	tx.members.drop(memberKey{conv, m.User})
	return err
}

// logChange appends a join or leave event and raises the members' version.
func (tx *txn) logChange(c *convState, ev *impart.Event, stamp store.Stamp) error {
	if err := tx.examine(c); err != nil {
		return err
	}
	if c.damage != nil {
		return damagedError(aim{conv: c.id}, c.damage)
	}
	tx.convs.drop(c.id) // until the transaction is through with it
	now := *c
	ev.Sender, ev.Seq = impart.System, now.next
	ev.MID, ev.At = stamp()
	now.next++
	now.version++
	err := tx.one("UPDATE conversations SET next_seq = ?, members_version = ?, updated_at = ? WHERE conv_id = ?", now.next, now.version, tx.now, now.id)
	if err != nil {
		return err
	}
	tx.stored(ev.Conv, ev.Seq, now.version)
	return tx.insertEvent(ev)
}

// RemoveMember implements [store.Directory].
func (s *Store) RemoveMember(ctx context.Context, conv impart.ConvID, user, by impart.UserID, stamp store.Stamp) (impart.ConvInfo, bool, error) {
	var info impart.ConvInfo
	left := false
	err := s.direct(ctx, func(tx *txn) error {
		err := tx.checkGroup(conv)
		if err != nil {
			return err
		}
		if left, err = tx.leave(conv, user, by, stamp); err != nil {
			return err
		}
		info, err = readInfo(tx, conv)
		return err
	})
	if err != nil {
		return impart.ConvInfo{}, false, err
	}
	return info, left, nil
}

// leave closes an open period with its event.
func (tx *txn) leave(conv impart.ConvID, user, by impart.UserID, stamp store.Stamp) (bool, error) {
	old, err := tx.member(conv, user)
	if err != nil || old == nil || !old.periods.Open() {
		return false, err
	}
	c, err := tx.conv(conv)
	if err != nil {
		return false, err
	}
	ev := impart.Event{Conv: conv, Kind: impart.KindLeave, User: user, By: by}
	if err := tx.logChange(c, &ev, stamp); err != nil {
		return false, err
	}
	from := old.periods[len(old.periods)-1].From
	err = tx.one("UPDATE members SET to_seq = ? WHERE conv_id = ? AND user_id = ? AND from_seq = ?", ev.Seq, conv, user, from)
	tx.members.drop(memberKey{conv, user})
	return true, err
}

// Conversation implements [store.Directory].
func (s *Store) Conversation(ctx context.Context, conv impart.ConvID) (impart.ConvInfo, error) {
	var info impart.ConvInfo
	err := s.read(ctx, func(c session) (err error) {
		info, err = readInfo(c, conv)
		return err
	})
	if err != nil {
		return impart.ConvInfo{}, err
	}
	return info, nil
}

func readInfo(s session, conv impart.ConvID) (info impart.ConvInfo, err error) {
	c, err := readConv(s, conv)
	if err != nil {
		return info, err
	}
	if c == nil {
		return info, noConversation(conv)
	}
	info = impart.ConvInfo{Conv: conv, Kind: c.kind, History: c.history, Head: c.last(), Floor: c.floor}
	err = eachPeriod(s, conv, func(user impart.UserID, role impart.Role, p impart.Period) {
		n := len(info.Members)
		if n == 0 || info.Members[n-1].User != user {
			info.Members = append(info.Members, impart.MemberInfo{User: user})
			n++
		}
		m := &info.Members[n-1]
		m.Role, m.Periods = role, append(m.Periods, p)
	})
	return info, err
}

// eachPeriod goes through the periods of all members, ascending by user and seq.
func eachPeriod(s session, conv impart.ConvID, each func(impart.UserID, impart.Role, impart.Period)) error {
	return s.query("SELECT user_id, role, from_seq, to_seq FROM members WHERE conv_id = ? ORDER BY user_id, from_seq", func(r row) error {
		each(impart.UserID(r.str(0)), impart.Role(r.str(1)), impart.Period{From: r.seq(2), To: r.seq(3)})
		return nil
	}, conv)
}

// Audience implements [store.Directory].
func (s *Store) Audience(ctx context.Context, conv impart.ConvID) (*impart.Audience, error) {
	out := &impart.Audience{Conv: conv, Members: map[impart.UserID]impart.Periods{}}
	err := s.read(ctx, func(c session) error {
		state, err := readConv(c, conv)
		if err != nil {
			return err
		}
		if state == nil {
			return noConversation(conv)
		}
		out.Version = state.version
		return eachPeriod(c, conv, func(user impart.UserID, _ impart.Role, p impart.Period) {
			out.Members[user] = append(out.Members[user], p)
			if p.To == 0 {
				out.Current++
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
