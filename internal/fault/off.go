//go:build !fault

package fault

import "errors"

// Enabled reports whether this binary can inject faults.
const Enabled = false

// Planted reports whether a bug is planted: never, in this binary.
func Planted(Bug) bool { return false }

// Set is [Check], in this binary.
func Set(spec string) error { return Check(spec) }

// Check is an error for any faults but none, in this binary.
func Check(spec string) error {
	if spec != "" {
		return errors.New("this binary cannot inject faults; build it with -tags fault")
	}
	return nil
}

// At never strikes, in this binary.
func At(Point) error { return nil }
