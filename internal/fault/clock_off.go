//go:build !fault

package fault

import "time"

// Wall is t, in this binary: its clock is the machine's.
func Wall(t time.Time) time.Time { return t }
