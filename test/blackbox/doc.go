// Package blackbox tests the real binary from outside, by what the protocol, the command line and the invariants promise.
// It shares no code with the server: a mistake in a common codec would be made twice and seen by nobody. Files are named
// after the frame, the reported case or the kind of attack they are about. With -short nothing here runs.
//
// The binary is built once per run. IMPART_BIN names a binary to use instead, IMPART_RACE=1 builds it with the race
// detector and waits longer, IMPART_KILLS=100 makes so many crashes in the case that makes them. Every bound on a wait is
// there to end a broken run: no test measures speed, except where the bound is the promise (a drain, a farewell, a return).
package blackbox
