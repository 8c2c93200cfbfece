package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/store"
)

// maxMembers is how many members one PUT of a conversation may name.
const maxMembers = 100_000

// PutConversation implements [impart.Admin]. A member who is named twice counts
// once, and must have the same role both times.
func (s *Service) PutConversation(ctx context.Context, spec impart.ConvSpec) (impart.ConvInfo, bool, error) {
	spec, err := checkSpec(spec)
	if err != nil {
		return impart.ConvInfo{}, false, s.answer(ctx, "put conversation", err)
	}
	ctx, done := detach(ctx)
	defer done()
	joins := impart.Seq(0)
	turn := s.ledger.begin()
	info, created, err := s.store.PutConversation(ctx, spec, func() (impart.MID, impart.Millis) {
		joins++
		return s.stamp()
	})
	if err == nil {
		err = s.promiseChanged(turn, info)
	}
	if err != nil {
		return impart.ConvInfo{}, false, s.answer(ctx, "put conversation", err)
	}
	s.changed(ctx, info, joins)
	return info, created, nil
}

// changed wakes those who may see the join and leave events that have just been
// written, and forgets the audience as it was. Events that the store had to
// write twice in a retried transaction make the wake-up longer than it need be,
// which is harmless.
func (s *Service) changed(ctx context.Context, info impart.ConvInfo, events impart.Seq) {
	s.audiences.drop(info.Conv)
	if events > 0 {
		s.publish(ctx, bus.Message{Kind: bus.Wake, Conv: info.Conv, From: max(1, info.Head-events+1), Head: info.Head, Everyone: true})
	}
}

// promiseChanged enters a conversation as it was left.
func (s *Service) promiseChanged(turn uint64, info impart.ConvInfo) error {
	return s.promise(turn, shelfOthers, store.Promise{What: store.PromisedChange, Conv: info.Conv, Seq: info.Head})
}

func checkSpec(spec impart.ConvSpec) (impart.ConvSpec, error) {
	if err := checkID("conv", spec.Conv); err != nil {
		return spec, err
	}
	switch spec.Kind {
	case impart.Direct, impart.Group:
	case "":
		return spec, impart.Errorf(impart.Invalid, "kind is missing: it must be direct or group")
	default:
		return spec, impart.Errorf(impart.Invalid, "kind is %q: it must be direct or group", spec.Kind)
	}
	switch spec.History {
	case impart.FromJoin, impart.HistoryAll:
	case "":
		spec.History = impart.FromJoin
	default:
		return spec, impart.Errorf(impart.Invalid, "history is %q: it must be from_join or all", spec.History)
	}
	if len(spec.Members) > maxMembers {
		return spec, impart.Errorf(impart.Invalid,
			"%d members at once, at most %d are allowed: put the conversation several times, each with some of them", len(spec.Members), maxMembers)
	}
	members, err := distinct(spec.Members)
	if err != nil {
		return spec, err
	}
	if spec.Kind == impart.Direct && len(members) != 2 {
		return spec, impart.Errorf(impart.Invalid, "a direct conversation has exactly two members, not %d", len(members))
	}
	spec.Members = members
	return spec, nil
}

// distinct checks members and names each once.
func distinct(members []impart.Member) ([]impart.Member, error) {
	roles := make(map[impart.UserID]impart.Role, len(members))
	once := make([]impart.Member, 0, len(members))
	for _, member := range members {
		if err := checkMember(member); err != nil {
			return nil, err
		}
		role, ok := roles[member.User]
		if !ok {
			roles[member.User] = member.Role
			once = append(once, member)
		} else if role != member.Role {
			return nil, impart.Errorf(impart.Invalid, "member %q is named twice, with different roles", member.User)
		}
	}
	return once, nil
}

func checkMember(member impart.Member) error {
	if err := checkUser(member.User); err != nil {
		return err
	}
	switch member.Role {
	case "", impart.RoleMember, impart.RoleAdmin:
		return nil
	default:
		return impart.Errorf(impart.Invalid, "role is %q: it must be member or admin", member.Role)
	}
}

// checkUser checks the id of a user who is not the operator.
func checkUser(user impart.UserID) error {
	if err := checkID("user", user); err != nil {
		return err
	}
	if user == impart.System {
		return impart.Errorf(impart.Invalid, "%q is the operator, who is no user", impart.System)
	}
	return nil
}

// Conversation implements [impart.Admin].
func (s *Service) Conversation(ctx context.Context, conv impart.ConvID) (impart.ConvInfo, error) {
	if err := checkID("conv", conv); err != nil {
		return impart.ConvInfo{}, s.answer(ctx, "conversation", err)
	}
	info, err := s.store.Conversation(ctx, conv)
	return info, s.answer(ctx, "conversation", err)
}

// PutMember implements [impart.Admin].
func (s *Service) PutMember(ctx context.Context, conv impart.ConvID, member impart.Member) (impart.ConvInfo, error) {
	if err := first(checkID("conv", conv), checkMember(member)); err != nil {
		return impart.ConvInfo{}, s.answer(ctx, "put member", err)
	}
	ctx, done := detach(ctx)
	defer done()
	turn := s.ledger.begin()
	info, joined, err := s.store.PutMember(ctx, conv, member, impart.System, s.stamp)
	return s.memberChanged(ctx, "put member", turn, info, joined, err)
}

// RemoveMember implements [impart.Admin].
func (s *Service) RemoveMember(ctx context.Context, conv impart.ConvID, user impart.UserID) (impart.ConvInfo, error) {
	if err := first(checkID("conv", conv), checkUser(user)); err != nil {
		return impart.ConvInfo{}, s.answer(ctx, "remove member", err)
	}
	ctx, done := detach(ctx)
	defer done()
	turn := s.ledger.begin()
	info, left, err := s.store.RemoveMember(ctx, conv, user, impart.System, s.stamp)
	return s.memberChanged(ctx, "remove member", turn, info, left, err)
}

func (s *Service) memberChanged(ctx context.Context, op string, turn uint64, info impart.ConvInfo, changed bool, err error) (impart.ConvInfo, error) {
	if err == nil {
		err = s.promiseChanged(turn, info)
	}
	if err != nil {
		return impart.ConvInfo{}, s.answer(ctx, op, err)
	}
	if changed {
		s.changed(ctx, info, 1)
	}
	return info, nil
}
