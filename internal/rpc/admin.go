package rpc

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/rpc/impartpb"
)

// What changes something here is made once. A repeat alone would change nothing, but
// a first attempt that comes late, after the operator has gone on, would undo what
// came between.

// PutUser implements [impart.Admin].
func (c *Client) PutUser(ctx context.Context, user impart.UserID, disabled *bool) (impart.UserInfo, error) {
	return unary(ctx, c, kind{"put_user", hashOf(user), once}, admin, impartpb.AdminServiceClient.PutUser,
		func(beat int64) *impartpb.PutUserRequest {
			return &impartpb.PutUserRequest{User: string(user), Disabled: disabled, Beat: beat}
		}, fromUserInfo)
}

// RevokeUser implements [impart.Admin].
func (c *Client) RevokeUser(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	return unary(ctx, c, kind{"revoke_user", hashOf(user), once}, admin, impartpb.AdminServiceClient.RevokeUser,
		func(beat int64) *impartpb.RevokeUserRequest {
			return &impartpb.RevokeUserRequest{User: string(user), Beat: beat}
		}, fromUserInfo)
}

// User implements [impart.Admin].
func (c *Client) User(ctx context.Context, user impart.UserID) (impart.UserInfo, error) {
	return unary(ctx, c, kind{"user", hashOf(user), again}, admin, impartpb.AdminServiceClient.User,
		plain(&impartpb.UserRequest{User: string(user)}), fromUserInfo)
}

// PutConversation implements [impart.Admin].
func (c *Client) PutConversation(ctx context.Context, spec impart.ConvSpec) (info impart.ConvInfo, created bool, err error) {
	defer c.audiences.stale(spec.Conv)
	reply, err := unary(ctx, c, kind{"put_conversation", hashOf(spec.Conv), once}, admin, impartpb.AdminServiceClient.PutConversation,
		func(beat int64) *impartpb.PutConversationRequest {
			return &impartpb.PutConversationRequest{
				ConvId: string(spec.Conv), Kind: string(spec.Kind), History: string(spec.History), Members: convert(spec.Members, toMember), Beat: beat,
			}
		}, func(r *impartpb.PutConversationReply) *impartpb.PutConversationReply { return r })
	if err != nil {
		return impart.ConvInfo{}, false, err
	}
	return fromConvInfo(reply.Info), reply.Created, nil
}

// Conversation implements [impart.Admin].
func (c *Client) Conversation(ctx context.Context, conv impart.ConvID) (impart.ConvInfo, error) {
	return unary(ctx, c, kind{"conversation", hashOf(conv), again}, admin, impartpb.AdminServiceClient.Conversation,
		plain(&impartpb.ConversationRequest{ConvId: string(conv)}), fromConvInfo)
}

// PutMember implements [impart.Admin].
func (c *Client) PutMember(ctx context.Context, conv impart.ConvID, member impart.Member) (impart.ConvInfo, error) {
	defer c.audiences.stale(conv)
	return unary(ctx, c, kind{"put_member", hashOf(conv), once}, admin, impartpb.AdminServiceClient.PutMember,
		func(beat int64) *impartpb.PutMemberRequest {
			return &impartpb.PutMemberRequest{ConvId: string(conv), Member: toMember(member), Beat: beat}
		}, fromConvInfo)
}

// RemoveMember implements [impart.Admin].
func (c *Client) RemoveMember(ctx context.Context, conv impart.ConvID, user impart.UserID) (impart.ConvInfo, error) {
	defer c.audiences.stale(conv)
	return unary(ctx, c, kind{"remove_member", hashOf(conv), once}, admin, impartpb.AdminServiceClient.RemoveMember,
		func(beat int64) *impartpb.RemoveMemberRequest {
			return &impartpb.RemoveMemberRequest{ConvId: string(conv), User: string(user), Beat: beat}
		}, fromConvInfo)
}

// Delivery implements [impart.Admin].
func (c *Client) Delivery(ctx context.Context, conv impart.ConvID, seq impart.Seq) (impart.Delivery, error) {
	return unary(ctx, c, kind{"delivery", hashOf(conv), again}, admin, impartpb.AdminServiceClient.Delivery,
		plain(&impartpb.DeliveryRequest{ConvId: string(conv), Seq: int64(seq)}), fromDelivery)
}

// Devices implements [impart.Admin].
func (c *Client) Devices(ctx context.Context, device impart.DeviceID, user impart.UserID) ([]impart.DeviceInfo, error) {
	return unary(ctx, c, kind{"devices", hashOf(device), again}, admin, impartpb.AdminServiceClient.Devices,
		plain(&impartpb.DevicesRequest{Device: string(device), User: string(user)}),
		func(r *impartpb.DevicesReply) []impart.DeviceInfo { return convert(r.Devices, fromDevice) })
}

// RaiseEpoch implements [impart.Admin].
func (c *Client) RaiseEpoch(ctx context.Context) (impart.Epoch, error) {
	epoch, err := unary(ctx, c, kind{"raise_epoch", 0, once}, admin, impartpb.AdminServiceClient.RaiseEpoch,
		func(beat int64) *impartpb.RaiseEpochRequest { return &impartpb.RaiseEpochRequest{Beat: beat} }, fromEpoch)
	c.saw(epoch)
	return epoch, err
}

// History implements [impart.Admin]: what one of the nodes knows.
func (c *Client) History(ctx context.Context) (impart.HistoryInfo, error) {
	return unary(ctx, c, kind{"history", 0, again}, admin, impartpb.AdminServiceClient.History,
		plain(&impartpb.HistoryRequest{}), fromHistory)
}
