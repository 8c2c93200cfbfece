package sqlstore

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
)

// cursorRow is one device's row in one conversation.
type cursorRow struct {
	install   impart.InstallEpoch
	epoch     impart.Epoch
	start     impart.Seq
	delivered impart.Seq
	n         int64
	updated   impart.Millis
}

// place is what bounds the cursors of one user in one conversation.
type place struct {
	epoch   impart.Epoch
	periods impart.Periods
	floor   impart.Seq
	head    impart.Seq // the user's
}

// current reports whether the row's delivered seq counts (D9).
func (r *cursorRow) current(install impart.InstallEpoch, epoch impart.Epoch) bool {
	return r != nil && r.of(install) && r.epoch == epoch
}

// of reports whether the row is of this install: an earlier one had another
// local store, which is lost.
func (r *cursorRow) of(install impart.InstallEpoch) bool {
	return r.install == install || fault.Planted(fault.OldInstallCounts)
}

// effective is where the cursor of a device with this row (nil: none) and this
// install stands.
func (p *place) effective(r *cursorRow, install impart.InstallEpoch) impart.Seq {
	at := p.start(r, install)
	if r.current(install, p.epoch) {
		at = r.delivered
	}
	return min(max(at, p.floor), p.head)
}

// start is where the device's history begins in this install.
func (p *place) start(r *cursorRow, install impart.InstallEpoch) impart.Seq {
	if r != nil && r.of(install) {
		return r.start
	}
	return max(p.periods.First()-1, 0)
}

// moved is the row after an acknowledgement of seq, and the merged cursor. The
// row keeps what counted before if that is higher (D4); what counts no longer,
// because the install or the epoch is another, is forgotten (D9).
func (p *place) moved(r *cursorRow, install impart.InstallEpoch, seq impart.Seq) cursorRow {
	out := cursorRow{install: install, epoch: p.epoch, start: p.start(r, install), delivered: max(p.effective(r, install), seq)}
	if fault.Planted(fault.CursorBack) {
		out.delivered = seq
	}
	return out
}

// checkSeq refuses a cursor that points beyond the user's head.
func (p *place) checkSeq(seq impart.Seq) error {
	if seq < 0 || (seq > p.head && !fault.Planted(fault.CursorAhead)) {
		return cursorAhead(seq, p.head)
	}
	return nil
}

// readRow is a user's read cursor in a conversation.
type readRow struct {
	epoch impart.Epoch
	seq   impart.Seq
}

// counts is the read cursor; one of an older epoch is 0.
func (r *readRow) counts(epoch impart.Epoch) impart.Seq {
	if r == nil || r.epoch != epoch {
		return 0
	}
	return r.seq
}
