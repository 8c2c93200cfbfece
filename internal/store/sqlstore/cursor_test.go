package sqlstore

import (
	"testing"

	"github.com/impart-im/impart"
)

func TestEffectiveCursor(t *testing.T) {
	row := func(install impart.InstallEpoch, epoch impart.Epoch, start, delivered impart.Seq) *cursorRow {
		return &cursorRow{install: install, epoch: epoch, start: start, delivered: delivered}
	}
	p := place{epoch: 3, periods: impart.Periods{{From: 11}}, floor: 0, head: 100}
	for name, c := range map[string]struct {
		row         *cursorRow
		floor, head impart.Seq
		want        impart.Seq
	}{
		"current":                      {row(2, 3, 20, 50), 0, 100, 50},
		"no row":                       {nil, 0, 100, 10},
		"older epoch":                  {row(2, 2, 20, 50), 0, 100, 20},
		"later epoch":                  {row(2, 4, 20, 50), 0, 100, 20},
		"earlier install":              {row(1, 3, 20, 50), 0, 100, 10},
		"earlier install, older epoch": {row(1, 2, 20, 50), 0, 100, 10},
		"below floor":                  {row(2, 3, 20, 50), 60, 100, 60},
		"no row, below floor":          {nil, 60, 100, 60},
		"above head":                   {row(2, 3, 20, 50), 0, 40, 40},
		"floor above head":             {row(2, 3, 20, 50), 60, 40, 40},
	} {
		p.floor, p.head = c.floor, c.head
		if got := p.effective(c.row, 2); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestMovedRow(t *testing.T) {
	p := place{epoch: 3, periods: impart.Periods{{From: 11}}, head: 100}
	for name, c := range map[string]struct {
		row  *cursorRow
		seq  impart.Seq
		want cursorRow
	}{
		"first":           {nil, 30, cursorRow{install: 2, epoch: 3, start: 10, delivered: 30}},
		"forward":         {&cursorRow{install: 2, epoch: 3, start: 20, delivered: 50}, 60, cursorRow{install: 2, epoch: 3, start: 20, delivered: 60}},
		"back":            {&cursorRow{install: 2, epoch: 3, start: 20, delivered: 50}, 40, cursorRow{install: 2, epoch: 3, start: 20, delivered: 50}},
		"earlier install": {&cursorRow{install: 1, epoch: 3, start: 20, delivered: 50}, 30, cursorRow{install: 2, epoch: 3, start: 10, delivered: 30}},
		"older epoch":     {&cursorRow{install: 2, epoch: 1, start: 20, delivered: 50}, 30, cursorRow{install: 2, epoch: 3, start: 20, delivered: 30}},
		"below the start": {nil, 5, cursorRow{install: 2, epoch: 3, start: 10, delivered: 10}},
	} {
		if got := p.moved(c.row, 2, c.seq); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestReadCursorOfAnOlderEpochIsZero(t *testing.T) {
	var none *readRow
	if none.counts(3) != 0 || (&readRow{2, 50}).counts(3) != 0 || (&readRow{3, 50}).counts(3) != 50 {
		t.Error("a read cursor counts in its own epoch alone")
	}
}

func TestCacheForgetsWhatIsNotUsed(t *testing.T) {
	c := newCache[int, int](10)
	for i := range 1000 {
		c.put(i, i)
		if v, ok := c.get(0); !ok || v != 0 {
			t.Fatalf("after %d entries, what is used all the time is gone", i)
		}
		if n := len(c.young) + len(c.old); n > 20 {
			t.Fatalf("%d entries in a cache of 10 to 20", n)
		}
	}
	if _, ok := c.get(1); ok {
		t.Error("what was not used for long is still there")
	}
	c.drop(0)
	if _, ok := c.get(0); ok {
		t.Error("dropped, and still there")
	}
	c.clear()
	if _, ok := c.get(999); ok {
		t.Error("cleared, and still there")
	}
}
