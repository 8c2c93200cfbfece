// Package blackbox tests the real binary from outside, by what the protocol, the command line and the invariants promise.
// It shares no code with the server: a mistake in a common codec would be made twice and seen by nobody. Files are named
// after the frame, the reported case or the kind of attack they are about. With -short nothing here runs.
package blackbox
