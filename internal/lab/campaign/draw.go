package campaign

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab/campaign/history"
)

// Auditor is a founder of every conversation, who sees everything and does nothing.
const Auditor impart.UserID = "u-audit"

// The conversations of a plan: one whose members stay, and two where they come
// and go.
const (
	everybody = impart.ConvID("c-all")
	fromJoin  = impart.ConvID("c-join")
	allOfIt   = impart.ConvID("c-hist")
	nowhere   = impart.ConvID("c-nowhere")
)

// Of two of the users, one id with a border is the other with the beginning of a
// cmid: keys that are joined carelessly collide (D12).
var users = []impart.UserID{"a", "a:b", "u-cleo", "u-dan"}

// draft is a plan that is being drawn.
type draft struct {
	Plan
	*rand.Rand
	made    int
	sent    []Step // messages so far
	phones  []pencil
	backup  bool // the operator has one
	restore bool // and has used one: more would make runs long
	moved   bool // the standby has taken over
}

// pencil is what a drawn device is doing.
type pencil struct {
	away, refuse, clone, kept bool
}

// weight is a deed with how often it is drawn.
type weight struct {
	often int
	draw  func(d *draft)
}

var weights = []weight{
	{30, (*draft).send}, {8, (*draft).burst}, {4, (*draft).sendAgain}, {4, (*draft).stranger}, {2, (*draft).tooLarge},
	{6, (*draft).recall}, {5, (*draft).cancel}, {5, (*draft).read},
	{3, (*draft).restart}, {4, (*draft).crash}, {3, (*draft).crashHand}, {4, (*draft).crashAck}, {4, (*draft).away}, {3, (*draft).reinstall},
	{4, (*draft).rollBack}, {3, (*draft).clone}, {2, (*draft).refuse},
	{16, (*draft).weather}, {6, (*draft).cut},
	{4, (*draft).kill}, {3, (*draft).die}, {2, (*draft).drain}, {3, (*draft).restored}, {1, (*draft).raise},
	{6, (*draft).join}, {6, (*draft).part},
	{4, (*draft).look}, {4, (*draft).resend}, {4, (*draft).batch}, {3, (*draft).collide}, {2, (*draft).early}, {2, (*draft).ackBack}, {2, (*draft).ackFar},
	{4, (*draft).mute}, {2, (*draft).quiet}, {4, (*draft).unheard}, {1, (*draft).stuck}, {6, (*draft).rest},
}

// Draw makes the plan of a seed, of so many steps or a few more, for one server.
func Draw(seed uint64, steps int) *Plan {
	return draw(&draft{Rand: rand.New(rand.NewPCG(seed, 7))}, seed, steps, weights)
}

// DrawNodes is Draw for three nodes on one database.
func DrawNodes(seed uint64, steps int) *Plan {
	d := &draft{Rand: rand.New(rand.NewPCG(seed, 11))}
	d.Nodes, d.Standby = 3, d.IntN(3) == 0
	return draw(d, seed, steps, slices.Concat(weights, nodeWeights))
}

// DrawApart is DrawNodes for three gateways and three logic nodes.
func DrawApart(seed uint64, steps int) *Plan {
	d := &draft{Rand: rand.New(rand.NewPCG(seed, 13))}
	d.Nodes, d.Standby, d.Apart = 3, d.IntN(3) == 0, true
	return draw(d, seed, steps, slices.Concat(weights, nodeWeights, apartWeights))
}

func draw(d *draft, seed uint64, steps int, weights []weight) *Plan {
	d.Seed, d.Users = seed, users
	d.Convs = []history.Conversation{
		{ID: everybody, History: impart.FromJoin, Founders: append([]impart.UserID{Auditor}, users...)},
		{ID: fromJoin, History: impart.FromJoin, Founders: []impart.UserID{Auditor, "a", "a:b"}},
		{ID: allOfIt, History: impart.HistoryAll, Founders: []impart.UserID{Auditor, "a"}},
	}
	owners := []impart.UserID{"a", "a", "a:b", "u-cleo", "u-dan"}[:3+d.IntN(3)]
	for i, user := range owners {
		dev := Device{User: user, Device: impart.DeviceID(fmt.Sprint("d-", i))}
		if i > 1 && d.IntN(4) == 0 {
			n := int64(d.IntN(4))
			dev.History = &n
		}
		d.Phones = append(d.Phones, dev)
	}
	d.phones = make([]pencil, len(d.Phones))
	total := 0
	for _, w := range weights {
		total += w.often
	}
	for len(d.Steps) < steps {
		n := d.IntN(total)
		for _, w := range weights {
			if n -= w.often; n < 0 {
				w.draw(d)
				break
			}
		}
	}
	return &d.Plan
}

// add adds a step after a short pause.
func (d *draft) add(s Step) {
	s.Wait = d.pause()
	d.Steps = append(d.Steps, s)
}

// pause is how many beats pass between two steps: often none.
func (d *draft) pause() int {
	if d.IntN(2) == 0 {
		return 0
	}
	return d.IntN(6)
}

func (d *draft) phone() int { return d.IntN(len(d.Phones)) }

// here is a device that is in use, or -1.
func (d *draft) here() int {
	for range 5 {
		if i := d.phone(); !d.phones[i].away {
			return i
		}
	}
	return -1
}

func (d *draft) conv() impart.ConvID {
	return []impart.ConvID{everybody, everybody, fromJoin, allOfIt}[d.IntN(4)]
}

func (d *draft) size() int {
	if d.IntN(12) == 0 {
		return 2000 + d.IntN(6000)
	}
	return d.IntN(80)
}

func (d *draft) cmid() impart.CMID {
	d.made++
	return impart.CMID(fmt.Sprint("m-", d.made))
}

func (d *draft) message(phone int, conv impart.ConvID, size int) {
	s := Step{Do: Send, Phone: phone, Conv: conv, CMID: d.cmid(), Size: size}
	d.add(s)
	if conv != nowhere && size <= 64<<10 {
		d.sent = append(d.sent, s)
	}
}

func (d *draft) send() {
	if i := d.here(); i >= 0 {
		d.message(i, d.conv(), d.size())
	}
}

func (d *draft) burst() {
	i, conv := d.here(), d.conv()
	if i < 0 {
		return
	}
	for range 2 + d.IntN(7) {
		d.message(i, conv, d.size())
		d.Steps[len(d.Steps)-1].Wait = 0
	}
}

// some is a message that was sent before by a device that is in use.
func (d *draft) some() (Step, bool) {
	for range 5 {
		if len(d.sent) == 0 {
			break
		}
		if s := d.sent[d.IntN(len(d.sent))]; !d.phones[s.Phone].away {
			return s, true
		}
	}
	return Step{}, false
}

// after adds a step about a message.
func (d *draft) after(do Deed) {
	if s, ok := d.some(); ok {
		d.add(Step{Do: do, Phone: s.Phone, User: d.Phones[s.Phone].User, Conv: s.Conv, CMID: s.CMID, Size: s.Size})
	}
}

func (d *draft) sendAgain() { d.after(SendAgain) }
func (d *draft) recall() {
	before := len(d.Steps)
	d.after(Recall)
	if len(d.Steps) > before && d.IntN(2) == 0 {
		again := d.Steps[before] // what is recalled stays known (D17)
		again.Do, again.Wait = Resend, 8
		d.Steps = append(d.Steps, again)
	}
}
func (d *draft) cancel() { d.after(Cancel) }
func (d *draft) resend() { d.after(Resend) }

// stranger sends what must be refused, between good messages (D13).
func (d *draft) stranger() {
	if i := d.here(); i >= 0 {
		d.message(i, everybody, 10)
		d.message(i, nowhere, 10)
		d.message(i, everybody, 10)
	}
}

func (d *draft) tooLarge() {
	if i := d.here(); i >= 0 {
		d.message(i, everybody, 64<<10+1)
		d.message(i, everybody, 10)
	}
}

// on adds a step of a device that is in use.
func (d *draft) on(do Deed, conv impart.ConvID) {
	if i := d.here(); i >= 0 {
		d.add(Step{Do: do, Phone: i, Conv: conv})
	}
}

func (d *draft) read()      { d.on(Read, d.conv()) }
func (d *draft) restart()   { d.on(Restart, "") }
func (d *draft) crash()     { d.on(Crash, "") }
func (d *draft) crashHand() { d.on(CrashHand, "") }
func (d *draft) reinstall() { d.on(Reinstall, "") }
func (d *draft) cut()       { d.on(CutIt, "") }
