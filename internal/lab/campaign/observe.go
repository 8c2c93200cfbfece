package campaign

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// observe is a step of the observer: a question whose answer is known. One that
// gets no answer shows nothing.
func (r *Run) observe(s *Step) error {
	if err := r.up(); err != nil {
		return err
	}
	switch s.Do {
	case Look:
		r.look(s)
	case Resend:
		r.resend(s)
	case Batch:
		r.batch(s)
	case Collide:
		r.collide(s)
	case Early:
		r.early(s)
	case AckBack:
		r.ackBack(s)
	case AckFar:
		r.ackFar(s)
	}
	return nil
}

// look reads a whole log: it holds all that was answered before.
func (r *Run) look(s *Step) {
	began := r.tape.Begin()
	page, err := r.world.Page(r.ctx, Auditor, s.Conv, 0, impart.MaxLimit)
	if err == nil && !page.More {
		r.tape.Looked(began, s.Conv, page.Head)
	}
}

// post sends as a user without a device and writes down what became of it.
func (r *Run) post(sends ...impart.Send) []impart.Sent {
	for i := range sends {
		s := &sends[i]
		s.Type = impart.DefaultType
		r.tape.Wants(history.Item{User: s.Sender, Conv: s.Conv, CMID: s.CMID, Kind: impart.KindMsg, Body: s.Body})
	}
	got := r.world.Send(r.ctx, sends)
	for i := range got {
		if s := &sends[i]; got[i].Err == nil {
			r.tape.Took(nil, s.Sender, s.CMID)
			r.tape.Sent(s.Sender, s.CMID, s.Conv, got[i].Seq, got[i].MID)
		}
	}
	return got
}

// known reports whether an answer says something: neither lost nor "try again".
func known(err error) bool { return err == nil || !impart.CodeOf(err).Retry() }

// resend repeats a stored message, as it was and with another text (D2, D12, D17).
func (r *Run) resend(s *Step) {
	seq, mid, ok := r.tape.Placed(s.User, s.CMID)
	if !ok || r.tape.Undone(mid) {
		return // it may be for its device to send that again, in its place
	}
	epochs := r.tape.Epochs()
	again := impart.Send{Sender: s.User, Conv: s.Conv, CMID: s.CMID, Body: body(s.CMID, s.Size), Type: impart.DefaultType}
	other := again
	other.Body += "!"
	got := r.world.Send(r.ctx, []impart.Send{again})[0]
	if r.tape.Epochs() != epochs || r.tape.Undone(mid) || !known(got.Err) {
		return
	}
	if got.Err != nil || !got.Dup || got.Seq != seq || got.MID != mid {
		r.tape.Wrong("D2", "%s of %s is stored at %s %d (%s), and a resend was answered with %d (%s), dup %v, %v", s.CMID, s.User, s.Conv, seq, mid, got.Seq, got.MID, got.Dup, got.Err)
		return
	}
	got = r.world.Send(r.ctx, []impart.Send{other})[0]
	if known(got.Err) && impart.CodeOf(got.Err) != impart.CMIDReused {
		r.tape.Wrong("D12", "another text under %s of %s was answered with %d, %v", s.CMID, s.User, got.Seq, got.Err)
	}
}

// batch sends good messages around ones that must be refused: each fails alone
// (D13), and none uses up a seq (D7).
func (r *Run) batch(s *Step) {
	item := func(suffix string, conv impart.ConvID, size int) impart.Send {
		cmid := s.CMID + impart.CMID(suffix)
		return impart.Send{Sender: s.User, Conv: conv, CMID: cmid, Body: body(cmid, size)}
	}
	got := r.post(item("a", s.Conv, 20), item("b", nowhere, 20), item("c", s.Conv, 64<<10+1), item("d", s.Conv, 20))
	for i, want := range []impart.Code{"", impart.NotMember, impart.TooLarge, ""} {
		if err := got[i].Err; known(err) && (err == nil) != (want == "") || known(err) && err != nil && impart.CodeOf(err) != want {
			r.tape.Wrong("D13", "message %d of a mixed batch of %s was answered with %v, and should be with %q", i, s.User, err, want)
		}
	}
	if a, d := got[0], got[3]; a.Err == nil && d.Err == nil && d.Seq <= a.Seq {
		r.tape.Wrong("D14", "two messages of one batch got %d and %d", a.Seq, d.Seq)
	}
}

// collide sends two messages whose senders and cmids are one text when joined
// without a border, and two whose cmids differ in case or a space alone (D12).
func (r *Run) collide(s *Step) {
	cmid := s.CMID
	for _, k := range []struct {
		user impart.UserID
		cmid impart.CMID
	}{{"a", "b:" + cmid}, {"a:b", cmid}, {"a", "k" + cmid}, {"a", "K" + cmid}, {"a", "k" + cmid + " "}} {
		got := r.post(impart.Send{Sender: k.user, Conv: s.Conv, CMID: k.cmid, Body: body(k.cmid+"/"+impart.CMID(k.user), 20)})[0]
		if got.Err == nil && got.Dup || impart.CodeOf(got.Err) == impart.CMIDReused {
			r.tape.Wrong("D12", "the new message %q of %s was answered with dup %v, %v", k.cmid, k.user, got.Dup, got.Err)
		}
	}
}

// early sends a message whose predecessor was never sent (D14).
func (r *Run) early(s *Step) {
	got := r.post(impart.Send{Sender: s.User, Conv: s.Conv, CMID: s.CMID, Prev: "never-" + s.CMID, Body: body(s.CMID, 20)})[0]
	if got.Err == nil {
		r.tape.Wrong("D14", "%s of %s was stored before its predecessor", s.CMID, s.User)
	} else if code := impart.CodeOf(got.Err); !code.Retry() {
		r.tape.Wrong("D14", "a message before its predecessor was refused with %v", got.Err)
	}
}

// ackBack acknowledges less than before (D4).
func (r *Run) ackBack(s *Step) {
	sent := r.post(impart.Send{Sender: s.User, Conv: s.Conv, CMID: s.CMID, Body: body(s.CMID, 20)})[0]
	if sent.Err != nil || sent.Seq < 2 {
		return
	}
	for _, seq := range []impart.Seq{sent.Seq, sent.Seq - 1} {
		if got, err := r.world.Ack(r.ctx, s.User, s.Conv, seq); err == nil && got < sent.Seq {
			r.tape.Wrong("D4", "%s has acknowledged %s %d, and an ack of %d was answered with %d", s.User, s.Conv, sent.Seq, seq, got)
		}
	}
}

// ackFar acknowledges what is not there (D4).
func (r *Run) ackFar(s *Step) {
	for _, seq := range []impart.Seq{1 << 40, -1} {
		_, err := r.world.Ack(r.ctx, s.User, s.Conv, seq)
		if known(err) && impart.CodeOf(err) != impart.CursorAhead {
			r.tape.Wrong("D4", "an ack of %s %d was answered with %v", s.Conv, seq, err)
		}
	}
}

// big is a text that fills queues.
func big(cmid impart.CMID) string { return body(cmid, 16<<10) }
