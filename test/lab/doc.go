// Package lab runs the quick set of the fault lab as a user does, and interrupts
// it.
package lab
