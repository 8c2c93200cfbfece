package impart

import "context"

// Admin is what the operator's API needs beyond [Logic]. Its own refusals are
// NOT_FOUND, CONFLICT and INVALID. Every PUT is idempotent.
type Admin interface {
	// PutUser makes a user known, and with a non-nil disabled bars or readmits them.
	PutUser(ctx context.Context, user UserID, disabled *bool) (UserInfo, error)
	// RevokeUser refuses every token of the user that was made before now, and
	// closes their connections on every node.
	RevokeUser(ctx context.Context, user UserID) (UserInfo, error)
	// User is NOT_FOUND for an unknown user.
	User(ctx context.Context, user UserID) (UserInfo, error)

	// PutConversation creates a conversation, whose members see it from seq 1; on
	// an existing one it joins the members that are new (with join events) and
	// removes nobody. CONFLICT: exists with another kind or history. INVALID: a
	// direct conversation without exactly two members.
	PutConversation(ctx context.Context, spec ConvSpec) (info ConvInfo, created bool, err error)
	// Conversation is NOT_FOUND for an unknown conversation.
	Conversation(ctx context.Context, conv ConvID) (ConvInfo, error)
	// PutMember joins a user (or changes the role of a member). NOT_FOUND, INVALID
	// for a direct conversation.
	PutMember(ctx context.Context, conv ConvID, member Member) (ConvInfo, error)
	// RemoveMember ends the membership; nothing happens when there is none.
	RemoveMember(ctx context.Context, conv ConvID, user UserID) (ConvInfo, error)

	// Delivery says who has the event, device by device. NOT_FOUND.
	Delivery(ctx context.Context, conv ConvID, seq Seq) (Delivery, error)
	// Devices lists the devices with this id (every user's, or one user's), with
	// their cursors. NOT_FOUND when there is none.
	Devices(ctx context.Context, device DeviceID, user UserID) ([]DeviceInfo, error)
	// RaiseEpoch starts a new history, to max(old + 1, now in ms), and tells every
	// connection to sync again.
	RaiseEpoch(ctx context.Context) (Epoch, error)
	// History is what this node knows of the store's history, also while it is halted.
	History(ctx context.Context) (HistoryInfo, error)
}

// The states of a store's history, as one node sees them.
const (
	HistoryAccepted = "accepted" // requests are served
	HistoryHalted   = "halted"   // another history was met: nothing is written or read
	HistoryJudging  = "judging"  // the same, and verdicts of other nodes are waited for
)

// HistoryInfo is what one node knows of the store's history.
type HistoryInfo struct {
	State       string
	Epoch       Epoch
	Incarnation string   // the one that was accepted last; "" while it has not changed
	Met         string   // the one that waits for its judgement, or ""
	Waiting     []string // names of nodes whose verdict is waited for
	Since       Millis   // when this node halted; 0: it has not
	Lost        int64    // acknowledged messages of this node known to be gone, since it started
	Last        *JudgementInfo
}

// JudgementInfo is the last judgement that this node has taken part in.
type JudgementInfo struct {
	At      Millis
	Raised  bool // the epoch was raised; false: kept
	Epoch   Epoch
	Why     string
	Late    bool   // others had decided before this node gave its verdict
	Missing int64  // acknowledged commits of this node that are gone
	Lost    int64  // those of them that are messages
	Halted  Millis // how long this node had halted
}

// UserInfo is what is kept of a user.
type UserInfo struct {
	User     UserID
	Disabled bool
	Revoked  Millis // tokens issued before this are refused; 0: none
}

// Role is a member's role in a conversation.
type Role string

// The roles.
const (
	RoleMember Role = "member"
	RoleAdmin  Role = "admin" // may recall other members' messages
)

// Member is a user with a role.
type Member struct {
	User UserID
	Role Role // "" keeps the present role, or means RoleMember for a new member
}

// History says what of the log a later member may see.
type History string

// The history policies, fixed when a conversation is created.
const (
	FromJoin   History = "from_join"
	HistoryAll History = "all"
)

// ConvSpec describes a conversation to create or to add members to.
type ConvSpec struct {
	Conv    ConvID
	Kind    ConvKind
	History History // "" means FromJoin
	Members []Member
}

// ConvInfo is a conversation as its operator sees it.
type ConvInfo struct {
	Conv    ConvID
	Kind    ConvKind
	History History
	Head    Seq
	Floor   Seq
	Members []MemberInfo // former members too, ascending by user
}

// MemberInfo is a member with their periods.
type MemberInfo struct {
	User    UserID
	Role    Role
	Periods Periods
}

// Delivery is how far one event has come.
type Delivery struct {
	Event Event // Body and Ext are left out
	Head  Seq
	Users []UserDelivery
}

// UserDelivery is how far one event has come with one user.
type UserDelivery struct {
	User    UserID
	Read    bool
	Devices []DeviceCursor
}

// DeviceCursor is one device's cursor in one conversation.
type DeviceCursor struct {
	User      UserID
	Device    DeviceID
	Conv      ConvID
	Install   InstallEpoch
	Epoch     Epoch
	Start     Seq
	Delivered Seq
	Updated   Millis // 0: the device has never acknowledged here
}

// DeviceInfo is what is kept of a device.
type DeviceInfo struct {
	User     UserID
	Device   DeviceID
	Install  InstallEpoch
	N        int64
	Session  int64
	LastSeen Millis
	Cursors  []DeviceCursor // at most MaxLimit
}
