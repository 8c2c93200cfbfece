package logic_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/memstore"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

const (
	benchSenders = 256
	benchConvs   = 200
	benchPeople  = 4 // members of a conversation
)

// benchService is a service with conversations to send to, and a subscriber that
// does nothing with the wake-ups.
func benchService(b *testing.B, st store.Store) *logic.Service {
	b.Helper()
	local := bus.NewLocal()
	local.Subscribe(func(bus.Message) {})
	service, err := logic.New(logic.Config{Store: st, Bus: local, SendRate: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, err := range []error{service.Close(), local.Close(), st.Close()} {
			if err != nil {
				b.Error(err)
			}
		}
	})
	for i := range benchConvs {
		spec := impart.ConvSpec{Conv: benchConv(i), Kind: impart.Group}
		for k := range benchPeople {
			spec.Members = append(spec.Members, impart.Member{User: benchUser(k)})
		}
		if _, _, err := service.PutConversation(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
	}
	return service
}

func benchConv(i int) impart.ConvID { return impart.ConvID(fmt.Sprintf("c-%04d", i)) }
func benchUser(i int) impart.UserID { return impart.UserID(fmt.Sprintf("u-%04d", i)) }

func benchSQLite(b *testing.B) store.Store {
	b.Helper()
	st, err := sqlstore.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "impart.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return st
}

// loop runs work from 256 senders in closed loop, b.N times in all.
func loop(b *testing.B, work func(n int64) error) {
	b.Helper()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(max(1, benchSenders/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := work(n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkSend is a durable send through the rules; BenchmarkAppend is the same
// messages handed to the store, of whose throughput it should keep nearly all.
func BenchmarkSend(b *testing.B) {
	service, body := benchService(b, benchSQLite(b)), strings.Repeat("x", 150)
	ctx := context.Background()
	loop(b, func(n int64) error {
		return service.Send(ctx, []impart.Send{{
			Sender: benchUser(int(n % benchPeople)), Device: "phone", Conv: benchConv(int(n % benchConvs)),
			CMID: impart.CMID(uuid.NewString()), Body: body,
		}})[0].Err
	})
}

func BenchmarkAppend(b *testing.B) {
	st, body := benchSQLite(b), strings.Repeat("x", 150)
	benchService(b, st)
	ctx := context.Background()
	loop(b, func(n int64) error {
		cmid, mid := uuid.NewString(), uuid.Must(uuid.NewV7()).String()
		return st.Append(ctx, []store.Append{{
			Kind: impart.KindMsg, Sender: benchUser(int(n % benchPeople)), Device: "phone", Conv: benchConv(int(n % benchConvs)),
			CMID: impart.CMID(cmid), Type: impart.DefaultType, Body: body, MID: impart.MID(mid), At: 1, Hash: [16]byte([]byte(cmid)),
		}})[0].Err
	})
}

// instant is a store that has committed before it is asked: what is left is the
// price of the rules.
type instant struct{ store.Store }

func (instant) Append(_ context.Context, items []store.Append) []store.Appended {
	results := make([]store.Appended, len(items))
	for i := range items {
		results[i] = store.Appended{Seq: 1, MID: items[i].MID, At: items[i].At, Epoch: 1}
	}
	return results
}

func BenchmarkRulesOfSend(b *testing.B) {
	for _, size := range []int{1, 256} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			service := benchService(b, instant{memstore.New(memstore.Options{})})
			sends := make([]impart.Send, size)
			for i := range sends {
				sends[i] = impart.Send{
					Sender: benchUser(0), Device: "phone", Conv: benchConv(i % benchConvs), CMID: impart.CMID(uuid.NewString()),
					Body: strings.Repeat("x", 150),
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if sent := service.Send(b.Context(), sends); sent[0].Err != nil {
					b.Fatal(sent[0].Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/message")
		})
	}
}

// BenchmarkPull catches up with 10,000 events of one conversation, 1,000 a page;
// BenchmarkPages reads the same events straight from the store.
func BenchmarkPull(b *testing.B) {
	st := benchSQLite(b)
	service := benchService(b, st)
	fill(b, service)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		welcome, err := service.Hello(b.Context(), impart.Hello{
			Identity: impart.Identity{User: benchUser(1)}, Device: impart.DeviceID(fmt.Sprint("d", n)),
		})
		if err != nil {
			b.Fatal(err)
		}
		events := 0
		for more := true; more; {
			pulled, err := service.Pull(b.Context(), impart.Pull{Session: welcome.Session, Limit: impart.MaxLimit})
			if err != nil {
				b.Fatal(err)
			}
			ack := impart.Ack{Session: welcome.Session}
			for _, page := range pulled.Convs {
				events += len(page.Events)
				ack.Items = append(ack.Items, impart.AckItem{Conv: page.Conv, Seq: page.Through})
			}
			service.Ack(b.Context(), ack)
			more = pulled.More
		}
		if events != benchEvents {
			b.Fatalf("%d events", events)
		}
	}
	b.ReportMetric(float64(benchEvents)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkPages(b *testing.B) {
	st := benchSQLite(b)
	fill(b, benchService(b, st))
	b.ReportAllocs()
	for b.Loop() {
		query := store.PageQuery{User: benchUser(1), Conv: benchConv(0), Limit: impart.MaxLimit, MaxBytes: impart.MaxPage}
		for events := 0; events < benchEvents; {
			page, err := st.Page(b.Context(), query)
			if err != nil {
				b.Fatal(err)
			}
			events += len(page.Events)
			query.After = page.Through
		}
	}
	b.ReportMetric(float64(benchEvents)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

const benchEvents = 10_000

func fill(b *testing.B, service *logic.Service) {
	b.Helper()
	sends := make([]impart.Send, benchEvents)
	for i := range sends {
		sends[i] = impart.Send{Sender: benchUser(0), Conv: benchConv(0), CMID: impart.CMID(fmt.Sprint("m", i)), Body: strings.Repeat("x", 150)}
	}
	for _, sent := range service.Send(b.Context(), sends) {
		if sent.Err != nil {
			b.Fatal(sent.Err)
		}
	}
}
