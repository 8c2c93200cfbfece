package history

import (
	"testing"

	"github.com/impart-im/impart"
)

const (
	ana = impart.UserID("ana")
	c   = impart.ConvID("c")
)

// log is one with these mids, from seq 1 on.
func log(mids ...impart.MID) map[impart.ConvID][]impart.Event {
	var events []impart.Event
	for i, mid := range mids {
		events = append(events, impart.Event{Conv: c, Seq: impart.Seq(i + 1), MID: mid, Sender: ana, Kind: impart.KindMsg})
	}
	return map[impart.ConvID][]impart.Event{c: events}
}

// shows is a run in which a database's standby has taken over, and nodes have raised
// the epoch to 5 without telling anybody; in which then a backup was put back, under
// epoch 9; and in which ana was shown an event.
func shows(epoch impart.Epoch, seq impart.Seq, mid impart.MID) []Finding {
	tape := New([]Conversation{{ID: c, History: impart.HistoryAll, Founders: []impart.UserID{ana}}}, 1)
	tape.MayEpoch()
	tape.Ends(5, log("kept", "lost"))
	tape.Restored(9, log("kept"))
	tape.last().logs = log("kept", "new")
	tape.Saw(ana, epoch, impart.Event{Conv: c, Seq: seq, MID: mid, Kind: impart.KindMsg})
	tape.judgeSights()
	return tape.Findings()
}

func TestWhatWasShownIsHeldAgainstTheLogOfItsEpoch(t *testing.T) {
	for name, is := range map[string]struct {
		epoch impart.Epoch
		mid   impart.MID
		want  string // the invariant that is broken; "": none
	}{
		"before the standby":                   {1, "lost", ""},
		"under the epoch of the nodes":         {5, "lost", ""},
		"before the backup, what came after":   {5, "new", "D1"},
		"by nodes that noticed the backup":     {7, "new", ""},
		"after the backup":                     {9, "new", ""},
		"after the backup, what it has undone": {9, "lost", "D1"},
		"by nodes that noticed, the undone":    {7, "lost", "D1"},
		"in an epoch that nobody raised":       {11, "new", "D18"},
	} {
		t.Run(name, func(t *testing.T) {
			found := shows(is.epoch, 2, is.mid)
			switch {
			case is.want == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case is.want != "" && (len(found) != 1 || !found[0].Names(is.want)):
				t.Errorf("found %v, and not %s", found, is.want)
			}
		})
	}
}
