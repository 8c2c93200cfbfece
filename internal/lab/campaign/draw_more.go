package campaign

// toggle adds the step that begins something for a device, or the one that ends
// it; on says whether it is under way.
func (d *draft) toggle(i int, on *bool, begin, end Deed) {
	if *on = !*on; *on {
		d.add(Step{Do: begin, Phone: i})
		return
	}
	d.add(Step{Do: end, Phone: i})
}

// away ends an application, or brings one back.
func (d *draft) away() {
	i := d.phone()
	if p := &d.phones[i]; !p.clone {
		d.toggle(i, &p.away, Leave, Return)
	}
}

// rollBack puts a copy of a store aside, or brings it back (D9, hole 20).
func (d *draft) rollBack() {
	if i := d.here(); i >= 0 && !d.phones[i].clone {
		d.toggle(i, &d.phones[i].kept, Keep, RollBack)
	}
}

// clone lets a copy of a store run elsewhere (hole 20), or ends that.
func (d *draft) clone() {
	if i := d.here(); i >= 0 {
		d.toggle(i, &d.phones[i].clone, Clone, Unclone)
	}
}

// refuse lets an application refuse events, or ends that.
func (d *draft) refuse() {
	if i := d.here(); i >= 0 {
		d.toggle(i, &d.phones[i].refuse, Refuse, Accept)
	}
}

// weather changes the network of a device; half of the time for the better.
func (d *draft) weather() {
	w := Weather{}
	switch d.IntN(8) {
	case 0, 1:
		w.Off = true
	case 2:
		w.Lose = 5 + d.IntN(40)
	case 3:
		w.Lose, w.Twice, w.Late = d.IntN(15), d.IntN(15), d.IntN(30)
	case 4:
		w.Cut = 3 + d.IntN(12)
	case 5:
		w.Late = 30
	}
	d.add(Step{Do: Net, Phone: d.phone(), Net: w})
}

func (d *draft) kill() { d.add(Step{Do: Kill, Size: d.IntN(12)}) }

// Points are where a server can be told to die.
var Points = []string{"send.before_insert", "send.before_commit", "api.after_send_commit"}

// die lets the server start anew, to die by itself a little later.
func (d *draft) die() {
	d.add(Step{Do: Kill, Size: d.IntN(3), Death: Death{Point: Points[d.IntN(len(Points))], After: d.IntN(6)}})
	d.send()
	d.burst()
}

func (d *draft) drain() { d.add(Step{Do: Drain, Size: d.IntN(6)}) }
func (d *draft) raise() { d.add(Step{Do: Raise}) }

// restored takes a backup of the server, or restores it, once in a run.
func (d *draft) restored() {
	switch {
	case d.restore:
	case !d.backup:
		d.backup = true
		d.add(Step{Do: Backup})
	default:
		d.restore = true
		d.add(Step{Do: Restore, Size: d.IntN(8)})
	}
}

func (d *draft) join() { d.member(Join) }
func (d *draft) part() { d.member(Part) }

func (d *draft) member(do Deed) {
	conv := fromJoin
	if d.IntN(2) == 0 {
		conv = allOfIt
	}
	d.add(Step{Do: do, Conv: conv, User: users[d.IntN(len(users))]})
}

// ask adds a step of the observer.
func (d *draft) ask(do Deed) {
	d.add(Step{Do: do, Conv: d.conv(), User: users[d.IntN(len(users))], CMID: d.cmid()})
}

func (d *draft) look() { d.ask(Look) }

func (d *draft) everywhere(do Deed) {
	d.ask(do)
	d.Steps[len(d.Steps)-1].Conv = everybody
}

func (d *draft) batch()   { d.everywhere(Batch) }
func (d *draft) collide() { d.everywhere(Collide) }
func (d *draft) early()   { d.everywhere(Early) }
func (d *draft) ackBack() { d.everywhere(AckBack) }
func (d *draft) ackFar()  { d.everywhere(AckFar) }

// spell is a while in which a device is treated in one way and others send.
func (d *draft) spell(do Deed) {
	i := d.here()
	if i < 0 {
		return
	}
	s := Step{Do: do, Phone: i, Conv: everybody, CMID: d.cmid(), User: users[d.IntN(len(users))]}
	d.add(s)
}

// unheard lets a message be stored whose sender does not hear of it, and then
// cancels it there or recalls it on another device.
func (d *draft) unheard() {
	if i := d.here(); i >= 0 && !d.phones[i].refuse {
		d.add(Step{Do: Unheard, Phone: i, Conv: everybody, CMID: d.cmid(), Size: d.IntN(2)})
	}
}

func (d *draft) crashAck() { d.spell(CrashAck) }

func (d *draft) mute()  { d.spell(Mute) }
func (d *draft) quiet() { d.spell(Quiet) }
func (d *draft) stuck() { d.spell(Stuck) }
func (d *draft) rest()  { d.add(Step{Do: Rest, Wait: 0}); d.Steps[len(d.Steps)-1].Wait = d.IntN(25) }
