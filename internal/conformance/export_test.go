package conformance

import "time"

// Impatient lets the bus suite wait for less than it would for a real bus: for
// buses that are known to keep it waiting.
func Impatient() { soon = 2 * time.Second }
