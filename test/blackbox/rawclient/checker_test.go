package rawclient

import (
	"fmt"
	"strings"
	"testing"
)

func log(n int64) []Event {
	var l []Event
	for seq := int64(1); seq <= n; seq++ {
		l = append(l, Event{Conv: "c", Seq: seq, Kind: "msg", Mid: fmt.Sprint("m", seq), Sender: "u", CMID: fmt.Sprint("k", seq), Body: fmt.Sprint("b", seq)})
	}
	return l
}

func wellChecker() Checker {
	return Checker{
		Conv: "c", Head: 4, Truth: log(4), Devices: map[string][]Event{"phone": log(4), "tablet": log(4)},
		Receipts: []Receipt{{User: "u", Conv: "c", CMID: "k2", Body: "b2", Mid: "m2", Seq: 2}},
	}
}

// A checker that cannot fail is worth nothing: each kind of damage must be found and named.
func TestCheckerFindsEachKindOfDamage(t *testing.T) {
	if found := wellChecker().Check(); len(found) > 0 {
		t.Fatalf("a sound log is called damaged: %v", found)
	}
	for name, tc := range map[string]struct {
		damage func(*Checker)
		want   string
	}{
		"hole on the server":   {func(c *Checker) { c.Truth = append(log(1), log(4)[2:]...) }, "server: seq 2 is missing"},
		"hole on a device":     {func(c *Checker) { c.Devices["phone"] = log(3) }, "phone: seq 4 is missing"},
		"seq twice":            {func(c *Checker) { c.Truth = append(log(4), log(4)[3]) }, "seq 4 twice"},
		"mid twice":            {func(c *Checker) { c.Truth[3].Mid = "m1" }, "mid m1 at seq 1 and at 4"},
		"cmid twice":           {func(c *Checker) { c.Truth[3].CMID = "k1" }, "cmid k1 at seq 1 and at 4"},
		"another body":         {func(c *Checker) { c.Devices["tablet"][1].Body = "x" }, "tablet: seq 2 differs"},
		"beyond head":          {func(c *Checker) { c.Devices["phone"] = log(5) }, "phone: seq 5 is beyond head 4"},
		"another conversation": {func(c *Checker) { c.Devices["phone"][0].Conv = "d" }, "does not belong here"},
		"sent, then gone":      {func(c *Checker) { c.Receipts[0].Seq = 9 }, "not in the log"},
		"sent, another mid":    {func(c *Checker) { c.Receipts[0].Mid = "m9" }, "is not what the log holds"},
		"sent, another body":   {func(c *Checker) { c.Receipts[0].Body = "b9" }, "is not what the log holds"},
	} {
		t.Run(name, func(t *testing.T) {
			c := wellChecker()
			tc.damage(&c)
			if found := strings.Join(c.Check(), "\n"); !strings.Contains(found, tc.want) {
				t.Errorf("got %q, want something with %q", found, tc.want)
			}
		})
	}
}
