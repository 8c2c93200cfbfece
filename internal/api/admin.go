package api

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// maxMembers bounds the members that one PUT of a conversation names.
const maxMembers = 10_000

func (s *server) putUser(c *call) error {
	user, err := c.user("id")
	if err != nil {
		return err
	}
	var change UserChange
	if err := c.decodeAdmin(&change); err != nil {
		return err
	}
	info, err := s.Admin.PutUser(c.r.Context(), user, change.Disabled)
	return c.answer(http.StatusOK, userOf(info), err)
}

func (s *server) getUser(c *call) error {
	user, err := c.user("id")
	if err != nil {
		return err
	}
	info, err := s.Admin.User(c.r.Context(), user)
	return c.answer(http.StatusOK, userOf(info), err)
}

func (s *server) revokeUser(c *call) error {
	user, err := c.user("id")
	if err != nil {
		return err
	}
	info, err := s.Admin.RevokeUser(c.r.Context(), user)
	return c.answer(http.StatusOK, userOf(info), err)
}

// putConversation answers 201 when it created the conversation.
func (s *server) putConversation(c *call) error {
	conv, err := c.id("id")
	if err != nil {
		return err
	}
	var spec ConversationSpec
	if err := c.decodeAdmin(&spec); err != nil {
		return err
	}
	wanted, err := spec.check(impart.ConvID(conv))
	if err != nil {
		return err
	}
	info, created, err := s.Admin.PutConversation(c.r.Context(), wanted)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return c.answer(status, conversationOf(info), err)
}

// check turns the body into a request, if its parts are what they may be.
func (spec *ConversationSpec) check(conv impart.ConvID) (impart.ConvSpec, error) {
	wanted := impart.ConvSpec{Conv: conv, Kind: spec.Kind, History: spec.History}
	switch {
	case spec.Kind != impart.Direct && spec.Kind != impart.Group:
		return wanted, impart.Errorf(impart.Invalid, "kind should be %s or %s", impart.Direct, impart.Group)
	case spec.History != "" && spec.History != impart.FromJoin && spec.History != impart.HistoryAll:
		return wanted, impart.Errorf(impart.Invalid, "history should be %s or %s", impart.FromJoin, impart.HistoryAll)
	case len(spec.Members) > maxMembers:
		return wanted, impart.Errorf(impart.TooLarge, "at most %d members can be named in one request; put the rest in further ones", maxMembers)
	}
	for _, member := range spec.Members {
		if err := checkMember(member.User, member.Role); err != nil {
			return wanted, err
		}
		wanted.Members = append(wanted.Members, impart.Member(member))
	}
	return wanted, nil
}

func checkMember(user impart.UserID, role impart.Role) error {
	if err := checkUser(user); err != nil {
		return err
	}
	if role != "" && role != impart.RoleMember && role != impart.RoleAdmin {
		return impart.Errorf(impart.Invalid, "role should be %s or %s", impart.RoleMember, impart.RoleAdmin)
	}
	return nil
}

func checkUser(user impart.UserID) error {
	if user == impart.System {
		return impart.Errorf(impart.Invalid, "%q is not a user: it is the sender of what the operator does", impart.System)
	}
	return impart.CheckID("user", string(user), impart.MaxID)
}

func (s *server) getConversation(c *call) error {
	conv, err := c.id("id")
	if err != nil {
		return err
	}
	info, err := s.Admin.Conversation(c.r.Context(), impart.ConvID(conv))
	return c.answer(http.StatusOK, conversationOf(info), err)
}

func (s *server) putMember(c *call) error {
	conv, user, err := c.member()
	if err != nil {
		return err
	}
	var change RoleChange
	if err := c.decodeAdmin(&change); err != nil {
		return err
	}
	if err := checkMember(user, change.Role); err != nil {
		return err
	}
	info, err := s.Admin.PutMember(c.r.Context(), conv, impart.Member{User: user, Role: change.Role})
	return c.answer(http.StatusOK, conversationOf(info), err)
}

func (s *server) deleteMember(c *call) error {
	conv, user, err := c.member()
	if err != nil {
		return err
	}
	info, err := s.Admin.RemoveMember(c.r.Context(), conv, user)
	return c.answer(http.StatusOK, conversationOf(info), err)
}

// adminSend stores a message as any sender. The body is a send frame with a
// sender and without a conversation, read as strictly as one.
func (s *server) adminSend(c *call) error {
	conv, err := c.id("id")
	if err != nil {
		return err
	}
	var from struct {
		Sender impart.UserID  `json:"sender"`
		Conv   jsontext.Value `json:"conv"`
		Rest   jsontext.Value `json:",embed"`
	}
	if err := c.decodeAdmin(&from); err != nil {
		return err
	}
	if err := impart.CheckID("sender", string(from.Sender), impart.MaxID); err != nil {
		return err
	}
	frame, err := sendFrame(impart.ConvID(conv), from.Rest)
	if err != nil {
		return err
	}
	sent, err := c.store(from.Sender, frame)
	if impart.CodeOf(err) == impart.NotMember {
		// The operator may know what a member may not: whether it exists.
		if _, gone := s.Admin.Conversation(c.r.Context(), impart.ConvID(conv)); impart.CodeOf(gone) == impart.NotFound {
			return gone
		}
	}
	if err != nil {
		return err
	}
	return c.reply(wire.Sent{Sent: sent}.AppendBody(nil))
}

// sendFrame reads fields as a send frame to conv.
func sendFrame(conv impart.ConvID, fields jsontext.Value) (*wire.Send, error) {
	quoted, err := jsontext.AppendQuote([]byte(`{"conv":`), string(conv))
	if err != nil {
		return nil, impart.Errorf(impart.BadFrame, "the conversation's id is not valid UTF-8")
	}
	if rest := bytesInside(fields); len(rest) > 0 {
		quoted = append(append(quoted, ','), rest...)
	}
	frame, err := wire.DecodeAs("send", append(quoted, '}'))
	if err != nil {
		return nil, err
	}
	send, ok := frame.(*wire.Send)
	if !ok {
		return nil, errors.New("api: the codec read another frame than a send")
	}
	return send, nil
}

// bytesInside is the text between the braces of a JSON object.
func bytesInside(object jsontext.Value) []byte {
	if len(object) < 2 {
		return nil
	}
	return jsontext.Value(object[1 : len(object)-1])
}

func (s *server) getDelivery(c *call) error {
	conv, err := c.id("id")
	if err != nil {
		return err
	}
	seq, err := c.seq()
	if err != nil {
		return err
	}
	delivery, err := s.Admin.Delivery(c.r.Context(), impart.ConvID(conv), seq)
	return c.answer(http.StatusOK, deliveryOf(delivery), err)
}

// getDevices lists every user's devices of one id, or with ?user= one user's.
func (s *server) getDevices(c *call) error {
	device, err := c.id("id")
	if err != nil {
		return err
	}
	user := c.r.URL.Query().Get("user")
	if c.r.URL.Query().Has("user") {
		if err := impart.CheckID("user", user, impart.MaxID); err != nil {
			return err
		}
	}
	infos, err := s.Admin.Devices(c.r.Context(), impart.DeviceID(device), impart.UserID(user))
	return c.answer(http.StatusOK, devicesOf(infos), err)
}

func (s *server) raiseEpoch(c *call) error {
	epoch, err := s.Admin.RaiseEpoch(c.r.Context())
	return c.answer(http.StatusOK, Epoch{Epoch: epoch}, err)
}

func (s *server) getHistory(c *call) error {
	info, err := s.Admin.History(c.r.Context())
	return c.answer(http.StatusOK, historyOf(info), err)
}

// user reads a user id out of the path.
func (c *call) user(name string) (impart.UserID, error) {
	user := impart.UserID(c.r.PathValue(name))
	return user, checkUser(user)
}

// member reads a conversation and a user out of the path.
func (c *call) member() (impart.ConvID, impart.UserID, error) {
	conv, err := c.id("id")
	if err != nil {
		return "", "", err
	}
	user, err := c.user("user")
	return impart.ConvID(conv), user, err
}

// decodeAdmin reads the body, strict about text and lenient about unknown
// fields, as the frames are. An absent body reads as {}.
func (c *call) decodeAdmin(into any) error {
	if len(c.body) == 0 {
		return nil
	}
	if jsontext.Value(c.body).Kind() != '{' {
		return impart.Errorf(impart.BadFrame, "the body must be a JSON object")
	}
	err := json.Unmarshal(c.body, into)
	if err == nil {
		return nil
	}
	refused := impart.Errorf(impart.BadFrame, "the body is not JSON of the shape wanted here; /openapi.json shows it")
	var shape *json.SemanticError
	if errors.As(err, &shape) && shape.JSONPointer != "" {
		refused.Message = "the field " + clip(string(shape.JSONPointer)) + " is not of the type wanted here; /openapi.json shows it"
	}
	refused.Cause = err
	return refused
}

// clip bounds what of a request is repeated in an error.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// answer writes what the admin API answers, or passes the error on.
func (c *call) answer(status int, value any, err error) error {
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	writeJSON(c.w, status, text)
	return nil
}
