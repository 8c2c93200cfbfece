package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line of input in bytes; a server takes much less.
const maxLine = 1 << 20

// readLines gives the lines of in, and why it ended (nil: at its end) on the second
// channel after the last. A read that blocks cannot be interrupted: the goroutine
// ends when in does, which for standard input is the process.
func readLines(ctx context.Context, in io.Reader) (<-chan string, <-chan error) {
	lines, ended := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				ended <- nil
				return
			}
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line of the input is longer than %d bytes; it and what follows was not taken", maxLine)
		}
		ended <- err
	}()
	return lines, ended
}
