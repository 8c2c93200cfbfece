// Package client is the Go SDK of Impart: the half of the delivery promise that
// a server cannot keep.
//
// What it promises. A message that [Client.Send] has taken is in a durable
// outbox and stays there until it has a final answer, through crashes,
// reconnects and nodes, in the order in which it was given. It is stored by the
// server at most once. Each event of a conversation is durably stored here
// before it is acknowledged, and handed to the application in order of seq,
// without a gap, again only if the process died before the handler returned.
//
// What it may lose: typing and receipt frames, which live as long as the
// connection. What it never does: wait for the network in Send, acknowledge what
// it has not stored, or return by itself after the server said that it must not.
package client
