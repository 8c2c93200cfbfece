package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
)

func TestTraceTellsWhoHasTheMessage(t *testing.T) {
	d := api.Delivery{
		Event: api.DeliveredEvent{Conv: "c-ab", Seq: 7, Kind: impart.KindMsg, MID: "mid-7", Sender: "u-ana", Device: "d-phone", At: 1_700_000_000_123},
		Head:  9,
		Users: []api.UserDelivery{
			{User: "u-ana", Read: true, Devices: []api.Cursor{{Device: "d-phone", Delivered: 9, Updated: 1_700_000_001_000}}},
			{User: "u-ben", Devices: []api.Cursor{{Device: "d-old", Delivered: 4}, {Device: "d-new", Start: 8, Delivered: 8}}},
			{User: "u-cem"},
		},
	}
	var out bytes.Buffer
	if err := printDelivery(&out, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"c-ab 7: msg from u-ana on d-phone\n", "as mid-7, head is 9\n",
		"u-ana   yes    d-phone   delivered", "d-old     lagging at 4, 3 to go   never\n",
		"d-new     started later, at 8", "u-cem   no     -         no device yet\n",
		"\non 1 of 3 devices, read by 0 of 2 others\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestTextFromElsewhereCannotMoveTheCursor(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out, "A", "B")
	tab.row("x\x1b[2Jy\nz", "a\tb\u202edcba")
	if err := tab.end(); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\t\u202e") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("got %q", out.String())
	}
	if got := oneLine("héllo 世界 ✓"); got != "héllo 世界 ✓" {
		t.Errorf("printable text became %q", got)
	}
}
