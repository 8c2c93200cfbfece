package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
)

// model does the same random things to the store under test and to memstore,
// and wants the same answers and the same refusals. What the contract leaves
// open (the version's value, the store's clock) is not compared.
func model(t *testing.T, open func(t *testing.T) Subject) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{
			world: &world{ctx: context.WithoutCancel(t.Context())},
			real:  open(t).Store, ideal: memstore.New(memstore.Options{}),
		}
		defer func() {
			if err := m.real.Close(); err != nil {
				rt.Errorf("closing the store: %v", err)
			}
		}()
		m.found(rt)
		for range 2 {
			rt.Repeat(rapid.StateMachineActions(m))
		}
		m.lookAtEverything(rt)
	})
}

// machine holds the two stores. Its exported methods are what can happen.
type machine struct {
	*world
	real, ideal store.Store
	epoch       impart.Epoch
}

// Check implements [rapid.StateMachine]; each action compares what it did.
func (m *machine) Check(*rapid.T) {}

// answer is what a store said.
type answer struct {
	Got   any
	Code  impart.Code
	Epoch impart.Epoch // with EPOCH_CHANGED
}

func answered(got any, err error) answer {
	a := answer{Got: got, Code: impart.CodeOf(err)}
	if err != nil {
		a.Epoch = impart.AsError(err).Epoch
	}
	return a
}

// both asks both stores and compares.
func (m *machine) both(rt *rapid.T, what string, do func(store.Store) answer) answer {
	rt.Helper()
	want, got := do(m.ideal), do(m.real)
	if want.Code == impart.Unavailable {
		rt.Fatalf("%s: the model failed", what)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s (-model +store):\n%s", what, diff)
	}
	return got
}

// The people and things of the model: few, so that they meet often.
var (
	someUsers   = []impart.UserID{"ana", "ben", "Ben"}
	someConvs   = []impart.ConvID{"c-direct", "c-join", "c-all", "c-late"}
	someDevices = []impart.DeviceID{"phone", "laptop"}
	someCMIDs   = []impart.CMID{"k", "k ", "K", "l", "m", "n", "o", "p"}
)

func pick[T any](rt *rapid.T, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(rt, what)
}

func seldom(rt *rapid.T, what string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(rt, what) == oneIn
}

// aSeq is mostly one of the conversation's, seldom just outside.
func (m *machine) aSeq(rt *rapid.T, what string, conv impart.ConvID) impart.Seq {
	info, err := m.ideal.Conversation(m.ctx, conv)
	if err != nil {
		return impart.Seq(rapid.IntRange(0, 2).Draw(rt, what))
	}
	return impart.Seq(rapid.Int64Range(-1, int64(info.Head)+2).Draw(rt, what))
}

// someone is mostly a member, seldom anybody.
func (m *machine) someone(rt *rapid.T, conv impart.ConvID) impart.UserID {
	var members []impart.UserID
	if a, err := m.ideal.Audience(m.ctx, conv); err == nil {
		for _, user := range someUsers {
			if a.Members[user].Open() {
				members = append(members, user)
			}
		}
	}
	if len(members) == 0 || seldom(rt, "anybody", 5) {
		return pick(rt, "user", append([]impart.UserID{impart.System}, someUsers...)...)
	}
	return pick(rt, "member", members...)
}

// aMessage is mostly a message of the conversation, seldom any seq.
func (m *machine) aMessage(rt *rapid.T, conv impart.ConvID) (impart.Seq, impart.UserID) {
	r, err := m.ideal.Range(m.ctx, conv, 1, impart.MaxNumber, impart.MaxLimit)
	messages := slices.DeleteFunc(r.Events, func(ev impart.Event) bool { return ev.Kind != impart.KindMsg })
	if err != nil || len(messages) == 0 || seldom(rt, "any seq", 5) {
		return max(m.aSeq(rt, "target", conv), 0), m.someone(rt, conv)
	}
	ev := pick(rt, "message", messages...)
	return ev.Seq, ev.Sender
}

// anInstall is mostly the device's own, seldom another.
func (m *machine) anInstall(rt *rapid.T, user impart.UserID, device impart.DeviceID) impart.InstallEpoch {
	list, err := m.ideal.Devices(m.ctx, device, user)
	if err != nil || len(list) == 0 || seldom(rt, "another install", 8) {
		return impart.InstallEpoch(rapid.IntRange(0, 3).Draw(rt, "install"))
	}
	return list[0].Install
}

// aSession is mostly the device's own or none, seldom an older one.
func (m *machine) aSession(rt *rapid.T, user impart.UserID, device impart.DeviceID) int64 {
	list, err := m.ideal.Devices(m.ctx, device, user)
	if err != nil || len(list) == 0 || seldom(rt, "no session", 3) {
		return 0
	}
	return max(list[0].Session-rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(rt, "sessions ago"), 0)
}

// anEpoch is mostly the current one, or none.
func (m *machine) anEpoch(rt *rapid.T) impart.Epoch {
	return pick(rt, "epoch", 0, 0, 0, 0, m.epoch, m.epoch, m.epoch, m.epoch, m.epoch-1)
}

// found makes the conversations that are there from the beginning.
func (m *machine) found(rt *rapid.T) {
	m.epoch = 1
	for _, spec := range []impart.ConvSpec{
		{Conv: "c-direct", Kind: impart.Direct, History: impart.FromJoin, Members: []impart.Member{{User: "ana"}, {User: "ben"}}},
		{Conv: "c-join", Kind: impart.Group, History: impart.FromJoin, Members: []impart.Member{{User: "ana", Role: impart.RoleAdmin}}},
		{Conv: "c-all", Kind: impart.Group, History: impart.HistoryAll, Members: []impart.Member{{User: "ben"}}},
	} {
		m.put(rt, spec)
	}
	for _, user := range someUsers {
		m.greet(rt, store.Hello{User: user, Device: "phone", Install: "x"})
	}
}

// put is PutConversation with stamps that are equal for both stores.
func (m *machine) put(rt *rapid.T, spec impart.ConvSpec) {
	base := m.ticks.Add(10)
	m.both(rt, fmt.Sprintf("PUT %+v", spec), func(s store.Store) answer {
		n := base
		info, created, err := s.PutConversation(m.ctx, spec, func() (impart.MID, impart.Millis) {
			n++
			return impart.MID(fmt.Sprintf("mid-%08d", n)), epochStart + impart.Millis(n)
		})
		return answered([]any{info, created}, err)
	})
}

func (m *machine) greet(rt *rapid.T, h store.Hello) {
	m.both(rt, fmt.Sprintf("hello %+v", h), func(s store.Store) answer {
		d, err := s.Hello(m.ctx, h)
		return answered(d, err)
	})
}
