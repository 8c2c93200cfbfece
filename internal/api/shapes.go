package api

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/impart-im/impart"
)

// The types below describe the send API in the OpenAPI document and nothing
// else: its bodies are read and written by package wire, byte for byte.

// Object is the text of a JSON object, kept byte for byte.
type Object []byte

// MarshalJSON gives the text as it is.
func (o Object) MarshalJSON() ([]byte, error) { return o, nil }

// Schema implements [huma.SchemaProvider].
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// convRef is a conversation id in a send: text, or a number that stands for its
// decimal text.
type convRef struct{}

// Schema implements [huma.SchemaProvider].
func (convRef) Schema(huma.Registry) *huma.Schema {
	one, most := 1, impart.MaxID
	return &huma.Schema{
		Description: "1..128 bytes of text, or an integer that stands for its decimal text",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, MinLength: &one, MaxLength: &most},
			{Type: huma.TypeInteger},
		},
		Examples: []any{"c-ab", 88001},
	}
}

type sendRequest struct {
	Conv  convRef      `json:"conv_id"`
	CMID  impart.CMID  `json:"client_msg_id" minLength:"1" maxLength:"64" example:"c-1a2b3c" doc:"made before the first attempt and the same on every retry; 1..64 bytes"`
	Text  string       `json:"text" example:"hi" doc:"kept byte for byte; text with NUL or lone surrogates is refused"`
	Type  string       `json:"type,omitzero" minLength:"1" maxLength:"64" doc:"the application's content type; absent: text"`
	Ext   Object       `json:"ext,omitzero" doc:"a JSON object of up to 4 KiB, kept as it is"`
	Prev  impart.CMID  `json:"prev,omitzero" doc:"client_msg_id of the same user's message to this conversation that must be stored before this one"`
	Epoch impart.Epoch `json:"epoch,omitzero" doc:"absent: the current one is meant"`
}

type sendReply struct {
	MID   impart.MID   `json:"msg_id"`
	Seq   impart.Seq   `json:"seq" minimum:"1"`
	Dup   bool         `json:"dup" doc:"an earlier attempt stored it, and msg_id and seq are that one's"`
	Epoch impart.Epoch `json:"epoch" minimum:"1"`
}

type sentReply struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq" minimum:"1"`
	MID   impart.MID    `json:"mid"`
	Dup   bool          `json:"dup"`
	Epoch impart.Epoch  `json:"epoch" minimum:"1"`
	At    impart.Millis `json:"at"`
}

type recallRequest struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq" doc:"of the message to take back"`
	CMID  impart.CMID   `json:"cmid" doc:"of the recall itself; the same on every retry"`
	MID   impart.MID    `json:"mid,omitzero" doc:"must be the message's, if given"`
	Epoch impart.Epoch  `json:"epoch,omitzero"`
}

type syncRequest struct {
	Conv     impart.ConvID `json:"conv"`
	After    *impart.Seq   `json:"after,omitzero" doc:"events with seq > after, ascending; either this or before"`
	Before   *impart.Seq   `json:"before,omitzero" doc:"events with seq < before, descending; at most head + 1"`
	AfterMID impart.MID    `json:"after_mid,omitzero" doc:"the mid that is held at after: EPOCH_CHANGED when another stands there"`
	Limit    int           `json:"limit,omitzero" minimum:"1" maximum:"1000" default:"100"`
	Epoch    impart.Epoch  `json:"epoch,omitzero"`
}

type syncedReply struct {
	Conv    impart.ConvID `json:"conv"`
	Events  []eventShape  `json:"events" nullable:"false"`
	Through *impart.Seq   `json:"through,omitzero" doc:"the cursor may move to here once the events are stored; absent with before"`
	Head    impart.Seq    `json:"head"`
	Floor   impart.Seq    `json:"floor"`
	Epoch   impart.Epoch  `json:"epoch"`
	More    bool          `json:"more"`
}

type eventShape struct {
	Conv      impart.ConvID `json:"conv"`
	Seq       impart.Seq    `json:"seq" minimum:"1"`
	Kind      impart.Kind   `json:"kind" doc:"msg, recall, join, leave, meta; others may come and are stored all the same"`
	MID       impart.MID    `json:"mid"`
	Sender    impart.UserID `json:"sender,omitzero"`
	CMID      impart.CMID   `json:"cmid,omitzero"`
	Body      *string       `json:"body,omitzero"`
	Type      string        `json:"type,omitzero"`
	Ext       Object        `json:"ext,omitzero"`
	At        impart.Millis `json:"at"`
	Recalled  bool          `json:"recalled,omitzero" doc:"true: taken back, with no body and no ext"`
	Target    impart.Seq    `json:"target,omitzero" doc:"of a recall: the seq that it takes back"`
	TargetMID impart.MID    `json:"target_mid,omitzero"`
	User      impart.UserID `json:"user,omitzero" doc:"of a join or leave: who"`
	By        impart.UserID `json:"by,omitzero" doc:"of a join or leave: by whom"`
}

type pullRequest struct {
	Limit int `json:"limit,omitzero" minimum:"1" maximum:"1000" default:"100"`
}

type pulledReply struct {
	Convs  []pulledConv `json:"convs" nullable:"false"`
	Failed []codeOfConv `json:"failed" nullable:"false" doc:"could not be read; their cursors stay"`
	More   bool         `json:"more" doc:"there will be more once this page is acknowledged"`
	Epoch  impart.Epoch `json:"epoch"`
}

type pulledConv struct {
	Conv    impart.ConvID `json:"conv"`
	Events  []eventShape  `json:"events" nullable:"false"`
	Through impart.Seq    `json:"through"`
	Head    impart.Seq    `json:"head"`
	Floor   impart.Seq    `json:"floor"`
}

type codeOfConv struct {
	Conv impart.ConvID `json:"conv"`
	Code impart.Code   `json:"code"`
}

type ackRequest struct {
	Conv  impart.ConvID `json:"conv,omitzero" doc:"with seq: one conversation"`
	Seq   *impart.Seq   `json:"seq,omitzero"`
	Acks  []ackItem     `json:"acks,omitzero" nullable:"false" maxItems:"1000" doc:"or several"`
	N     *int64        `json:"n,omitzero" minimum:"0" doc:"the client's durable write counter"`
	Epoch impart.Epoch  `json:"epoch,omitzero"`
}

type ackItem struct {
	Conv impart.ConvID `json:"conv"`
	Seq  impart.Seq    `json:"seq"`
}

type ackedReply struct {
	Conv      impart.ConvID `json:"conv,omitzero"`
	Delivered *impart.Seq   `json:"delivered,omitzero" doc:"the merged cursor, which can be above what was asked"`
	Acks      []ackedItem   `json:"acks,omitzero" nullable:"false" doc:"the answer to acks, one for each"`
}

type ackedItem struct {
	Conv      impart.ConvID `json:"conv"`
	Delivered *impart.Seq   `json:"delivered,omitzero"`
	Code      impart.Code   `json:"code,omitzero" doc:"instead of delivered: why this one failed"`
}

type readRequest struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq"`
	Epoch impart.Epoch  `json:"epoch,omitzero"`
}

type readReply struct {
	Conv impart.ConvID `json:"conv"`
	Read impart.Seq    `json:"read" doc:"the merged cursor"`
}

type whoRequest struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq"`
	After impart.UserID `json:"after,omitzero" doc:"go on after this user"`
	Limit int           `json:"limit,omitzero" minimum:"1" maximum:"1000" default:"100"`
}

type whosReply struct {
	Conv  impart.ConvID `json:"conv"`
	Seq   impart.Seq    `json:"seq"`
	Users []userReport  `json:"users" nullable:"false"`
	More  bool          `json:"more"`
}

type userReport struct {
	User      impart.UserID `json:"user"`
	Delivered int           `json:"delivered" doc:"how many of their devices have it"`
	Devices   int           `json:"devices" doc:"how many devices they have"`
	Read      bool          `json:"read"`
}

type failure struct {
	Code         impart.Code  `json:"code" example:"NOT_MEMBER"`
	Message      string       `json:"message" doc:"for people"`
	Retry        bool         `json:"retry" doc:"whether the same request may be sent again unchanged"`
	RetryAfterMS int64        `json:"retry_after_ms,omitzero" doc:"how long to wait before that"`
	Epoch        impart.Epoch `json:"epoch,omitzero" doc:"the current epoch, with EPOCH_CHANGED"`
}
