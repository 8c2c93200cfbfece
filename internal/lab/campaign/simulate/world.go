// Package simulate runs plans of the campaign in virtual time: the server's own
// gateway and rules on the store in memory, which forgets what has not committed,
// and pipes for a network, on which each frame can be lost, repeated, held or cut.
// It has to be called in a testing/synctest bubble, where a minute takes some
// milliseconds. It shows nothing about SQLite on the server's side, about the
// operating system or about disks; runs with real processes do.
package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
	"github.com/impart-im/impart/internal/gateway"
	"github.com/impart-im/impart/internal/lab/campaign"
	"github.com/impart-im/impart/internal/lab/campaign/history"
	"github.com/impart-im/impart/internal/lab/world"
	"github.com/impart-im/impart/internal/store/memstore"
)

// queueBytes bounds what may wait for one socket: little, so that runs reach it.
const queueBytes = 16 << 10

// Field is a world of a campaign in virtual time.
type Field struct {
	// Trace is told of each frame; nil is fine.
	Trace func(string)

	dir    string
	seed   uint64
	breaks []memstore.Break
	world  *world.World
	backup *memstore.Store
	nets   map[int]*net
	died   atomic.Bool
	up     bool
	seen   *watch
	counts *Counts
}

// Counts say what the network has done to frames: a run in which nothing
// happened shows nothing.
type Counts struct {
	Frames, Lost, Twice, Cut, Late, Deaths, Kills, Restores atomic.Int64
}

var _ campaign.World = (*Field)(nil)

// New makes a world whose devices keep their stores under dir. breaks are guards
// of the store that are switched off.
func New(seed uint64, dir string, counts *Counts, breaks ...memstore.Break) *Field {
	return &Field{dir: dir, seed: seed, breaks: breaks, nets: map[int]*net{}, seen: &watch{}, counts: counts}
}

// Watch lets what the frames show be written down.
func (f *Field) Watch(tape *history.Tape, plan *campaign.Plan) {
	f.seen.set(tape, plan)
}

// Start implements [campaign.World].
func (f *Field) Start(death campaign.Death) (err error) {
	if f.world == nil {
		f.world, err = world.New(world.Options{
			Gateway: func(cfg *gateway.Config) { cfg.QueueBytes = queueBytes },
			Store:   memstore.Options{Breaks: f.breaks},
		})
	} else {
		err = f.world.Restart()
	}
	if err != nil {
		return err
	}
	f.up = true
	f.died.Store(false)
	if death.Point != "" {
		f.arm(death)
	}
	return nil
}

// arm lets the store die around the commit that is due.
func (f *Field) arm(death campaign.Death) {
	store := f.world.Store
	var hits atomic.Int64
	die := func() error {
		if hits.Add(1) <= int64(death.After) {
			return nil
		}
		store.Crash()
		f.died.Store(true)
		f.counts.Deaths.Add(1)
		return fmt.Errorf("died at %s", death.Point)
	}
	if death.Point == "api.after_send_commit" {
		store.OnCommit(nil, die)
		return
	}
	store.OnCommit(die, nil)
}

// Kill implements [campaign.World].
func (f *Field) Kill() {
	if f.up {
		f.up = false
		f.counts.Kills.Add(1)
		f.world.Crash()
	}
	f.died.Store(false)
}

// Drain implements [campaign.World].
func (f *Field) Drain() error {
	f.up = false
	return f.world.Shutdown()
}

// Died implements [campaign.World].
func (f *Field) Died() bool { return f.died.Load() }

// Keep implements [campaign.World].
func (f *Field) Keep() error {
	f.backup = f.world.Store.Backup()
	return nil
}

// Restore implements [campaign.World].
func (f *Field) Restore() error {
	f.world.Store = f.backup
	f.counts.Restores.Add(1)
	return nil
}

// Close ends the server and waits for it.
func (f *Field) Close() error {
	if f.world == nil {
		return nil
	}
	return f.world.Close()
}

// Beat implements [campaign.World].
func (f *Field) Beat() time.Duration { return 500 * time.Millisecond }

// Patience implements [campaign.World].
func (f *Field) Patience() time.Duration { return 8 * time.Minute }

// Tune implements [campaign.World]: the times of a client are the SDK's own.
func (f *Field) Tune(*client.Config) {}

// Dir implements [campaign.World].
func (f *Field) Dir() string { return f.dir }

// Network implements [campaign.World].
func (f *Field) Network(device int) campaign.Network {
	n := f.nets[device]
	if n == nil {
		n = &net{field: f, device: device, draw: rand.New(rand.NewPCG(f.seed, uint64(1000+device))), attempts: history.NewAttempts()}
		n.link = f.world.Link()
		n.link.Rule(n.rule)
		f.nets[device] = n
	}
	return n
}

// Create implements [campaign.Service].
func (f *Field) Create(ctx context.Context, spec impart.ConvSpec) error {
	_, _, err := f.world.Logic.PutConversation(ctx, spec)
	return err
}

// Member implements [campaign.Service].
func (f *Field) Member(ctx context.Context, join bool, conv impart.ConvID, user impart.UserID) (err error) {
	if join {
		_, err = f.world.Logic.PutMember(ctx, conv, impart.Member{User: user})
	} else {
		_, err = f.world.Logic.RemoveMember(ctx, conv, user)
	}
	return err
}

// RaiseEpoch implements [campaign.Service].
func (f *Field) RaiseEpoch(ctx context.Context) (impart.Epoch, error) {
	return f.world.Logic.RaiseEpoch(ctx)
}

// Send implements [campaign.Service].
func (f *Field) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	return f.world.Logic.Send(ctx, sends)
}

// Ack implements [campaign.Service].
func (f *Field) Ack(ctx context.Context, user impart.UserID, conv impart.ConvID, seq impart.Seq) (impart.Seq, error) {
	session, err := f.world.Logic.Visit(ctx, impart.Identity{User: user}, "d-observer", "i-observer")
	if err != nil {
		return 0, err
	}
	got := f.world.Logic.Ack(ctx, impart.Ack{Session: session, Items: []impart.AckItem{{Conv: conv, Seq: seq}}})[0]
	return got.Delivered, got.Err
}

// Page implements [campaign.Service].
func (f *Field) Page(ctx context.Context, user impart.UserID, conv impart.ConvID, after impart.Seq, limit int) (impart.Page, error) {
	return f.world.Logic.Sync(ctx, impart.Sync{User: user, Conv: conv, After: &after, Limit: limit})
}

// Cursors implements [campaign.Service].
func (f *Field) Cursors(ctx context.Context, user impart.UserID, device impart.DeviceID) (map[impart.ConvID]impart.Seq, error) {
	infos, err := f.world.Logic.Devices(ctx, device, user)
	if err != nil {
		return nil, err
	}
	at := map[impart.ConvID]impart.Seq{}
	for _, info := range infos {
		for _, c := range info.Cursors {
			at[c.Conv] = c.Delivered
		}
	}
	return at, nil
}
