package chat

import (
	"context"
	"errors"
	"io"
)

// Screen fills a terminal until the user leaves or ctx ends.
func (c *Chat) Screen(ctx context.Context, in io.Reader, out io.Writer) error {
	return errors.New("not there yet")
}
