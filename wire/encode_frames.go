package wire

// Append gives a frame and AppendBody its object without "t" and "rid", as the
// HTTP API answers it.

// Append implements [ServerFrame].
func (f Welcome) Append(dst []byte) []byte { return end(f.fields(begin(dst, "welcome", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Welcome) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Subbed) Append(dst []byte) []byte { return end(f.fields(begin(dst, "subbed", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Subbed) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Sent) Append(dst []byte) []byte { return end(f.fields(begin(dst, "sent", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Sent) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Acked) Append(dst []byte) []byte { return end(f.fields(begin(dst, "acked", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Acked) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Synced) Append(dst []byte) []byte { return end(f.fields(begin(dst, "synced", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Synced) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Pulled) Append(dst []byte) []byte { return end(f.fields(begin(dst, "pulled", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Pulled) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f ConvsPage) Append(dst []byte) []byte { return end(f.fields(begin(dst, "convs", f.RID))) }

// AppendBody implements [ServerFrame].
func (f ConvsPage) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Readed) Append(dst []byte) []byte { return end(f.fields(begin(dst, "readed", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Readed) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Whos) Append(dst []byte) []byte { return end(f.fields(begin(dst, "whos", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Whos) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Event) Append(dst []byte) []byte { return end(f.fields(begin(dst, "event", ""))) }

// AppendBody implements [ServerFrame].
func (f Event) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Hint) Append(dst []byte) []byte { return end(f.fields(begin(dst, "hint", ""))) }

// AppendBody implements [ServerFrame].
func (f Hint) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Receipt) Append(dst []byte) []byte { return end(f.fields(begin(dst, "receipt", ""))) }

// AppendBody implements [ServerFrame].
func (f Receipt) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f TypingNote) Append(dst []byte) []byte { return end(f.fields(begin(dst, "typing", ""))) }

// AppendBody implements [ServerFrame].
func (f TypingNote) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Pong) Append(dst []byte) []byte { return end(f.fields(begin(dst, "pong", f.RID))) }

// AppendBody implements [ServerFrame].
func (f Pong) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f ErrorFrame) Append(dst []byte) []byte { return end(f.fields(begin(dst, "error", f.RID))) }

// AppendBody implements [ServerFrame].
func (f ErrorFrame) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }

// Append implements [ServerFrame].
func (f Bye) Append(dst []byte) []byte { return end(f.fields(begin(dst, "bye", ""))) }

// AppendBody implements [ServerFrame].
func (f Bye) AppendBody(dst []byte) []byte { return wrap(f.fields(dst), len(dst)) }
