package checks

import (
	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

type frame = wire.ServerFrame

// isPush matches every push.
func isPush(f frame) bool {
	_, ok := f.(*wire.Event)
	return ok
}

// hintHead is the head that a hint tells of; 0 for other frames.
func hintHead(f frame) impart.Seq {
	if h, ok := f.(*wire.Hint); ok {
		return h.Head
	}
	return 0
}

// isWhy matches hints with this reason, of any conversation or none.
func isWhy(why string) func(frame) bool {
	return func(f frame) bool {
		h, ok := f.(*wire.Hint)
		return ok && h.Why == why
	}
}

// isBye matches the goodbye with this code.
func isBye(code wire.ByeCode) func(frame) bool {
	return func(f frame) bool {
		bye, ok := f.(*wire.Bye)
		return ok && bye.Code == code
	}
}
