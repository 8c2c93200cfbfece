//go:build race

package simulate

// The race detector makes runs ten times as long: it looks at few.
const (
	defaultRuns = 6
	raced       = true
)
