//go:build !linux

package main

import "errors"

// syncState says whether a time service keeps the clock.
type syncState int

const (
	clockUnknown syncState = iota
	clockKept
	clockFree
)

func clockSynchronised() syncState { return clockUnknown }

// disk is a file system: its kind and the bytes that are free for us.
type disk struct {
	kind string
	free uint64
}

var errOnlyLinux = errors.New("known on Linux only")

func diskOf(string) (disk, error) { return disk{}, errOnlyLinux }

func descriptorLimit() (int, error) { return 0, errOnlyLinux }
