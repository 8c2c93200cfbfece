package rpc

import "github.com/prometheus/client_golang/prometheus"

// serverMetrics are what a logic node counts of the hop.
type serverMetrics struct {
	registry prometheus.Registerer
	all      []prometheus.Collector

	served *prometheus.CounterVec
	items  *prometheus.HistogramVec
}

func newServerMetrics(registry prometheus.Registerer, s *Server) *serverMetrics {
	m := &serverMetrics{
		registry: registry,
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_rpc_served_total", Help: "Calls of gateways that were answered, by method and error code; what streams carry is in im_rpc_served_items."},
			[]string{"method", "code"}),
		items: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "im_rpc_served_items", Help: "Requests that came in one frame of a stream.", Buckets: prometheus.ExponentialBuckets(1, 4, 6)},
			[]string{"stream"}),
	}
	m.all = register(registry, m.served, m.items, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "im_rpc_clients", Help: "Gateways that are connected."}, func() float64 { return float64(s.Clients()) }))
	return m
}

func (m *serverMetrics) unregister() { unregister(m.registry, m.all) }

// clientMetrics are what a gateway counts of the hop.
type clientMetrics struct {
	registry prometheus.Registerer
	all      []prometheus.Collector

	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inflight prometheus.Gauge
	retries  *prometheus.CounterVec
	items    *prometheus.HistogramVec
	up       *prometheus.GaugeVec
	lost     *prometheus.CounterVec
	audience *prometheus.CounterVec
}

func newClientMetrics(registry prometheus.Registerer) *clientMetrics {
	m := &clientMetrics{
		registry: registry,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_rpc_calls_total", Help: "Calls to logic nodes, by operation and by the code of their error; OK: none, or one for each item."}, []string{"op", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "im_rpc_seconds", Help: "Duration of a call to a logic node, retries included, in seconds.", Buckets: prometheus.ExponentialBuckets(0.000_1, 3, 11)}, []string{"op"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "im_rpc_inflight", Help: "Calls to logic nodes that wait for their answer."}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_rpc_retries_total", Help: "Calls that were made again on another node, or on the same one when it was back."}, []string{"op"}),
		items: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "im_rpc_frame_items", Help: "Requests that shared one frame of a stream.", Buckets: prometheus.ExponentialBuckets(1, 4, 6)}, []string{"stream"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "im_rpc_node_up", Help: "1 while calls go to the logic node."}, []string{"node"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_rpc_node_lost_total", Help: "Connections to a logic node that broke, or fell silent."}, []string{"node"}),
		audience: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_rpc_audience_total", Help: "Look-ups of who may see a conversation, by where the members were found."}, []string{"from"}),
	}
	m.all = register(registry, m.calls, m.seconds, m.inflight, m.retries, m.items, m.up, m.lost, m.audience)
	return m
}

func (m *clientMetrics) unregister() { unregister(m.registry, m.all) }

// register adds collectors to a registry; nil is fine.
func register(registry prometheus.Registerer, all ...prometheus.Collector) []prometheus.Collector {
	if registry != nil {
		registry.MustRegister(all...)
	}
	return all
}

func unregister(registry prometheus.Registerer, all []prometheus.Collector) {
	if registry == nil {
		return
	}
	for _, collector := range all {
		registry.Unregister(collector)
	}
}
