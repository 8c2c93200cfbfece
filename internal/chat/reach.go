package chat

import (
	"fmt"
	"strings"

	"github.com/impart-im/impart"
)

// reach is how far an own message has come with the others, as the server says.
type reach struct {
	others    int // users who may see it, without the sender
	devices   int // of the others
	delivered int // of those, that have it
	readers   []impart.UserID
	stale     bool // the server would say more by now
}

// reachOf sums up a report for its sender.
func reachOf(users []impart.UserReport, self impart.UserID) *reach {
	var r reach
	for _, u := range users {
		if u.User == self {
			continue
		}
		r.others++
		r.devices += u.Devices
		r.delivered += u.Delivered
		if u.Read {
			r.readers = append(r.readers, u.User)
		}
	}
	return &r
}

// whole reports whether there is nothing more to learn.
func (r *reach) whole() bool {
	return r.others > 0 && len(r.readers) == r.others && r.delivered >= r.devices
}

// maxReaders is how many readers are named.
const maxReaders = 3

// text is the state of an own message that the server has stored.
func (r *reach) text() string {
	switch {
	case r == nil, r.delivered == 0 && len(r.readers) == 0:
		return "sent"
	case len(r.readers) == 0:
		return fmt.Sprintf("delivered to %d of %d devices", r.delivered, r.devices)
	}
	delivered := ""
	if r.delivered < r.devices {
		delivered = fmt.Sprintf(", delivered to %d of %d devices", r.delivered, r.devices)
	}
	if len(r.readers) == r.others && r.others > 1 {
		return fmt.Sprintf("read by all %d%s", r.others, delivered)
	}
	names := make([]string, 0, maxReaders)
	for _, u := range r.readers[:min(len(r.readers), maxReaders)] {
		names = append(names, cut(plain(string(u)), maxName))
	}
	more := ""
	if rest := len(r.readers) - maxReaders; rest > 0 {
		more = fmt.Sprintf(" and %d more", rest)
	}
	return "read by " + strings.Join(names, ", ") + more + delivered
}
