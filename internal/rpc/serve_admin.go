package rpc

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

type adminService struct {
	impartpb.UnimplementedAdminServiceServer
	*Server
}

func (s *adminService) PutUser(ctx context.Context, r *impartpb.PutUserRequest) (*impartpb.UserInfo, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	info, err := s.cfg.Admin.PutUser(ctx, impart.UserID(r.User), r.Disabled)
	return answer(info, err, toUserInfo)
}

func (s *adminService) RevokeUser(ctx context.Context, r *impartpb.RevokeUserRequest) (*impartpb.UserInfo, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	info, err := s.cfg.Admin.RevokeUser(ctx, impart.UserID(r.User))
	return answer(info, err, toUserInfo)
}

func (s *adminService) User(ctx context.Context, r *impartpb.UserRequest) (*impartpb.UserInfo, error) {
	info, err := s.cfg.Admin.User(ctx, impart.UserID(r.User))
	return answer(info, err, toUserInfo)
}

func (s *adminService) PutConversation(ctx context.Context, r *impartpb.PutConversationRequest) (*impartpb.PutConversationReply, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	info, created, err := s.cfg.Admin.PutConversation(ctx, impart.ConvSpec{
		Conv: impart.ConvID(r.ConvId), Kind: impart.ConvKind(r.Kind), History: impart.History(r.History), Members: convert(r.Members, fromMember),
	})
	return answer(info, err, func(info impart.ConvInfo) *impartpb.PutConversationReply {
		return &impartpb.PutConversationReply{Info: toConvInfo(info), Created: created}
	})
}

func (s *adminService) Conversation(ctx context.Context, r *impartpb.ConversationRequest) (*impartpb.ConvInfo, error) {
	info, err := s.cfg.Admin.Conversation(ctx, impart.ConvID(r.ConvId))
	return answer(info, err, toConvInfo)
}

func (s *adminService) PutMember(ctx context.Context, r *impartpb.PutMemberRequest) (*impartpb.ConvInfo, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	info, err := s.cfg.Admin.PutMember(ctx, impart.ConvID(r.ConvId), fromMember(r.Member))
	return answer(info, err, toConvInfo)
}

func (s *adminService) RemoveMember(ctx context.Context, r *impartpb.RemoveMemberRequest) (*impartpb.ConvInfo, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	info, err := s.cfg.Admin.RemoveMember(ctx, impart.ConvID(r.ConvId), impart.UserID(r.User))
	return answer(info, err, toConvInfo)
}

func (s *adminService) Delivery(ctx context.Context, r *impartpb.DeliveryRequest) (*impartpb.DeliveryReply, error) {
	delivery, err := s.cfg.Admin.Delivery(ctx, impart.ConvID(r.ConvId), impart.Seq(r.Seq))
	return answer(delivery, err, toDelivery)
}

func (s *adminService) Devices(ctx context.Context, r *impartpb.DevicesRequest) (*impartpb.DevicesReply, error) {
	devices, err := s.cfg.Admin.Devices(ctx, impart.DeviceID(r.Device), impart.UserID(r.User))
	return answer(devices, err, func(list []impart.DeviceInfo) *impartpb.DevicesReply {
		return &impartpb.DevicesReply{Devices: convert(list, toDevice)}
	})
}

func (s *adminService) RaiseEpoch(ctx context.Context, r *impartpb.RaiseEpochRequest) (*impartpb.EpochReply, error) {
	if err := s.fresh(r.Beat); err != nil {
		return nil, toStatus(err)
	}
	epoch, err := s.cfg.Admin.RaiseEpoch(ctx)
	return answer(epoch, err, toEpoch)
}

func (s *adminService) History(ctx context.Context, _ *impartpb.HistoryRequest) (*impartpb.HistoryInfo, error) {
	info, err := s.cfg.Admin.History(ctx)
	return answer(info, err, toHistory)
}
