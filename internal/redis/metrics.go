package redis

import "github.com/prometheus/client_golang/prometheus"

// The parts, as they are counted.
const (
	partPending = "pending"
	partDedup   = "dedup"
	partBus     = "bus"
)

// metrics are what a client and its parts count.
type metrics struct {
	failed    *prometheus.CounterVec
	inherited prometheus.Counter
	leases    *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	told      prometheus.Counter
	heard     prometheus.Counter
	missed    prometheus.Counter
	breaks    *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	return &metrics{
		failed:    counters("im_redis_failed_total", "Exchanges with Redis that failed or took too long, by part.", "part", partPending, partDedup, partBus),
		inherited: counter("im_pending_inherited_total", "Unacknowledged flows that were taken over from gateways whose lease had ended."),
		leases:    counters("im_pending_lease_total", "Leases of this gateway's set that were got, and that were found lost.", "what", "got", "lost"),
		dropped:   counters("im_redis_dropped_total", "What was not told to Redis because too much waited for it, by part.", "part", partPending, partDedup),
		told:      counter("im_bus_told_total", "Messages that were told to the other nodes; those that the store tells are not among them."),
		heard:     counter("im_bus_heard_total", "Messages that were heard from other nodes."),
		missed:    counter("im_bus_missed_total", "Times that the bus may have missed something, and what it was had to be looked for."),
		breaks:    counters("im_bus_break_total", "Times that a connection of the bus failed, by its purpose.", "purpose", "listen", "publish"),
	}
}

// register makes what every client counts known; unregister undoes it.
func (m *metrics) register(registerer prometheus.Registerer, c *Client) (unregister func()) {
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_redis_up", Help: "1 while Redis answers."}, func() float64 { return upness(c.Health()) })
	return registerAll(registerer, up, m.failed, m.dropped)
}

func upness(err error) float64 {
	if err != nil {
		return 0
	}
	return 1
}

func registerAll(registerer prometheus.Registerer, all ...prometheus.Collector) (unregister func()) {
	if registerer == nil {
		return func() {}
	}
	registerer.MustRegister(all...)
	return func() {
		for _, c := range all {
			registerer.Unregister(c)
		}
	}
}
