package rawclient

import (
	"context"
	"fmt"
	"time"
)

// Event is one event of a conversation's log in a form that can be compared with ==.
type Event struct {
	Conv, Kind, Mid, Sender, CMID, Body, Type string
	// Ext is the JSON as it came, "" when there is none.
	Ext        string
	Seq, At    int64
	Recalled   bool
	Target     int64
	TargetMid  string
	User, By   string
	unreadable bool
}

// ParseEvent reads an event object of an event, synced or pulled frame.
func ParseEvent(o Object) Event {
	ev := Event{
		Conv: o.Str("conv"), Kind: o.Str("kind"), Mid: o.Str("mid"), Sender: o.Str("sender"), CMID: o.Str("cmid"),
		Body: o.Str("body"), Type: o.Str("type"), Ext: string(o["ext"]), Seq: o.Int("seq"), At: o.Int("at"),
		Recalled: o.Bool("recalled"), TargetMid: o.Str("target_mid"), User: o.Str("user"), By: o.Str("by"),
	}
	if o.Has("target") {
		ev.Target = o.Int("target")
	}
	ev.unreadable = ev.Conv == "" || ev.Kind == "" || ev.Mid == "" || ev.Seq < 1
	return ev
}

// Hello is the first frame. Empty members are left out.
type Hello struct {
	T        string   `json:"t"`
	RID      string   `json:"rid,omitempty"`
	Token    string   `json:"token,omitempty"`
	Device   string   `json:"device,omitempty"`
	Install  string   `json:"install,omitempty"`
	N        *int64   `json:"n,omitempty"`
	Proto    int      `json:"proto"`
	History  *int64   `json:"history,omitempty"`
	Features []string `json:"features"`
}

// NewHello is a correct hello of version 1.
func NewHello(token, device, install string) Hello {
	return Hello{T: "hello", RID: "hello", Token: token, Device: device, Install: install, Proto: 1, Features: []string{}}
}

// Refused is an error frame as a Go error.
type Refused struct{ Frame }

func (r Refused) Error() string { return fmt.Sprintf("refused: %s", r.Object) }

// Login dials and says hello; it gives the connection and its welcome. An error frame comes back as Refused.
func Login(ctx context.Context, address string, h Hello, o DialOptions) (*Conn, Frame, error) {
	c, _, err := Dial(ctx, address, o)
	if err != nil {
		return nil, Frame{}, err
	}
	if err := c.JSON(h); err != nil {
		c.Close()
		return nil, Frame{}, err
	}
	f, err := c.Wait(ctx, 0, func(f Frame) bool { return f.T() == "welcome" || f.T() == "error" })
	if err == nil && f.T() == "error" {
		err = Refused{f}
	}
	if err != nil {
		c.Close()
		return nil, f, err
	}
	return c, f, nil
}

// Ask sends a request and gives its reply, an error frame too.
func (c *Conn) Ask(ctx context.Context, rid string, request map[string]any) (Frame, error) {
	request["rid"] = rid
	if err := c.JSON(request); err != nil {
		return Frame{}, err
	}
	return c.Reply(ctx, rid)
}

// Fetch reads a conversation from `after` to its head with sync frames, page by page, and gives events and head.
// It fails where a page breaks the rules: not ascending, outside (after, through], through or head going back.
func Fetch(ctx context.Context, c *Conn, conv string, after int64, limit int) (events []Event, head int64, err error) {
	for page := 0; ; page++ {
		rid := fmt.Sprintf("fetch-%s-%d-%d", conv, after, time.Now().UnixNano()%1e9)
		f, err := c.Ask(ctx, rid, map[string]any{"t": "sync", "conv": conv, "after": after, "limit": limit})
		if err != nil {
			return events, head, err
		}
		if f.T() != "synced" {
			return events, head, Refused{f}
		}
		through, last := f.Int("through"), after
		for _, o := range f.List("events") {
			ev := ParseEvent(o)
			if ev.unreadable || ev.Conv != conv || ev.Seq <= last || ev.Seq > through {
				return events, head, fmt.Errorf("event out of place after %d through %d: %s", last, through, o)
			}
			last = ev.Seq
			events = append(events, ev)
		}
		if f.Int("head") < head || through < after {
			return events, head, fmt.Errorf("page goes back (after %d, head was %d): %s", after, head, f)
		}
		head = f.Int("head")
		if !f.Bool("more") {
			return events, head, nil
		}
		if through == after {
			return events, head, fmt.Errorf("page says more but moves nothing: %s", f)
		}
		after = through
	}
}
