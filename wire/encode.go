package wire

import "github.com/impart-im/impart"

// AppendEventObject appends ev as the JSON object that stands in event, synced,
// pulled and convs frames.
func AppendEventObject(dst []byte, ev *impart.Event) []byte { return dst }


// Append implements [ServerFrame].
func (f Welcome) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Welcome) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Subbed) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Subbed) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Sent) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Sent) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Acked) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Acked) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Synced) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Synced) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Pulled) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Pulled) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f ConvsPage) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f ConvsPage) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Readed) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Readed) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Whos) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Whos) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Event) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Event) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Hint) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Hint) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Receipt) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Receipt) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f TypingNote) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f TypingNote) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Pong) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Pong) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f ErrorFrame) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f ErrorFrame) AppendBody(dst []byte) []byte { return dst }

// Append implements [ServerFrame].
func (f Bye) Append(dst []byte) []byte { return dst }

// AppendBody appends the frame's object without "t" and "rid", as HTTP answers it.
func (f Bye) AppendBody(dst []byte) []byte { return dst }
