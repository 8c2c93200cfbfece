//go:build race

package client_test

// crowd makes a crowd smaller, because the race detector makes everything slower;
// the whole one comes in the run without it.
func crowd(n int) int { return n / 8 }
