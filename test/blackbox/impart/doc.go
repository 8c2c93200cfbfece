// Package impart starts the real binary and treats it as the world does: by its command line, its ready line, its exit
// code, signals and the wire. It promises that no process it started outlives the test run, that a server's log is shown
// when a test fails, and that a panic or a data race in that log fails the test that ran the server.
package impart
