package wire

import (
	"bytes"
	"testing"
)

// A frame with another rid is the same text but for that, and the frame itself is
// left alone.
func TestWithRIDChangesNothingElse(t *testing.T) {
	for _, frame := range []Frame{
		&Hello{RID: "old", Token: "t", Device: "d"}, &Sub{RID: "old"}, &Send{RID: "old", Conv: "c", CMID: "m", Body: "b"},
		&Ack{RID: "old"}, &Sync{RID: "old", Conv: "c"}, &Pull{RID: "old"}, &Convs{RID: "old", After: "c"},
		&Read{RID: "old", Conv: "c", Seq: 3}, &Recall{RID: "old", Conv: "c", Seq: 3, CMID: "m"},
		&Who{RID: "old", Conv: "c", Seq: 3}, &Ping{RID: "old"},
	} {
		before := AppendFrame(nil, frame)
		want := bytes.Replace(before, []byte(`"rid":"old"`), []byte(`"rid":"new"`), 1)
		if got := AppendFrame(nil, WithRID(frame, "new")); !bytes.Equal(got, want) || bytes.Equal(got, before) {
			t.Errorf("%s becomes %s", before, got)
		}
		if after := AppendFrame(nil, frame); !bytes.Equal(after, before) {
			t.Errorf("%s was changed to %s", before, after)
		}
	}
}
