//go:build fault

package fault

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Enabled reports whether this binary can inject faults.
const Enabled = true

var planted = func() map[Bug]bool {
	bugs := map[Bug]bool{}
	for name := range strings.SplitSeq(os.Getenv("IM_BUG"), ",") {
		bugs[Bug(name)] = true
	}
	return bugs
}()

// Planted reports whether IM_BUG names the bug (several by comma).
func Planted(bug Bug) bool { return planted[bug] }

// haltCode is the exit code of a halt: that of a process that was killed.
const haltCode = 137

// maxDelay bounds delay=MS.
const maxDelay = 10 * time.Minute

// rule is one fault: what happens at a point, after from hits and for count of
// them (0: all that follow).
type rule struct {
	point       Point
	action      string // halt, drop, error or delay
	delay       time.Duration
	from, count int64
	hits        int64
}

// frames reports whether the point is about frames, which can be dropped.
func (p Point) frames() bool { return p == ReplySend || p == Push || p == Ack }

var rules struct {
	mu   sync.Mutex // guards what follows
	list []*rule
}

// Set replaces the faults by those of a text: point:action[:from[:count]], by
// comma. from is how many hits to let pass first, count how many to act on after
// that (0 or absent: all). Actions are halt (exit at once with 137), drop (only at
// points about frames), error and delay=MS.
func Set(spec string) error {
	list, err := parseAll(spec)
	if err != nil {
		return err
	}
	rules.mu.Lock()
	defer rules.mu.Unlock()
	rules.list = list
	return nil
}

// Check is the error that [Set] would give.
func Check(spec string) error {
	_, err := parseAll(spec)
	return err
}

func parseAll(spec string) ([]*rule, error) {
	if spec == "" {
		return nil, nil
	}
	var list []*rule
	for part := range strings.SplitSeq(spec, ",") {
		r, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func parse(text string) (*rule, error) {
	fields := strings.Split(text, ":")
	if len(fields) < 2 || len(fields) > 4 {
		return nil, fmt.Errorf("the fault %q should be point:action[:from[:count]]", text)
	}
	r := &rule{point: Point(fields[0])}
	if !slices.Contains(Points(), r.point) {
		return nil, fmt.Errorf("the fault %q is at no point that exists; there are %v", text, Points())
	}
	var wait string
	var timed bool
	r.action, wait, timed = strings.Cut(fields[1], "=")
	switch {
	case timed && r.action == "delay":
		ms, err := strconv.ParseInt(wait, 10, 64)
		if err != nil || ms < 0 || ms > maxDelay.Milliseconds() {
			return nil, fmt.Errorf("the fault %q should wait for 0 to %d ms, as in delay=500", text, maxDelay.Milliseconds())
		}
		r.delay = time.Duration(ms) * time.Millisecond
	case timed || !slices.Contains([]string{"halt", "drop", "error"}, r.action):
		return nil, fmt.Errorf("the fault %q should do one of halt, drop, error and delay=MS", text)
	case r.action == "drop" && !r.point.frames():
		return nil, fmt.Errorf("the fault %q drops what is no frame; drop is for %s, %s and %s", text, ReplySend, Push, Ack)
	}
	for i, field := range fields[2:] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("the fault %q should have whole numbers for from and count", text)
		}
		*[]*int64{&r.from, &r.count}[i] = n
	}
	return r, nil
}

// At strikes if a fault is set for this hit of the point, and says so on standard
// error.
func At(p Point) error {
	var err error
	for _, r := range due(p) {
		fmt.Fprintln(os.Stderr, Struck(p)+"action="+r.action)
		switch r.action {
		case "halt":
			os.Exit(haltCode)
		case "delay":
			time.Sleep(r.delay)
		case "drop":
			err = ErrDropped
		case "error":
			err = ErrInjected
		}
	}
	return err
}

// due counts the hit and gives the faults that it meets.
func due(p Point) []*rule {
	rules.mu.Lock()
	defer rules.mu.Unlock()
	var met []*rule
	for _, r := range rules.list {
		if r.point != p {
			continue
		}
		r.hits++
		if past := r.hits - r.from; past > 0 && (r.count == 0 || past <= r.count) {
			met = append(met, r)
		}
	}
	return met
}
