package processes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/lab/probe"
	"github.com/impart-im/impart/wire"
)

// askTime bounds one question: a read that meets what a cut has left in the pools goes
// well within 3 s, and the machine may be busy.
const askTime = 10 * time.Second

// admin asks the admin API.
func (f *Field) admin(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.process().URL()+"/admin/v1/"+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
		err = impart.Errorf(impart.Unavailable, "%s %s: %s", method, path, bytes.TrimSpace(text))
	} else if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// Create implements [campaign.Service].
func (f *Field) Create(ctx context.Context, spec impart.ConvSpec) error {
	var users []impart.UserID
	for _, m := range spec.Members {
		users = append(users, m.User)
	}
	body := map[string]any{"kind": spec.Kind, "history": spec.History, "members": users}
	return f.admin(ctx, http.MethodPut, "conversations/"+url.PathEscape(string(spec.Conv)), body, nil)
}

// Member implements [campaign.Service].
func (f *Field) Member(ctx context.Context, join bool, conv impart.ConvID, user impart.UserID) error {
	for _, each := range f.plan.Users { // whoever comes or goes, the others listen
		_, _ = f.observer(ctx, each)
	}
	path := "conversations/" + url.PathEscape(string(conv)) + "/members/" + url.PathEscape(string(user))
	if join {
		return f.admin(ctx, http.MethodPut, path, map[string]any{}, nil)
	}
	return f.admin(ctx, http.MethodDelete, path, nil, nil)
}

// RaiseEpoch implements [campaign.Service].
func (f *Field) RaiseEpoch(ctx context.Context) (impart.Epoch, error) {
	var out struct {
		Epoch impart.Epoch `json:"epoch"`
	}
	err := f.admin(ctx, http.MethodPost, "epoch", nil, &out)
	return out.Epoch, err
}

// Cursors implements [campaign.Service].
func (f *Field) Cursors(ctx context.Context, user impart.UserID, device impart.DeviceID) (map[impart.ConvID]impart.Seq, error) {
	var out struct {
		Devices []struct {
			Cursors []struct {
				Conv      impart.ConvID `json:"conv"`
				Delivered impart.Seq    `json:"delivered"`
			} `json:"cursors"`
		} `json:"devices"`
	}
	path := "devices/" + url.PathEscape(string(device)) + "?user=" + url.QueryEscape(string(user))
	if err := f.admin(ctx, http.MethodGet, path, nil, &out); err != nil {
		return nil, err
	}
	at := map[impart.ConvID]impart.Seq{}
	for _, d := range out.Devices {
		for _, c := range d.Cursors {
			at[c.Conv] = c.Delivered
		}
	}
	return at, nil
}

// observer is a bare connection of a user, which acknowledges nothing by itself.
// What it hears is written down when it ends.
type observer struct {
	user  impart.UserID
	conn  *probe.Conn
	epoch impart.Epoch
	acked []impart.ConvID
}

// observer is the one of a user, connected.
func (f *Field) observer(ctx context.Context, user impart.UserID) (*observer, error) {
	if o := f.observers[user]; o != nil {
		select {
		case <-o.conn.Done():
			f.dropObserver(o)
		default:
			return o, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := probe.Dial(ctx, f.addr(), nil)
	if err != nil {
		return nil, err
	}
	welcome, _, err := conn.Login(ctx, user, "d-observer", "i-observer", nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	o := &observer{user: user, conn: conn, epoch: welcome.Epoch}
	f.observers[user] = o
	return o, nil
}

func (f *Field) dropObservers() {
	for _, o := range f.observers {
		f.dropObserver(o)
	}
}

// dropObserver ends a connection and writes down what it heard.
func (f *Field) dropObserver(o *observer) {
	delete(f.observers, o.user)
	o.conn.Close()
	if f.tape == nil {
		return
	}
	attempts := history.NewAttempts()
	for _, conv := range o.acked {
		attempts.Acked(conv)
	}
	name := "the observer of " + string(o.user)
	for _, heard := range o.conn.Heard() {
		switch frame := heard.Frame.(type) {
		case *wire.Event:
			f.tape.Saw(o.user, frame.Epoch, *frame.Event)
			attempts.Pushed(f.tape, name, frame.Event.Conv, frame.Event.Seq)
		case *wire.Synced:
			f.tape.Saw(o.user, frame.Page.Epoch, frame.Page.Events...)
		case *wire.Hint:
			switch frame.Why {
			case wire.WhyRetry:
				attempts.Hinted(f.tape, name, frame.Conv)
			case wire.WhyResume:
				attempts.Anew()
			}
		}
	}
}

// Send implements [campaign.Service]: pipelined, so that they share a batch.
func (f *Field) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	got := make([]impart.Sent, len(sends))
	o, err := f.observer(ctx, sends[0].Sender)
	rid := func(i int) string { return fmt.Sprintf("s-%d-%d", f.calls, i) }
	f.calls++
	for i := range sends {
		if s := &sends[i]; err == nil {
			err = o.conn.Say(ctx, &wire.Send{RID: rid(i), Conv: s.Conv, CMID: s.CMID, Prev: s.Prev, Type: s.Type, Body: s.Body, Ext: s.Ext, Epoch: s.Epoch})
		}
	}
	for i := range sends {
		if err != nil {
			got[i].Err = unknown(err)
			continue
		}
		got[i] = o.answer(ctx, rid(i))
	}
	return got
}

// unknown is an outcome that nobody knows.
func unknown(err error) error { return impart.Errorf(impart.Unavailable, "no answer: %v", err) }

func (o *observer) answer(ctx context.Context, rid string) impart.Sent {
	heard, _, err := o.conn.Await(ctx, 0, func(frame wire.ServerFrame) bool {
		switch frame := frame.(type) {
		case *wire.Sent:
			return frame.RID == rid
		case *wire.ErrorFrame:
			return frame.RID == rid
		}
		return false
	})
	if err != nil {
		return impart.Sent{Err: unknown(err)}
	}
	if refused, is := heard.Frame.(*wire.ErrorFrame); is {
		return impart.Sent{Err: refused.Err}
	}
	return heard.Frame.(*wire.Sent).Sent
}

// Ack implements [campaign.Service].
func (f *Field) Ack(ctx context.Context, user impart.UserID, conv impart.ConvID, seq impart.Seq) (impart.Seq, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	o, err := f.observer(ctx, user)
	if err != nil {
		return 0, unknown(err)
	}
	o.acked = append(o.acked, conv)
	reply, err := o.conn.Ask(ctx, &wire.Ack{Items: []impart.AckItem{{Conv: conv, Seq: seq}}})
	if err != nil {
		return 0, asked(err)
	}
	item := reply.(*wire.Acked).Items[0]
	return item.Delivered, item.Err
}

// asked is a refusal as it is, and anything else as an unknown outcome.
func asked(err error) error {
	var refusal *impart.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return unknown(err)
}

// Page implements [campaign.Service].
func (f *Field) Page(ctx context.Context, user impart.UserID, conv impart.ConvID, after impart.Seq, limit int) (impart.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	o, err := f.observer(ctx, user)
	if err != nil {
		return impart.Page{}, unknown(err)
	}
	reply, err := o.conn.Ask(ctx, &wire.Sync{Conv: conv, After: &after, Limit: &limit})
	if err != nil {
		return impart.Page{}, asked(err)
	}
	return reply.(*wire.Synced).Page, nil
}
