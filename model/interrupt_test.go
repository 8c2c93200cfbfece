package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestAnInterruptedRunLeavesNothing stops a run while its first program works.
func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	spin := filepath.Join(t.TempDir(), "spin")
	if err := os.WriteFile(spin, []byte("#!/bin/sh\ntouch \"$TMPDIR/left\"\nkill -INT $PPID\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	err := run(ctx, tools{spin: spin, cc: "cc"}, "send/NO_DEDUP", false, io.Discard)
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it ends with %v, %v", err, ctx.Err())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
