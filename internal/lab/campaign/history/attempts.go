package history

import "github.com/impart-im/impart"

// Attempts counts how often one connection is told of what it has not
// acknowledged (D10). Its owner sees to it that one goroutine calls it at a time.
type Attempts struct {
	pushes map[place]int
	hints  map[impart.ConvID]int
	acks   map[impart.ConvID]int
}

type place struct {
	conv impart.ConvID
	seq  impart.Seq
}

// mostAttempts is how often one unacknowledged flow is tried.
const mostAttempts = 4

// NewAttempts begins to count on a new connection.
func NewAttempts() *Attempts {
	return &Attempts{pushes: map[place]int{}, hints: map[impart.ConvID]int{}, acks: map[impart.ConvID]int{}}
}

// Acked counts an ack that may have reached the server: attempts start anew
// when the cursor moves.
func (a *Attempts) Acked(conv impart.ConvID) { a.acks[conv]++ }

// Anew forgets what was counted: a raised epoch has taken the cursors back.
func (a *Attempts) Anew() { *a = *NewAttempts() }

// Pushed counts a push to a device.
func (a *Attempts) Pushed(t *Tape, device string, conv impart.ConvID, seq impart.Seq) {
	at := place{conv, seq}
	a.pushes[at]++
	if got := a.pushes[at]; got > mostAttempts*(1+a.acks[conv]) {
		t.Wrong("D10", "%s was pushed %s %d for the %dth time, with %d acks on the connection", device, conv, seq, got, a.acks[conv])
	}
}

// Hinted counts a hint that stands for a retry.
func (a *Attempts) Hinted(t *Tape, device string, conv impart.ConvID) {
	a.hints[conv]++
	if got := a.hints[conv]; got > mostAttempts*(1+a.acks[conv]) {
		t.Wrong("D10", "%s got the %dth retry hint for %s, with %d acks on the connection", device, got, conv, a.acks[conv])
	}
}
