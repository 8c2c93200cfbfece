package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are what a gateway counts. Names follow the seeds where they give one.
type metrics struct {
	pushes        prometheus.Counter
	dropped       prometheus.Counter
	pushFailed    prometheus.Counter
	retries       prometheus.Counter
	pendingFailed prometheus.Counter
	sweepAsked    prometheus.Counter
	sweepFailed   prometheus.Counter
	checkFailed   prometheus.Counter
	sweepSeconds  prometheus.Histogram
	hints         *prometheus.CounterVec
	byes          *prometheus.CounterVec
	errors        *prometheus.CounterVec
	deliverFailed *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, g *Gateway) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		pushes:        counter("im_push_total", "Event frames queued for a connection."),
		dropped:       counter("im_push_dropped_total", "Frames dropped because a connection's queue was full; one hint replaced them."),
		pushFailed:    counter("im_push_failed_total", "Pushes given up because events could not be read; the sweep makes up for them."),
		retries:       counter("im_retry_total", "Repeated attempts at unacknowledged flows."),
		pendingFailed: counter("im_pending_failed_total", "Failed operations on the pending set."),
		sweepAsked:    counter("im_sweep_asked_total", "Cursors that a sweep had to read from the store."),
		sweepFailed:   counter("im_sweep_failed_total", "Sweeps that failed; the next one covers their time too."),
		checkFailed:   counter("im_check_failed_total", "Connections that a sweep could not compare in full; the next one tries again."),
		sweepSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "im_sweep_seconds", Help: "Duration of a sweep.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
		hints:         vector("im_hint_total", "Hints by reason.", "why"),
		byes:          vector("im_bye_total", "Connections closed by the server, by code.", "code"),
		errors:        vector("im_error_total", "Error frames, by code.", "code"),
		deliverFailed: vector("im_deliver_failed_total", "Flows given up by the retries; the offline pull carries them.", "reason"),
	}
	m.deliverFailed.WithLabelValues("ack_timeout")
	if registerer == nil {
		return m
	}
	registerer.MustRegister(m.pushes, m.dropped, m.pushFailed, m.retries, m.pendingFailed, m.sweepAsked, m.sweepFailed, m.checkFailed,
		m.sweepSeconds, m.hints, m.byes, m.errors, m.deliverFailed,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_connections", Help: "Open WebSocket connections."},
			func() float64 { return float64(g.Connections()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_connections_limit", Help: "WebSocket connections that are taken at most; further ones are refused with 503."},
			func() float64 { return float64(g.cfg.MaxConns) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_pending_flows", Help: "Flows that owe an acknowledgement."},
			func() float64 {
				n, _ := g.cfg.Pending.Len(g.ctx)
				return float64(n)
			}))
	return m
}
