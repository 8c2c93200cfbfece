package redis

import (
	"fmt"
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
)

// BenchmarkFlow is what a push and its acknowledgement cost the gateway, and Redis: a
// thousand devices, each of which is told of something and answers.
func BenchmarkFlow(b *testing.B) {
	c, err := Open(b.Context(), Config{URL: single.get(b).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for name, set := range map[string]pending.Set{"memory": pending.NewLocal(), "redis": NewPending(c, PendingConfig{Gateway: fresh("gw")})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			flows := make([]pending.Entry, 1000)
			for i := range flows {
				flows[i] = entry("ana", impart.ConvID(fmt.Sprint("c-", i)), uint64(i+1), 7)
			}
			for i := 0; b.Loop(); i++ {
				_ = set.Register(b.Context(), flows[i%1000])
				_ = set.Settle(b.Context(), flows[(i+500)%1000].Key)
			}
			if _, err := set.Len(b.Context()); err != nil {
				b.Error(err)
			}
		})
		if p, ok := set.(*Pending); ok {
			p.Close()
		}
	}
}
