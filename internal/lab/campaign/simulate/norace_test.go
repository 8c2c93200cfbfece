//go:build !race

package simulate

// How many plans are part of every run of the tests.
const (
	defaultRuns = 150
	raced       = false
)
