package checks

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab"
	"github.com/impart-im/impart/wire"
)

func installs() []lab.Check {
	return []lab.Check{{
		ID: "reinstall", Invariant: "D9",
		What:   "An app is deleted and installed anew on the same device after it had acknowledged everything; the old app's connection still acknowledges.",
		Expect: "install epoch 2, nothing counts as delivered, the pull brings all, the old app is told SUPERSEDED and moves nothing",
		Twins:  []lab.Sabotage{lab.Planted(fault.OldInstallCounts, "cursors of an earlier install count")},
		Run:    reinstall,
	}}
}

func reinstall(ctx context.Context, b *lab.Bench) {
	s := b.Serve()
	s.PutConv(ab, ana, ben)
	phone, old := b.Device(s.Addr(), ana), b.DeviceAs(s.Addr(), ben, "d-1", "i-old", nil)
	const messages = 20
	for i := range messages {
		phone.MustSend(ab, cmid("m", i), "hi")
	}
	_, err := old.Ack(ab, messages)
	b.Must(err)
	b.Bit("cursor of the old install", int(s.Cursor(ben, "d-1", ab)))
	fresh := b.DeviceAs(s.Addr(), ben, "d-1", "i-new", nil)
	b.Wants(fresh.Welcome.Install == 2, "the install epoch is %d instead of 2", fresh.Welcome.Install)
	for _, c := range fresh.Subbed.Convs {
		b.Wants(c.Conv != ab || c.Delivered == 0, "subbed counts %d as delivered to an empty store", c.Delivered)
	}
	_, told := old.Hears(replySoon, isBye(wire.ByeSuperseded))
	b.Wants(told, "the old app was not told that another one has taken its place")
	_, err = old.Ack(ab, messages)
	b.Wants(err != nil, "an ack of the old install is taken")
	events := 0
	for _, page := range fresh.Pull().Convs {
		events += len(page.Events)
	}
	b.Wants(events == messages, "the pull brings %d of %d event(s)", events, messages)
	acked, err := fresh.Ack(ab, 5)
	b.Must(err)
	b.Wants(acked == 5, "an ack of 5 was answered with %d", acked)
	b.Saw("install epoch %d, the pull brings %d of %d, the old app got %v, cursor %d after an ack of 5",
		fresh.Welcome.Install, events, messages, wire.ByeSuperseded, s.Cursor(ben, "d-1", impart.ConvID(ab)))
}
