package logic_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

// common is a cache that nodes share, as Redis is, by user and cmid.
type common struct {
	mu    sync.Mutex // guards what follows
	kept  map[string]dedup.Answer
	finds int
}

func (c *common) Find(_ context.Context, entries []dedup.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range entries {
		c.finds++
		if a, ok := c.kept[fmt.Sprintf("%q %q", entries[i].User, entries[i].CMID)]; ok {
			entries[i].Answer = a
		}
	}
}

func (c *common) Keep(_ context.Context, entries []dedup.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		c.kept[fmt.Sprintf("%q %q", e.User, e.CMID)] = e.Answer
	}
}

// change does something to every answer.
func (c *common) change(how func(*dedup.Answer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, a := range maps.Clone(c.kept) {
		how(&a)
		c.kept[key] = a
	}
}

// layered is one node of several on a store, with all layers.
type layered struct {
	*world
	filter *dedup.Filter
}

// twoLayered are nodes of one store that share one cache. A filter that is not built
// says "maybe" of everything.
func twoLayered(t *testing.T, built bool) (here, there layered, far *common) {
	st := memstore.New(memstore.Options{})
	far = &common{kept: map[string]dedup.Answer{}}
	node := func() layered {
		n := layered{filter: dedup.NewFilter(func(ctx context.Context, since impart.Millis, limit int) ([]dedup.Recent, error) {
			keys, err := st.DedupKeys(ctx, since, limit)
			recent := make([]dedup.Recent, len(keys))
			for i, k := range keys {
				recent[i] = dedup.Recent(k)
			}
			return recent, err
		}, nil)}
		n.world = &world{t: t, ctx: t.Context(), store: st, bus: &recorder{Local: bus.NewLocal()}, registry: prometheus.NewRegistry()}
		if built {
			if err := n.filter.Build(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		layers := dedup.NewLayers(dedup.NewLocal(dedup.Options{}), n.filter, far)
		n.registry.MustRegister(layers.Collectors()...)
		service, err := logic.New(logic.Config{Store: st, Bus: n.bus, Metrics: n.registry, Dedup: layers, DedupShared: true})
		if err != nil {
			t.Fatal(err)
		}
		n.Service = service
		t.Cleanup(func() {
			if err := service.Close(); err != nil {
				t.Error(err)
			}
		})
		return n
	}
	here, there = node(), node()
	t.Cleanup(func() { st.Close() })
	here.group("c", ana, ben)
	return here, there, far
}

// hits are repetitions by the layer that knew.
func (w *world) hits(layer dedup.Layer) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == "im_dedup_hit_total" && label.GetName() == "layer" && label.GetValue() == string(layer) {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	w.t.Fatalf("im_dedup_hit_total does not count %s", layer)
	return 0
}

// A new message costs the shared cache nothing; a repetition is answered by the first
// layer that knows it, wherever it lands.
func TestARepetitionIsAnsweredByTheFirstLayerThatKnows(t *testing.T) {
	here, there, far := twoLayered(t, true)
	send := here.message(ana, "c", "hi")
	original := here.try(send)
	if far.finds != 0 {
		t.Errorf("a new message was looked up %d times", far.finds)
	}
	here.resend("where it was stored", send, original, false)
	// The other node's filter does not know it: surely new, as far as that one knows.
	there.resend("at once at another node", send, original, true)
	if far.finds != 0 {
		t.Errorf("the shared cache was asked %d times", far.finds)
	}
	there.resend("there again", send, original, false)
	if here.hits(dedup.Memory) != 1 || there.hits("store") != 1 || there.hits(dedup.Memory) != 1 {
		t.Errorf("hits: %v here, %v and %v there", here.hits(dedup.Memory), there.hits("store"), there.hits(dedup.Memory))
	}
	next := here.message(ana, "c", "more")
	second := here.try(next)
	if err := there.filter.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	there.resend("at another node whose filter knows", next, second, false)
	if there.hits(dedup.Redis) != 1 || far.finds != 1 {
		t.Errorf("the shared cache answered %v times, and was asked %d times", there.hits(dedup.Redis), far.finds)
	}
}

// D11, D12: whatever is lost, and whatever says "maybe" of what is new, a repetition
// is the first message, and a new message is new.
func TestEachLayerMayBeLostOrWrong(t *testing.T) {
	answers := map[string]func(*common){
		"whole": func(*common) {},
		"wiped": func(c *common) { clear(c.kept) },
		"of another content": func(c *common) {
			c.change(func(a *dedup.Answer) { a.Hash[3] ^= 1; a.Seq, a.MID = 99, "another" })
		},
		"of an older epoch": func(c *common) {
			c.change(func(a *dedup.Answer) { a.Epoch--; a.Seq, a.MID = 99, "undone" })
		},
		"of another history": func(c *common) {
			c.change(func(a *dedup.Answer) { a.Incarnation += "-gone"; a.Seq, a.MID = 99, "undone" })
		},
		"under every key": func(c *common) {
			var any dedup.Answer
			c.change(func(a *dedup.Answer) { any = *a })
			for i := range 100 {
				c.kept[fmt.Sprintf("%q %q", ana, fmt.Sprint("n-", i))] = any
			}
		},
	}
	filters := map[string]func(context.Context, layered){
		"built":     func(ctx context.Context, n layered) { _ = n.filter.Build(ctx) },
		"behind":    func(context.Context, layered) {},
		"all maybe": func(context.Context, layered) {},
		"much maybe": func(_ context.Context, n layered) {
			for i := range 100 {
				n.filter.Add(dedup.KeyOf(ana, impart.CMID(fmt.Sprint("n-", i))))
			}
		},
	}
	for said, filter := range filters {
		for what, answer := range answers {
			t.Run(said+", "+what, func(t *testing.T) {
				here, there, far := twoLayered(t, said != "all maybe")
				send := here.message(ana, "c", "hi")
				original := here.try(send)
				filter(t.Context(), there)
				answer(far)
				for range 3 {
					again := there.try(send)
					if again.Err != nil || !again.Dup || again.Seq != original.Seq || again.MID != original.MID || again.At != original.At {
						t.Errorf("a repetition got %+v, the first %+v", again, original)
					}
				}
				for i := range 100 {
					fresh := impart.Send{Sender: ana, Conv: "c", CMID: impart.CMID(fmt.Sprint("n-", i)), Body: fmt.Sprint("new ", i)}
					if sent := there.try(fresh); sent.Err != nil || sent.Dup || sent.Seq != impart.Seq(i+2) {
						t.Fatalf("a new message got %+v", sent)
					}
				}
				if rows := len(here.sees(ana, "c")); rows != 101 {
					t.Errorf("%d messages are stored, want 101", rows)
				}
			})
		}
	}
}

// A cache that is shared gets only what has committed, and never what nobody can tell
// the history of.
func TestOnlyWhatHasCommittedIsShared(t *testing.T) {
	here, _, far := twoLayered(t, true)
	meta, err := here.store.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good, bad := here.message(ana, "c", "hi"), here.message(eve, "c", "hi")
	sent := here.Send(t.Context(), []impart.Send{good, bad})
	if len(far.kept) != 1 || sent[1].Err == nil {
		t.Fatalf("kept %+v", far.kept)
	}
	for _, a := range far.kept {
		if a.Seq != sent[0].Seq || a.MID != sent[0].MID || a.At != sent[0].At || a.Epoch != meta.Epoch || a.Incarnation != meta.Incarnation {
			t.Errorf("kept %+v of %+v", a, sent[0])
		}
	}
}
