package pgbus

import "github.com/prometheus/client_golang/prometheus"

// metrics are what a bus counts.
type metrics struct {
	told   prometheus.Counter
	heard  prometheus.Counter
	missed prometheus.Counter
	breaks *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		told:   counter("im_bus_told_total", "Messages that were told to the other nodes; those that the store tells are not among them."),
		heard:  counter("im_bus_heard_total", "Messages that were heard from other nodes."),
		missed: counter("im_bus_missed_total", "Times that the bus may have missed something, and what it was had to be looked for."),
		breaks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_bus_break_total", Help: "Times that a connection of the bus failed, by its purpose.",
		}, []string{"purpose"}),
	}
	for _, purpose := range []string{"listen", "publish"} {
		m.breaks.WithLabelValues(purpose)
	}
	return m
}

// register makes the metrics of b known; unregister undoes it.
func (m *metrics) register(registerer prometheus.Registerer, b *Bus) (unregister func()) {
	if registerer == nil {
		return func() {}
	}
	all := []prometheus.Collector{
		m.told, m.heard, m.missed, m.breaks,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_bus_up", Help: "1 while messages flow between the nodes."}, func() float64 {
			if b.Health() != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_bus_queue", Help: "Messages that wait to be told to the other nodes."}, func() float64 {
			return float64(b.out.Len())
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "im_bus_dropped_total", Help: "Messages that were never told to the other nodes: too many waited, or they could not be sent."}, func() float64 {
			return float64(b.out.Dropped())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_bus_backlog", Help: "How full the database's queue of notifications is, 0 to 1."}, func() float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.backlog
		}),
	}
	registerer.MustRegister(all...)
	return func() {
		for _, c := range all {
			registerer.Unregister(c)
		}
	}
}
