//go:build !fault

package fault

// Enabled reports whether this binary can inject faults.
const Enabled = false

// Planted reports whether a bug is planted: never, in this binary.
func Planted(Bug) bool { return false }
