package wire

import "fmt"

// WithRID is a copy of a client's frame that has this rid. It panics on a type
// that is not one of this package's client frames, and on [Typing], which has no
// reply that a rid could name.
func WithRID(frame Frame, rid string) Frame {
	switch f := frame.(type) {
	case *Hello:
		g := *f
		g.RID = rid
		return &g
	case *Sub:
		return &Sub{RID: rid}
	case *Send:
		g := *f
		g.RID = rid
		return &g
	case *Ack:
		g := *f
		g.RID = rid
		return &g
	case *Sync:
		g := *f
		g.RID = rid
		return &g
	case *Pull:
		g := *f
		g.RID = rid
		return &g
	case *Convs:
		g := *f
		g.RID = rid
		return &g
	case *Read:
		g := *f
		g.RID = rid
		return &g
	case *Recall:
		g := *f
		g.RID = rid
		return &g
	case *Who:
		g := *f
		g.RID = rid
		return &g
	case *Ping:
		return &Ping{RID: rid}
	default:
		panic(fmt.Sprintf("wire: a %T takes no rid", frame))
	}
}
