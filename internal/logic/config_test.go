package logic_test

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/bus"
	"github.com/impart-im/impart/internal/logic"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestAConfigurationSaysEverythingThatIsWrong(t *testing.T) {
	err := logic.Config{MaxBody: -1, SendBurst: -1, SendRate: math.NaN(), Retention: -1, DedupRetention: -1}.Validate()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, field := range []string{"Store", "Bus", "MaxBody", "SendBurst", "SendRate", "Retention", "DedupRetention"} {
		if !strings.Contains(err.Error(), field+" is") {
			t.Errorf("nothing is said of %s: %v", field, err)
		}
	}
	if _, err := logic.New(logic.Config{}); err == nil {
		t.Error("a service without a store")
	}
	local := bus.NewLocal()
	defer local.Close()
	large := logic.Config{Store: memstore.New(memstore.Options{}), Bus: local, MaxBody: logic.HighestMaxBody + 1}
	if err := large.Validate(); err == nil {
		t.Error("a body that fits into no frame")
	}
	large.MaxBody--
	if err := large.Validate(); err != nil {
		t.Error(err)
	}
}

func TestMetricsAreTakenBack(t *testing.T) {
	registry, local := prometheus.NewRegistry(), bus.NewLocal()
	defer local.Close()
	cfg := logic.Config{Store: memstore.New(memstore.Options{}), Bus: local, Metrics: registry}
	first, err := logic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := logic.New(cfg); err == nil {
		t.Error("two services count under the same names")
	}
	families := func() int {
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return len(gathered)
	}
	if families() == 0 {
		t.Error("the second service took the metrics of the first one away")
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := families(); n != 0 {
		t.Errorf("%d metrics are left", n)
	}
	again, err := logic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
