package gateway

import (
	"errors"

	"github.com/impart-im/impart/internal/fault"
)

// pushEvents is push for event frames, which the fault point gw.push is about: a
// push that the fault takes counts as written, as one that is lost on its way.
func (c *conn) pushEvents(frames [][]byte) bool {
	return fault.At(fault.Push) != nil || c.push(frames)
}

// loseAck strikes at an ack that came in: it is as if it was lost on its way.
func loseAck(request) bool { return fault.At(fault.Ack) != nil }

// loseReply strikes at the reply to a send: lost says that there is to be no
// reply at all, and the error, if any, is what to answer with instead.
func loseReply() (lost bool, instead error) {
	err := fault.At(fault.ReplySend)
	if errors.Is(err, fault.ErrDropped) {
		return true, nil
	}
	return false, err
}
