package api

import (
	"net/http"
	"slices"

	"github.com/impart-im/impart"
)

// routes is every operation of this package, in the order of the document.
func (s *server) routes() []*route {
	if s.HealthOnly {
		return healthRoutes()
	}
	document := s.openAPI
	return slices.Concat(messageRoutes(), adminRoutes(), healthRoutes(), []*route{
		{http.MethodGet, "/openapi.json", public, document(jsonDocument), doc{
			id: "openapi-json", tag: "health", summary: "This document", reply: Object{}, codes: publicCodes,
		}},
		{http.MethodGet, "/openapi.yaml", public, document(yamlDocument), doc{
			id: "openapi-yaml", tag: "health", summary: "This document as YAML", text: true, codes: publicCodes,
		}},
	})
}

func healthRoutes() []*route {
	return []*route{
		{http.MethodGet, "/livez", public, (*server).livez, doc{
			id: "livez", tag: "health", summary: "Whether the process answers", text: true, codes: publicCodes,
		}},
		{http.MethodGet, "/readyz", public, (*server).readyz, doc{
			id: "readyz", tag: "health", summary: "Whether requests can be served; with ?verbose how each part is",
			text: true, reply: readiness{}, unready: true, codes: publicCodes,
			query: []param{{"verbose", "any value: the state of each part, as JSON"}},
		}},
		{http.MethodGet, "/metrics", public, (*server).showMetrics, doc{
			id: "metrics", tag: "health", summary: "Metrics in Prometheus form", text: true, codes: publicCodes,
		}},
	}
}

// Codes that every request of a kind can meet.
var (
	anyCodes    = []impart.Code{impart.BadFrame, impart.Unauthenticated, impart.TooLarge, impart.Unavailable}
	writeCodes  = []impart.Code{impart.NotMember, impart.EpochChanged, impart.RateLimited, impart.Overloaded}
	deviceCodes = []impart.Code{impart.StaleInstall}
	publicCodes = [][]impart.Code{{impart.BadFrame, impart.Unauthenticated, impart.TooLarge}}
)

func messageRoutes() []*route {
	const root = "/api/msg/"
	return []*route{
		{http.MethodPost, root + "send", bearer, (*server).send, doc{
			id: "send", tag: "messages", summary: "Store a message; sent again with the same client_msg_id it is never a second one",
			body: sendRequest{}, reply: sendReply{}, device: optional,
			codes: [][]impart.Code{anyCodes, deviceCodes, writeCodes, {impart.CMIDReused, impart.OutOfOrder}},
		}},
		{http.MethodPost, root + "recall", bearer, (*server).recall, doc{
			id: "recall", tag: "messages", summary: "Take a message back",
			body: recallRequest{}, reply: sentReply{}, device: optional,
			codes: [][]impart.Code{anyCodes, deviceCodes, writeCodes, {impart.CursorAhead, impart.RecallRefused, impart.CMIDReused}},
		}},
		{http.MethodPost, root + "sync", bearer, (*server).sync, doc{
			id: "sync", tag: "messages", summary: "Read a page of one conversation, forward or back; moves no cursor",
			body: syncRequest{}, reply: syncedReply{}, device: optional,
			codes: [][]impart.Code{anyCodes, deviceCodes, {impart.NotMember, impart.CursorAhead, impart.EpochChanged}},
		}},
		{http.MethodPost, root + "pull", bearer, (*server).pull, doc{
			id: "pull", tag: "messages", summary: "Read what this device lacks over all its conversations; the same page again until it is acknowledged",
			body: pullRequest{}, bodyOptional: true, reply: pulledReply{}, device: required,
			codes: [][]impart.Code{anyCodes, deviceCodes, {impart.EpochChanged}},
		}},
		{http.MethodPost, root + "ack", bearer, (*server).ack, doc{
			id: "ack", tag: "messages", summary: "Say what this device has durably stored, one conversation or a list of them",
			body: ackRequest{}, reply: ackedReply{}, device: required,
			codes: [][]impart.Code{anyCodes, deviceCodes, {impart.NotMember, impart.CursorAhead, impart.EpochChanged}},
		}},
		{http.MethodPost, root + "read", bearer, (*server).read, doc{
			id: "read", tag: "messages", summary: "Move the user's read cursor",
			body: readRequest{}, reply: readReply{}, device: optional,
			codes: [][]impart.Code{anyCodes, deviceCodes, {impart.NotMember, impart.CursorAhead, impart.EpochChanged}},
		}},
		{http.MethodPost, root + "who", bearer, (*server).who, doc{
			id: "who", tag: "messages", summary: "Who has an event",
			body: whoRequest{}, reply: whosReply{}, device: optional,
			codes: [][]impart.Code{anyCodes, deviceCodes, {impart.NotMember, impart.CursorAhead}},
		}},
	}
}

func adminRoutes() []*route {
	const (
		root    = "/admin/v1/"
		members = root + "conversations/{id}/members/{user}"
	)
	missing, clash := []impart.Code{impart.NotFound}, []impart.Code{impart.Conflict, impart.Invalid}
	return []*route{
		{http.MethodPut, root + "users/{id}", admin, (*server).putUser, doc{
			id: "put-user", tag: "admin", summary: "Make a user known, bar or readmit them",
			body: UserChange{}, bodyOptional: true, reply: User{}, codes: [][]impart.Code{anyCodes, clash},
		}},
		{http.MethodGet, root + "users/{id}", admin, (*server).getUser, doc{
			id: "get-user", tag: "admin", summary: "What is kept of a user", reply: User{}, codes: [][]impart.Code{anyCodes, missing},
		}},
		{http.MethodPost, root + "users/{id}/revoke", admin, (*server).revokeUser, doc{
			id: "revoke-user", tag: "admin", summary: "Refuse every token made before now and close the user's connections",
			reply: User{}, codes: [][]impart.Code{anyCodes, clash},
		}},
		{http.MethodPut, root + "conversations/{id}", admin, (*server).putConversation, doc{
			id: "put-conversation", tag: "admin", summary: "Create a conversation, or add members to it; removes nobody",
			body: ConversationSpec{}, reply: Conversation{}, created: true, codes: [][]impart.Code{anyCodes, clash},
		}},
		{http.MethodGet, root + "conversations/{id}", admin, (*server).getConversation, doc{
			id: "get-conversation", tag: "admin", summary: "A conversation and its members", reply: Conversation{}, codes: [][]impart.Code{anyCodes, missing},
		}},
		{http.MethodPut, members, admin, (*server).putMember, doc{
			id: "put-member", tag: "admin", summary: "Join a user, or change a member's role",
			body: RoleChange{}, bodyOptional: true, reply: Conversation{}, codes: [][]impart.Code{anyCodes, missing, clash},
		}},
		{http.MethodDelete, members, admin, (*server).deleteMember, doc{
			id: "delete-member", tag: "admin", summary: "End a membership; what was visible stays so",
			reply: Conversation{}, codes: [][]impart.Code{anyCodes, missing, clash},
		}},
		{http.MethodPost, root + "conversations/{id}/messages", admin, (*server).adminSend, doc{
			id: "admin-send", tag: "admin", summary: "Store a message as any user, or as system",
			body: AdminMessage{}, reply: sentReply{}, codes: [][]impart.Code{anyCodes, missing, writeCodes, {impart.CMIDReused, impart.OutOfOrder}},
		}},
		{http.MethodGet, root + "conversations/{id}/events/{seq}/delivery", admin, (*server).getDelivery, doc{
			id: "get-delivery", tag: "admin", summary: "Who has an event, device by device", reply: Delivery{}, codes: [][]impart.Code{anyCodes, missing},
		}},
		{http.MethodGet, root + "devices/{id}", admin, (*server).getDevices, doc{
			id: "get-devices", tag: "admin", summary: "The devices of this id, every user's or one user's, with their cursors",
			reply: Devices{}, query: []param{{"user", "only this user's device"}}, codes: [][]impart.Code{anyCodes, missing},
		}},
		{http.MethodGet, root + "epoch", admin, (*server).getHistory, doc{
			id: "get-epoch", tag: "admin", summary: "The epoch, and whether a failover waits for its judgement, as this node knows it",
			reply: History{}, codes: [][]impart.Code{anyCodes},
		}},
		{http.MethodPost, root + "epoch", admin, (*server).raiseEpoch, doc{
			id: "raise-epoch", tag: "admin", summary: "Start a new epoch, after history may have been rewritten; every device syncs again",
			reply: Epoch{}, codes: [][]impart.Code{anyCodes},
		}},
	}
}
