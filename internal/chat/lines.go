package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Lines writes what happens, one thing a line: for people, or with JSON an object
// whose "what" says what it is. The first error of a write is kept and ends the run.
type Lines struct {
	Out  io.Writer // events and answers
	Err  io.Writer // what is wrong
	JSON bool

	failed error
}

// record is a line of JSON. A field that does not belong to What is left out.
type record struct {
	What      string          `json:"what"` // event, stored, refused, waiting, receipt, typing, rewound, status, says
	Conv      impart.ConvID   `json:"conv,omitempty"`
	Seq       impart.Seq      `json:"seq,omitempty"`
	Kind      impart.Kind     `json:"kind,omitempty"`
	MID       impart.MID      `json:"mid,omitempty"`
	CMID      impart.CMID     `json:"cmid,omitempty"`
	Sender    impart.UserID   `json:"sender,omitempty"`
	User      impart.UserID   `json:"user,omitempty"`
	By        impart.UserID   `json:"by,omitempty"`
	Type      string          `json:"type,omitempty"`
	Body      *string         `json:"body,omitempty"`
	Ext       json.RawMessage `json:"ext,omitempty"`
	At        impart.Millis   `json:"at,omitempty"`
	Target    impart.Seq      `json:"target,omitempty"`
	Recalled  bool            `json:"recalled,omitempty"`
	Delivered *impart.Seq     `json:"delivered,omitempty"`
	Read      *impart.Seq     `json:"read,omitempty"`
	After     *impart.Seq     `json:"after,omitempty"`
	State     client.State    `json:"state,omitempty"`
	Device    impart.DeviceID `json:"device,omitempty"`
	Epoch     impart.Epoch    `json:"epoch,omitempty"`
	Why       string          `json:"why,omitempty"`
	RetryAt   impart.Millis   `json:"retry_at,omitempty"`
	Code      impart.Code     `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Advice    string          `json:"advice,omitempty"`
}

// line writes one line: text, or r if JSON is asked for.
func (l *Lines) line(w io.Writer, text string, r record) {
	if l.JSON {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			l.failed = fmt.Errorf("a line cannot be written as JSON: %w", err)
			return
		}
		w, text = l.Out, plainJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
	if _, err := fmt.Fprintln(w, text); err != nil && l.failed == nil {
		l.failed = fmt.Errorf("the output cannot be written: %w", err)
	}
}

func (l *Lines) event(ev *impart.Event) {
	r := record{
		What: "event", Conv: ev.Conv, Seq: ev.Seq, Kind: ev.Kind, MID: ev.MID, CMID: ev.CMID, Sender: ev.Sender, User: ev.User,
		By: ev.By, Type: ev.Type, Ext: ev.Ext, At: ev.At, Target: ev.Target, Recalled: ev.Recalled,
	}
	if ev.Kind == impart.KindMsg && !ev.Recalled {
		r.Body = &ev.Body
	}
	l.line(l.Out, fmt.Sprintf("%d %s %s", ev.Seq, timeOf(ev.At), told(ev)), r)
}

// told is an event as a sentence.
func told(ev *impart.Event) string {
	sender := plain(string(ev.Sender))
	switch {
	case ev.Kind == impart.KindMsg && ev.Recalled:
		return sender + " (recalled)"
	case ev.Kind == impart.KindMsg && ev.Type != impart.DefaultType:
		return fmt.Sprintf("%s [%s]: %s", sender, plain(ev.Type), plain(ev.Body))
	case ev.Kind == impart.KindMsg:
		return sender + ": " + plain(ev.Body)
	case ev.Kind == impart.KindRecall:
		return fmt.Sprintf("%s has recalled %d", sender, ev.Target)
	case ev.Kind == impart.KindJoin:
		return plain(string(ev.User)) + " has joined" + by(ev)
	case ev.Kind == impart.KindLeave:
		return plain(string(ev.User)) + " has left" + by(ev)
	}
	return fmt.Sprintf("%s [%s]", sender, plain(string(ev.Kind)))
}

func by(ev *impart.Event) string {
	if ev.By == "" || ev.By == ev.User {
		return ""
	}
	return ", by " + plain(string(ev.By))
}

func timeOf(at impart.Millis) string { return time.UnixMilli(int64(at)).Format(time.DateTime) }

// notice writes what the client of a user was told. People get only what concerns them;
// JSON has everything.
func (l *Lines) notice(user impart.UserID, n notice) {
	switch {
	case n.settled != nil:
		l.settled(user, n.settled)
	case n.rewound != nil:
		l.line(l.Err, fmt.Sprintf("the server's history of %s has changed: what was above %d is replaced by what follows",
			plain(string(n.rewound.conv)), n.rewound.seq), record{What: "rewound", Conv: n.rewound.conv, After: &n.rewound.seq})
	case !l.JSON:
		return
	case n.status != nil:
		s := n.status
		r := record{What: "status", State: s.State, User: s.User, Device: s.Device, Epoch: s.Epoch, Why: reason(s.Err)}
		if !s.RetryAt.IsZero() {
			r.RetryAt = impart.Millis(s.RetryAt.UnixMilli())
		}
		l.line(l.Out, "", r)
	case n.receipt != nil:
		r := n.receipt
		l.line(l.Out, "", record{What: "receipt", Conv: r.Conv, User: r.User, Delivered: &r.Delivered, Read: &r.Read})
	case n.typing != nil:
		l.line(l.Out, "", record{What: "typing", Conv: n.typing.conv, User: n.typing.user})
	}
}

func (l *Lines) settled(user impart.UserID, s *client.Settled) {
	if s.Err == nil {
		l.line(l.Out, fmt.Sprintf("stored %s %d %s", plain(string(s.Conv)), s.Seq, plain(string(s.CMID))),
			record{What: "stored", Conv: s.Conv, Seq: s.Seq, MID: s.MID, CMID: s.CMID, At: s.At})
		return
	}
	l.line(l.Err, fmt.Sprintf("refused %s %s: %s", plain(string(s.Conv)), shortRef(s.CMID), whyRefused(user, s.Conv, s.Err)),
		record{What: "refused", Conv: s.Conv, CMID: s.CMID, Code: s.Err.Code, Message: s.Err.Message, Advice: advice(user, s.Conv, s.Err.Code)})
}

// item writes one item of a user's outbox.
func (l *Lines) item(user impart.UserID, it *client.Item) {
	r := record{What: "waiting", Conv: it.Conv, CMID: it.CMID, Kind: it.Kind, Type: it.Type, Ext: it.Ext, At: it.At, Target: it.Target}
	what := plain(it.Body)
	if it.Kind == impart.KindMsg {
		r.Body = &it.Body
	} else {
		what = fmt.Sprintf("recall of %d", it.Target)
	}
	text := fmt.Sprintf("%s waits since %s in %s: %s", shortRef(it.CMID), timeOf(it.At), plain(string(it.Conv)), what)
	if it.Err != nil {
		r.What, r.Code, r.Message, r.Advice = "refused", it.Err.Code, it.Err.Message, advice(user, it.Conv, it.Err.Code)
		text = fmt.Sprintf("%s refused in %s: %s (%s)", shortRef(it.CMID), plain(string(it.Conv)), what, whyRefused(user, it.Conv, it.Err))
	}
	l.line(l.Out, text, r)
}

// says writes an answer to an order, which may have several lines.
func (l *Lines) says(text string) {
	if text == "" {
		return
	}
	l.line(l.Out, trimNewline(text), record{What: "says", Message: text})
}

func trimNewline(s string) string { return string(bytes.TrimRight([]byte(s), "\n")) }
