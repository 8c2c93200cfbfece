package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestReadiness(t *testing.T) {
	var checks []Check
	w := newWorld(t, func(c *Config) { c.Ready = func(context.Context) []Check { return checks } })
	ready := func(query string) answer { return w.do("GET", "/readyz"+query, "") }

	ready("").wants(http.StatusOK).says("ready\n")
	ready("?verbose").wants(http.StatusOK).says(`{"ready":true,"checks":[]}`)

	checks = []Check{{Name: "store", State: OK}, {Name: "durability", State: Warn, Detail: "synchronous is off: acknowledged messages may be lost"}}
	ready("").wants(http.StatusOK).says("ready\nwarn: durability: synchronous is off: acknowledged messages may be lost\n")
	ready("?verbose=1").wants(http.StatusOK).says(`{"ready":true,"checks":[{"name":"store","state":"ok"},` +
		`{"name":"durability","state":"warn","detail":"synchronous is off: acknowledged messages may be lost"}]}`)

	checks = append(checks, Check{Name: "store", State: Fail, Detail: "it does not\nanswer"})
	ready("").wants(http.StatusServiceUnavailable).contains("not ready\n").contains("fail: store: it does not answer\n")
	ready("?verbose").wants(http.StatusServiceUnavailable).contains(`"ready":false`)
	w.do("HEAD", "/readyz", "").wants(http.StatusServiceUnavailable)

	w.do("GET", "/livez", "").wants(http.StatusOK).says("ok\n") // alive all the same: a restart would not help
}

func TestMetricsCountByRouteAndCode(t *testing.T) {
	registry := prometheus.NewRegistry()
	dedup := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "im_dedup_hit_total", Help: "x"}, []string{"layer"})
	registry.MustRegister(dedup)
	dedup.WithLabelValues("client_msg_id").Inc()
	w := newWorld(t, func(c *Config) { c.Gatherer, c.Registerer = registry, registry })
	w.conversation("c-ab", "u-ana", "u-ben")
	w.message("u-ana", "c-ab", "m1", "hi")
	w.message("u-ana", "c-ab", "m1", "hi")
	w.api("send", `{}`, as("u-ana"))
	w.api("send", `{}`)
	for _, path := range []string{"/a", "/b?x=1", "/api/c", "/admin/d", "/admin/v1/users/%zz"} {
		if !strings.Contains(path, "%zz") {
			w.do("GET", path, "")
		}
	}
	w.do("BREW", "/livez", "")
	shown := w.do("GET", "/metrics", "").wants(http.StatusOK).
		contains(`im_http_requests_total{code="200",route="POST /api/msg/send"} 2`).
		contains(`im_http_requests_total{code="400",route="POST /api/msg/send"} 1`).
		contains(`im_http_requests_total{code="401",route="POST /api/msg/send"} 1`).
		contains(`im_http_requests_total{code="201",route="PUT /admin/v1/conversations/{id}"} 1`).
		contains(`im_http_requests_total{code="404",route="other"} 4`).
		contains(`im_http_requests_total{code="405",route="other"} 1`).
		contains(`im_http_request_seconds_count{route="POST /api/msg/send"} 4`).
		contains(`im_dedup_hit_total{layer="client_msg_id"} 1`)
	if strings.Contains(shown.body, "c-ab") || strings.Contains(shown.body, "BREW") {
		t.Error("what was asked for became a label: a stranger could fill the memory")
	}
}

// One collector that fails hides no other.
func TestMetricsSurviveAFaultyCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(faulty{prometheus.NewDesc("im_faulty", "x", nil, nil)})
	w := newWorld(t, func(c *Config) { c.Gatherer = registry })
	w.do("GET", "/livez", "")
	w.do("GET", "/metrics", "").wants(http.StatusOK).contains(`im_http_requests_total{code="200",route="GET /livez"} 1`)
}

type faulty struct{ desc *prometheus.Desc }

func (f faulty) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

func (f faulty) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(f.desc, errors.New("away"))
}
