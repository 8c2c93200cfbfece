// Package campaign draws schedules of an instant-messaging life from seeds
// (devices that send, recall, read, go away, crash, are reinstalled and come back
// from backups; a network that loses, repeats and cuts; a server that is killed,
// drained and restored), runs each on a server and on clients built on the SDK,
// and has the history judged. A seed always draws the same schedule; what happens
// in between is up to the machine, so a failing seed need not fail each time.
package campaign

import (
	"fmt"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// Plan is a schedule.
type Plan struct {
	Seed   uint64
	Convs  []history.Conversation
	Users  []impart.UserID
	Phones []Device
	Steps  []Step
	// Nodes is how many servers share a database; 0: one has a store of its own.
	Nodes int
	// Standby: the database has a synchronous standby.
	Standby bool
	// Apart: each node is a gateway and a logic node, and they share a Redis.
	Apart bool
}

// Device is a device with an application on it.
type Device struct {
	User    impart.UserID
	Device  impart.DeviceID
	History *int64 // how many events of each conversation a new store starts with; nil: all
}

// Deed is what a step does.
type Deed string

// The deeds of devices and their applications.
const (
	Send      Deed = "send"       // a message
	SendAgain Deed = "send-again" // the same draft once more, as an application does after a crash
	Recall    Deed = "recall"     // of a message that was sent
	Cancel    Deed = "cancel"     // of a message, wherever it is
	Read      Deed = "read"       // everything that is here
	Restart   Deed = "restart"    // the application, in good order
	Crash     Deed = "crash"      // the application dies
	CrashHand Deed = "crash-hand" // it dies while it is being handed an event
	CrashAck  Deed = "crash-ack"  // it dies as soon as an ack has left it
	Leave     Deed = "away"       // the application is ended, until back
	Return    Deed = "back"
	Reinstall Deed = "reinstall" // its store is deleted
	Keep      Deed = "keep"      // a copy of its store is put aside
	RollBack  Deed = "roll-back" // and comes back
	Clone     Deed = "clone"     // a copy of its store runs elsewhere, until unclone
	Unclone   Deed = "unclone"   // the copy is thrown away
	Refuse    Deed = "refuse"    // the application's handler fails, until accept
	Accept    Deed = "accept"
)

// The deeds of the network of a device.
const (
	Net   Deed = "net" // from now on it is as Net says
	CutIt Deed = "cut" // the connection ends
)

// The deeds of the server and its operator.
const (
	Kill    Deed = "kill"  // kill -9; it starts again after a while
	Drain   Deed = "drain" // SIGTERM, and a start
	Backup  Deed = "backup"
	Restore Deed = "restore" // the backup, and a raised epoch
	Raise   Deed = "raise"   // the epoch, though nothing was lost
	Join    Deed = "join"
	Part    Deed = "leave"
)

// The deeds of what breaks under several nodes. Phone is the node, Size how many
// beats it lasts.
const (
	NodeKill  Deed = "node-kill"  // kill -9 of one
	NodeDrain Deed = "node-drain" // SIGTERM, and a start
	NodePause Deed = "node-pause" // SIGSTOP
	NodeCut   Deed = "node-cut"   // from the database
	DBStop    Deed = "db-stop"    // at once, without a checkpoint
	DBKill    Deed = "db-kill"    // kill -9 of all its processes
	DBPause   Deed = "db-pause"   // SIGSTOP of all its processes
	Promote   Deed = "promote"    // kill -9 of the primary; the standby takes over
)

// The deeds of what breaks between gateways and logic nodes. Phone is the pair, Size
// how many beats it lasts.
const (
	LogicKill  Deed = "logic-kill"  // kill -9 of a logic node alone
	EdgeKill   Deed = "edge-kill"   // kill -9 of a gateway alone
	LogicPause Deed = "logic-pause" // SIGSTOP
	HopCut     Deed = "hop-cut"     // the way to a logic node
	RedisKill  Deed = "redis-kill"  // it comes back empty
	RedisPause Deed = "redis-pause" // SIGSTOP
	RedisWipe  Deed = "redis-wipe"  // it forgets everything
)

// The deeds of an observer who asks for things whose answers are known.
const (
	Look    Deed = "look"    // reads a whole log
	Resend  Deed = "resend"  // a stored message, as it was and with another text
	Batch   Deed = "batch"   // good messages around ones that must be refused
	Collide Deed = "collide" // two senders and cmids that join to one text
	Early   Deed = "early"   // a message whose predecessor was never sent
	AckBack Deed = "ack-back"
	AckFar  Deed = "ack-far"
	Mute    Deed = "mute"    // a device acknowledges nothing for a while
	Quiet   Deed = "quiet"   // a device gets no push and no retry for a while
	Stuck   Deed = "stuck"   // a device takes nothing while much is sent
	Unheard Deed = "unheard" // a device hears no answer to a message, and that is taken back meanwhile
	Rest    Deed = "rest"
)

// Step is one step of a schedule. Which fields count depends on the deed.
type Step struct {
	Wait  int // beats to let pass before it
	Do    Deed
	Phone int
	Conv  impart.ConvID
	User  impart.UserID
	CMID  impart.CMID
	Size  int // bytes of the body, or a number of beats
	Net   Weather
	Death Death
}

// Weather is how the network of a device treats frames: each chance is in percent.
type Weather struct {
	Off                    bool // there is none
	Lose, Twice, Cut, Late int
}

func (w Weather) String() string {
	if w.Off {
		return "off"
	}
	if w == (Weather{}) {
		return "fine"
	}
	var parts []string
	for _, p := range []struct {
		name string
		n    int
	}{{"lose", w.Lose}, {"twice", w.Twice}, {"cut", w.Cut}, {"late", w.Late}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d%%", p.name, p.n))
		}
	}
	return strings.Join(parts, ", ")
}

// Death is a point at which the next life of a server ends by itself.
type Death struct {
	Point string // "" : it does not
	After int    // hits to survive
}

// String shows the plan to people: one line for each step.
func (p *Plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d\n", p.Seed)
	if p.Nodes > 0 {
		fmt.Fprintf(&out, "%d nodes on one database, with a synchronous standby: %v, gateways and logic nodes apart: %v\n", p.Nodes, p.Standby, p.Apart)
	}
	for _, c := range p.Convs {
		fmt.Fprintf(&out, "conversation %s (history %s): %s\n", c.ID, c.History, join(c.Founders))
	}
	for i := range p.Phones {
		d := &p.Phones[i]
		fmt.Fprintf(&out, "device %d: %s on %s", i, d.User, d.Device)
		if d.History != nil {
			fmt.Fprintf(&out, ", which starts with %d events", *d.History)
		}
		out.WriteByte('\n')
	}
	beat := 0
	for i := range p.Steps {
		s := &p.Steps[i]
		beat += s.Wait
		fmt.Fprintf(&out, "%4d  %s\n", beat, s)
	}
	return out.String()
}

func join[S ~string](list []S) string {
	texts := make([]string, len(list))
	for i, each := range list {
		texts[i] = string(each)
	}
	return strings.Join(texts, ", ")
}

func (s *Step) String() string {
	text := fmt.Sprintf("%-12s", s.Do)
	switch s.Do {
	case NodeKill, NodeDrain, NodePause, NodeCut, LogicKill, EdgeKill, LogicPause, HopCut:
		return text + fmt.Sprintf("node %d for %d beats", s.Phone, s.Size)
	case DBStop, DBKill, DBPause, RedisKill, RedisPause:
		return text + fmt.Sprintf("for %d beats", s.Size)
	case Promote, RedisWipe:
		return strings.TrimRight(text, " ")
	case Kill, Drain, Backup, Restore, Raise, Join, Part, Look, Rest, Resend, Batch, Collide, Early, AckBack, AckFar:
	default:
		text += fmt.Sprintf("device %d ", s.Phone)
	}
	for _, part := range []string{string(s.User), string(s.CMID), string(s.Conv)} {
		if part != "" {
			text += part + " "
		}
	}
	switch s.Do {
	case Send:
		text += fmt.Sprintf("%d bytes", s.Size)
	case Net:
		text += s.Net.String()
	case Kill:
		text += fmt.Sprintf("and start after %d beats", s.Size)
		if s.Death.Point != "" {
			text += fmt.Sprintf(", to die at %s after %d hits", s.Death.Point, s.Death.After)
		}
	case Restore:
		text += fmt.Sprintf("and start after %d beats", s.Size)
	}
	return strings.TrimRight(text, " ")
}
