package api

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
)

// The types below are the JSON of the admin API, for the handlers, the OpenAPI
// document and the command line. Ids are opaque text; times are milliseconds
// since 1970.

// UserChange is the body of PUT users/{id}; it may be left out whole.
type UserChange struct {
	Disabled *bool `json:"disabled,omitzero" doc:"true closes the user's connections and refuses their tokens, false lets them in again; absent: as it is"`
}

// User is what is kept of a user.
type User struct {
	User     impart.UserID `json:"user" example:"u-ana"`
	Disabled bool          `json:"disabled"`
	Revoked  impart.Millis `json:"revoked,omitzero" doc:"tokens issued before this are refused; absent: none"`
}

// ConversationSpec is the body of PUT conversations/{id}.
type ConversationSpec struct {
	Kind    impart.ConvKind `json:"kind" enum:"direct,group"`
	History impart.History  `json:"history,omitzero" enum:"from_join,all" doc:"what of the log a later member may see; fixed at creation; absent: from_join"`
	Members []MemberSpec    `json:"members,omitzero" nullable:"false" maxItems:"10000" doc:"a direct conversation has exactly two; members that are missing here stay"`
}

// MemberSpec names a member: a user id, or an object with a role.
type MemberSpec struct {
	User impart.UserID `json:"user" example:"u-ana"`
	Role impart.Role   `json:"role,omitzero" enum:"member,admin" doc:"absent: as it is, or member"`
}

// UnmarshalJSON takes both forms.
func (m *MemberSpec) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() == '"' {
		return json.Unmarshal(data, &m.User)
	}
	type plain MemberSpec
	return json.Unmarshal(data, (*plain)(m))
}

// TransformSchema implements [huma.SchemaTransformer].
func (*MemberSpec) TransformSchema(_ huma.Registry, object *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Description: "a user id, or an object that also names a role",
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Examples: []any{"u-ana"}}, object},
	}
}

// RoleChange is the body of PUT members/{user}; it may be left out whole.
type RoleChange struct {
	Role impart.Role `json:"role,omitzero" enum:"member,admin" doc:"absent: as it is, or member"`
}

// Conversation is a conversation as its operator sees it.
type Conversation struct {
	Conv    impart.ConvID   `json:"conv" example:"c-ab"`
	Kind    impart.ConvKind `json:"kind" enum:"direct,group"`
	History impart.History  `json:"history" enum:"from_join,all"`
	Head    impart.Seq      `json:"head" doc:"the newest event's seq, 0 for none"`
	Floor   impart.Seq      `json:"floor" doc:"the highest seq that retention has removed, 0 for none"`
	Members []Membership    `json:"members" nullable:"false" doc:"former members too, ascending by user"`
}

// Membership is a member with their periods.
type Membership struct {
	User    impart.UserID `json:"user" example:"u-ana"`
	Role    impart.Role   `json:"role" enum:"member,admin"`
	Member  bool          `json:"member" doc:"whether the last period is open"`
	Periods []Period      `json:"periods" nullable:"false"`
}

// Period is one span of membership, both ends included.
type Period struct {
	From impart.Seq `json:"from" minimum:"1"`
	To   impart.Seq `json:"to,omitzero" doc:"absent while the period is open"`
}

// AdminMessage is the body of POST conversations/{id}/messages.
type AdminMessage struct {
	Sender impart.UserID `json:"sender" example:"system" doc:"any user, or system, which may send to every conversation"`
	CMID   impart.CMID   `json:"cmid" doc:"1..64 bytes; the same on every retry"`
	Body   string        `json:"body"`
	Type   string        `json:"type,omitzero" doc:"the application's content type; absent: text"`
	Ext    Object        `json:"ext,omitzero" doc:"a JSON object of up to 4 KiB, kept as it is"`
	Prev   impart.CMID   `json:"prev,omitzero" doc:"the sender's message that must be stored before this one"`
	Epoch  impart.Epoch  `json:"epoch,omitzero" doc:"absent: the current one is meant"`
}

// Delivery is how far one event has come, device by device.
type Delivery struct {
	Event DeliveredEvent `json:"event"`
	Head  impart.Seq     `json:"head" doc:"of the conversation"`
	Users []UserDelivery `json:"users" nullable:"false" doc:"who may see the event"`
}

// DeliveredEvent is an event without its body and ext.
type DeliveredEvent struct {
	Conv     impart.ConvID   `json:"conv"`
	Seq      impart.Seq      `json:"seq"`
	Kind     impart.Kind     `json:"kind"`
	MID      impart.MID      `json:"mid"`
	Sender   impart.UserID   `json:"sender,omitzero"`
	Device   impart.DeviceID `json:"device,omitzero" doc:"whose connection sent it; absent: HTTP or system"`
	CMID     impart.CMID     `json:"cmid,omitzero"`
	Type     string          `json:"type,omitzero"`
	At       impart.Millis   `json:"at" doc:"when it was stored"`
	Recalled bool            `json:"recalled,omitzero"`
}

// UserDelivery is how far one event has come with one user.
type UserDelivery struct {
	User    impart.UserID `json:"user"`
	Read    bool          `json:"read"`
	Devices []Cursor      `json:"devices" nullable:"false"`
}

// Cursor is one device's cursor in one conversation.
type Cursor struct {
	User         impart.UserID       `json:"user"`
	Device       impart.DeviceID     `json:"device"`
	Conv         impart.ConvID       `json:"conv"`
	InstallEpoch impart.InstallEpoch `json:"install_epoch"`
	Epoch        impart.Epoch        `json:"epoch"`
	Start        impart.Seq          `json:"start" doc:"where the device started"`
	Delivered    impart.Seq          `json:"delivered" doc:"everything visible up to here is durably on the device"`
	Updated      impart.Millis       `json:"updated,omitzero" doc:"absent: the device has never acknowledged here"`
}

// Devices are the devices of one id.
type Devices struct {
	Devices []Device `json:"devices" nullable:"false"`
}

// Device is what is kept of a device.
type Device struct {
	User         impart.UserID       `json:"user"`
	Device       impart.DeviceID     `json:"device"`
	InstallEpoch impart.InstallEpoch `json:"install_epoch" doc:"how many local stores it has had"`
	N            int64               `json:"n" doc:"the highest write counter seen from this install"`
	Session      int64               `json:"session" doc:"how many hellos it has made"`
	LastSeen     impart.Millis       `json:"last_seen"`
	Cursors      []Cursor            `json:"cursors" nullable:"false" maxItems:"1000"`
}

// History is what a node knows of the store's history.
type History struct {
	Epoch       impart.Epoch  `json:"epoch" example:"1"`
	State       string        `json:"state" enum:"accepted,halted,judging" doc:"halted and judging: the database was replaced, and nothing is written or read until that is judged"`
	Incarnation string        `json:"incarnation,omitzero" doc:"the history that was accepted last, where it has changed since this node started"`
	Met         string        `json:"met,omitzero" doc:"the history that waits for its judgement"`
	Waiting     []string      `json:"waiting,omitzero" doc:"nodes whose verdict is waited for"`
	Since       impart.Millis `json:"since,omitzero" doc:"when this node halted"`
	Lost        int64         `json:"lost" doc:"messages that this node had acknowledged and that are gone, since it started"`
	Last        *Judgement    `json:"last,omitzero" doc:"the last judgement since this node started"`
}

// Judgement is what became of a change of the store's history.
type Judgement struct {
	At      impart.Millis `json:"at"`
	Raised  bool          `json:"raised" doc:"the epoch was raised; false: every acknowledged commit was there, and it was kept"`
	Epoch   impart.Epoch  `json:"epoch"`
	Why     string        `json:"why"`
	Late    bool          `json:"late" doc:"the others had decided before this node gave its verdict"`
	Missing int64         `json:"missing" doc:"acknowledged commits of this node that are gone"`
	Lost    int64         `json:"lost" doc:"those of them that are messages"`
	Halted  int64         `json:"halted_ms" doc:"how long this node had halted"`
}

func historyOf(info impart.HistoryInfo) History {
	h := History{
		Epoch: info.Epoch, State: info.State, Incarnation: info.Incarnation, Met: info.Met, Waiting: info.Waiting, Since: info.Since, Lost: info.Lost,
	}
	if l := info.Last; l != nil {
		h.Last = &Judgement{At: l.At, Raised: l.Raised, Epoch: l.Epoch, Why: l.Why, Late: l.Late, Missing: l.Missing, Lost: l.Lost, Halted: int64(l.Halted)}
	}
	return h
}

// Epoch is the store's epoch.
type Epoch struct {
	Epoch impart.Epoch `json:"epoch" example:"1"`
}

func userOf(info impart.UserInfo) User { return User(info) }

func conversationOf(info impart.ConvInfo) Conversation {
	shown := Conversation{
		Conv: info.Conv, Kind: info.Kind, History: info.History, Head: info.Head, Floor: info.Floor,
		Members: make([]Membership, 0, len(info.Members)),
	}
	for _, member := range info.Members {
		periods := make([]Period, 0, len(member.Periods))
		for _, period := range member.Periods {
			periods = append(periods, Period(period))
		}
		shown.Members = append(shown.Members, Membership{
			User: member.User, Role: member.Role, Member: member.Periods.Open(), Periods: periods,
		})
	}
	return shown
}

func deliveryOf(delivery impart.Delivery) Delivery {
	ev := delivery.Event
	shown := Delivery{
		Event: DeliveredEvent{
			Conv: ev.Conv, Seq: ev.Seq, Kind: ev.Kind, MID: ev.MID, Sender: ev.Sender, Device: ev.Device,
			CMID: ev.CMID, Type: ev.Type, At: ev.At, Recalled: ev.Recalled,
		},
		Head:  delivery.Head,
		Users: make([]UserDelivery, 0, len(delivery.Users)),
	}
	for _, user := range delivery.Users {
		shown.Users = append(shown.Users, UserDelivery{User: user.User, Read: user.Read, Devices: cursorsOf(user.Devices)})
	}
	return shown
}

func cursorsOf(cursors []impart.DeviceCursor) []Cursor {
	shown := make([]Cursor, 0, len(cursors))
	for _, c := range cursors {
		shown = append(shown, Cursor{
			User: c.User, Device: c.Device, Conv: c.Conv, InstallEpoch: c.Install, Epoch: c.Epoch,
			Start: c.Start, Delivered: c.Delivered, Updated: c.Updated,
		})
	}
	return shown
}

func devicesOf(infos []impart.DeviceInfo) Devices {
	shown := Devices{Devices: make([]Device, 0, len(infos))}
	for _, info := range infos {
		shown.Devices = append(shown.Devices, Device{
			User: info.User, Device: info.Device, InstallEpoch: info.Install, N: info.N,
			Session: info.Session, LastSeen: info.LastSeen, Cursors: cursorsOf(info.Cursors),
		})
	}
	return shown
}
