package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// patience bounds every story, so that a store that hangs fails by name.
const patience = time.Minute

// epochStart is the time of a world's first event: not a round second.
const epochStart impart.Millis = 1_700_000_000_123

// world is one store with the people who use it. Its methods speak for them and
// fail the test when the store answers what it must not.
type world struct {
	Subject
	t     *testing.T
	ctx   context.Context
	ticks atomic.Int64 // events made; also their times
}

func newWorld(t *testing.T, s Subject) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	w := &world{Subject: s, t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if err := w.Store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return w
}

// need fails a story that looks where this subject cannot.
func (w *world) need(can bool, what string) {
	w.t.Helper()
	if !can {
		w.t.Fatalf("this subject has no %s", what)
	}
}

// stamp makes ids and times for events that the store writes on its own.
func (w *world) stamp() (impart.MID, impart.Millis) {
	n := w.ticks.Add(1)
	return impart.MID(fmt.Sprintf("mid-%08d", n)), epochStart + impart.Millis(n)
}

// change adapts a message before it is sent.
type change func(*store.Append)

// msg is a message with a new mid, a later time and a matching hash.
func (w *world) msg(from impart.UserID, conv impart.ConvID, cmid impart.CMID, body string, changes ...change) store.Append {
	mid, at := w.stamp()
	a := store.Append{
		Kind: impart.KindMsg, Sender: from, Device: "d-" + impart.DeviceID(from), Conv: conv, CMID: cmid,
		Type: impart.DefaultType, Body: body, MID: mid, At: at,
	}
	for _, c := range changes {
		c(&a)
	}
	a.Hash = hashOf(&a)
	return a
}

// takeBack is a recall of the message at target.
func (w *world) takeBack(from impart.UserID, conv impart.ConvID, cmid impart.CMID, target impart.Seq, changes ...change) store.Append {
	return w.msg(from, conv, cmid, "", append([]change{func(a *store.Append) {
		a.Kind, a.Type, a.Target = impart.KindRecall, "", target
	}}, changes...)...)
}

func prev(cmid impart.CMID) change { return func(a *store.Append) { a.Prev = cmid } }

func epoch(e impart.Epoch) change { return func(a *store.Append) { a.Epoch = e } }

// hashOf is a hash of the content, as [store.Append] asks for.
func hashOf(a *store.Append) [16]byte {
	h := sha256.New()
	for _, part := range []string{
		string(a.Kind), string(a.Conv), a.Type, a.Body, string(a.Ext), fmt.Sprint(a.Ext != nil, a.Target), string(a.TargetMID),
	} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return [16]byte(h.Sum(nil))
}

// append stores items in one call and gives the outcomes as they are.
func (w *world) append(items ...store.Append) []store.Appended {
	w.t.Helper()
	out := w.Store.Append(w.ctx, items)
	if len(out) != len(items) {
		w.t.Fatalf("%d items got %d outcomes", len(items), len(out))
	}
	return out
}

// stores appends items in one call; all must be stored, none as a duplicate.
func (w *world) stores(items ...store.Append) []store.Appended {
	w.t.Helper()
	out := w.append(items...)
	for i, got := range out {
		want := store.Appended{Seq: got.Seq, MID: items[i].MID, At: items[i].At, Epoch: got.Epoch}
		if got.Err != nil || got.Seq < 1 || got != want {
			w.t.Fatalf("%s of %s with cmid %q: got %+v, want it stored as %s at %d",
				items[i].Kind, items[i].Sender, items[i].CMID, got, want.MID, want.At)
		}
	}
	return out
}

// says stores one message and gives its seq.
func (w *world) says(from impart.UserID, conv impart.ConvID, body string) impart.Seq {
	w.t.Helper()
	return w.stores(w.msg(from, conv, impart.CMID(fmt.Sprintf("k-%d", w.ticks.Load())), body))[0].Seq
}

// chatter stores n messages in one call.
func (w *world) chatter(from impart.UserID, conv impart.ConvID, n int) {
	w.t.Helper()
	if n == 0 {
		return
	}
	items := make([]store.Append, n)
	for i := range items {
		items[i] = w.msg(from, conv, impart.CMID(fmt.Sprintf("k-%d", w.ticks.Load())), fmt.Sprintf("chat %d", i))
	}
	w.stores(items...)
}

// recalls takes a message back and gives the seq of the recall.
func (w *world) recalls(from impart.UserID, conv impart.ConvID, target impart.Seq) impart.Seq {
	w.t.Helper()
	return w.stores(w.takeBack(from, conv, impart.CMID(fmt.Sprintf("r-%d", w.ticks.Load())), target))[0].Seq
}

// refuses appends an item that must be refused with code.
func (w *world) refuses(code impart.Code, item store.Append) error {
	w.t.Helper()
	got := w.append(item)[0]
	w.wantCode(code, got.Err)
	return got.Err
}

// repeats appends an item that must be answered as the duplicate of first.
func (w *world) repeats(first store.Appended, item store.Append) {
	w.t.Helper()
	w.isDup(first, w.append(item)[0])
}

func (w *world) isDup(first, got store.Appended) {
	w.t.Helper()
	if got.Err != nil || !got.Dup || got.Seq != first.Seq || got.MID != first.MID || got.At != first.At {
		w.t.Errorf("got %+v, want the duplicate of seq %d, mid %s, at %d", got, first.Seq, first.MID, first.At)
	}
}

func (w *world) wantCode(code impart.Code, err error) {
	w.t.Helper()
	if got := impart.CodeOf(err); got != code {
		w.t.Errorf("got %q (%v), want %s", got, err, code)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// same compares what a story got with what it wants.
func same[T any](w *world, what string, got, want T) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// conversation creates one with history from_join.
func (w *world) conversation(conv impart.ConvID, members ...impart.UserID) {
	w.t.Helper()
	w.create(impart.ConvSpec{Conv: conv, Kind: impart.Group, History: impart.FromJoin}, members...)
}

func (w *world) create(spec impart.ConvSpec, members ...impart.UserID) {
	w.t.Helper()
	for _, m := range members {
		spec.Members = append(spec.Members, impart.Member{User: m})
	}
	_, created, err := w.Store.PutConversation(w.ctx, spec, w.stamp)
	w.must(err)
	if !created {
		w.t.Fatalf("conversation %q was there already", spec.Conv)
	}
}

// joins adds a member and gives the seq of the join event.
func (w *world) joins(conv impart.ConvID, user impart.UserID) impart.Seq {
	w.t.Helper()
	info, joined, err := w.Store.PutMember(w.ctx, conv, impart.Member{User: user, Role: impart.RoleMember}, impart.System, w.stamp)
	w.must(err)
	if !joined {
		w.t.Fatalf("%s was a member of %q already", user, conv)
	}
	return info.Head
}

// leaves ends a membership and gives the seq of the leave event.
func (w *world) leaves(conv impart.ConvID, user impart.UserID) impart.Seq {
	w.t.Helper()
	info, left, err := w.Store.RemoveMember(w.ctx, conv, user, impart.System, w.stamp)
	w.must(err)
	if !left {
		w.t.Fatalf("%s was no member of %q", user, conv)
	}
	return info.Head
}

// ask is a page query with the limits that a server would set.
func ask(user impart.UserID, conv impart.ConvID) store.PageQuery {
	return store.PageQuery{User: user, Conv: conv, Limit: impart.MaxLimit, MaxBytes: impart.MaxPage}
}

func (w *world) page(q store.PageQuery) impart.Page {
	w.t.Helper()
	page, err := w.Store.Page(w.ctx, q)
	w.must(err)
	return page
}

// after is the page of what user may see after seq.
func (w *world) after(user impart.UserID, conv impart.ConvID, seq impart.Seq) impart.Page {
	w.t.Helper()
	q := ask(user, conv)
	q.After = seq
	return w.page(q)
}

// sees checks what user reads of a conversation from its beginning, in words:
// "1 hi", "2 recalled", "3 recall 2", "4 join ben", "5 leave ben".
func (w *world) sees(user impart.UserID, conv impart.ConvID, want ...string) {
	w.t.Helper()
	same(w, fmt.Sprintf("what %s sees of %s", user, conv), words(w.after(user, conv, 0).Events), want)
}

func words(events []impart.Event) []string {
	var out []string
	for i := range events {
		out = append(out, word(&events[i]))
	}
	return out
}

func word(ev *impart.Event) string {
	var what string
	switch {
	case ev.Kind == impart.KindMsg && ev.Recalled:
		what = strings.TrimSpace("recalled " + ev.Body)
	case ev.Kind == impart.KindMsg:
		what = ev.Body
	case ev.Kind == impart.KindRecall:
		what = fmt.Sprintf("recall %d", ev.Target)
	default:
		what = fmt.Sprintf("%s %s", ev.Kind, ev.User)
	}
	return fmt.Sprintf("%d %s", ev.Seq, what)
}

func seqs(events []impart.Event) []impart.Seq {
	var out []impart.Seq
	for i := range events {
		out = append(out, events[i].Seq)
	}
	return out
}

// count is the seqs from..to.
func count(from, to impart.Seq) []impart.Seq {
	var out []impart.Seq
	for s := from; s <= to; s++ {
		out = append(out, s)
	}
	return out
}

// clock is the store's clock.
func (w *world) clock() impart.Millis {
	w.t.Helper()
	got, err := w.Store.Written(w.ctx, 0, 1)
	w.must(err)
	return got.Now
}

// nextMilli waits until the store's clock has moved.
func (w *world) nextMilli() impart.Millis {
	w.t.Helper()
	for before := w.clock(); ; {
		if now := w.clock(); now > before {
			return now
		}
	}
}
