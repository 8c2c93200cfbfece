package logic

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart/internal/dedup"
	"github.com/impart-im/impart/internal/store"
)

// metrics are all that the service counts. Names and the label of
// im_dedup_hit_total are seed 002's where it has them.
type metrics struct {
	registry prometheus.Registerer // nil: registered nowhere
	all      []prometheus.Collector
	theirs   []prometheus.Collector // those of all that registry has taken

	stored      prometheus.Counter
	recalled    prometheus.Counter
	dedupHit    *prometheus.CounterVec
	dedupCached prometheus.Counter
	refused     *prometheus.CounterVec
	sendSeconds prometheus.Histogram
	sendItems   prometheus.Histogram
	wakes       prometheus.Counter
	receipts    prometheus.Counter
	acked       prometheus.Counter
	audiences   *prometheus.CounterVec
	removed     *prometheus.CounterVec
	cleanFailed prometheus.Counter
	halted      prometheus.Gauge
	failovers   *prometheus.CounterVec
	lost        *prometheus.CounterVec
}

func newMetrics(st store.Store) *metrics {
	m := &metrics{
		stored:      counter("im_messages_stored_total", "Messages whose transaction has committed."),
		recalled:    counter("im_messages_recalled_total", "Messages that were taken back."),
		dedupHit:    counters("im_dedup_hit_total", "Sends and recalls that an earlier attempt had stored already, by the layer that knew.", "key", "layer"),
		dedupCached: counter("im_dedup_cached_total", "Those of im_dedup_hit_total that were answered without the store."),
		refused:     counters("im_refused_total", "Requests that were refused, by request and error code.", "op", "code"),
		sendSeconds: histogram("im_send_seconds", "Time from a batch of sends to its commit, in seconds.",
			prometheus.ExponentialBuckets(0.000_25, 2, 16)),
		sendItems: histogram("im_send_items", "Sends that came in one batch.", prometheus.ExponentialBuckets(1, 4, 6)),
		wakes:     counter("im_wakes_total", "Wake-ups published after a commit."),
		receipts:  counter("im_receipts_total", "Receipts published after a cursor moved."),
		acked:     counter("im_cursors_moved_total", "Delivery cursors that an acknowledgement moved."),
		audiences: counters("im_audience_total", "Look-ups of who may see a conversation, by where they were found.", "from"),
		removed:   counters("im_retention_removed_total", "Rows removed because of their age, by table.", "table"),
		cleanFailed: counter("im_retention_failed_total",
			"Rounds of removing old rows that the store did not finish; the next round goes on."),
	}
	m.halted = prometheus.NewGauge(prometheus.GaugeOpts{Name: "im_store_halted",
		Help: "1 while the database has a history that has not been judged: nothing is written or read."})
	m.failovers = counters("im_failovers_total", "Changes of the database's history that were judged, by what became of the epoch.", "epoch")
	m.lost = counters("im_lost_acknowledged_total",
		"What this node had acknowledged and a later history of the database lacks, by kind; two nodes that answered the same count it twice.", "what")
	m.lost.WithLabelValues(string(store.PromisedMessage))
	for _, epoch := range []string{"kept", "raised"} {
		m.failovers.WithLabelValues(epoch)
	}
	for _, layer := range []dedup.Layer{dedup.Memory, dedup.Redis, layerStore} {
		m.dedupHit.WithLabelValues(hitKey, string(layer))
	}
	m.all = []prometheus.Collector{
		m.stored, m.recalled, m.dedupHit, m.dedupCached, m.refused, m.sendSeconds, m.sendItems, m.wakes, m.receipts, m.acked,
		m.audiences, m.removed, m.cleanFailed, m.halted, m.failovers, m.lost,
		reading("im_store_commits_total", "Transactions that wrote.", func(s store.Stats) float64 { return float64(s.Commits) }, st),
		reading("im_store_items_total", "Appends, acknowledgements and others that shared them.", func(s store.Stats) float64 { return float64(s.Items) }, st),
		reading("im_store_reads_total", "Transactions that only read.", func(s store.Stats) float64 { return float64(s.Reads) }, st),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_store_queue", Help: "Items that wait for a commit now."},
			func() float64 { return float64(st.Stats().Queue) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "im_store_slowest_commit_seconds", Help: "The longest commit of late, in seconds."},
			func() float64 { return float64(st.Stats().Slowest) / 1000 }),
	}
	return m
}

// layerStore is the last layer, the unique key itself.
const layerStore dedup.Layer = "store"

// hitKey is the one key by which repetitions are known.
const hitKey = "client_msg_id"

// hit counts a send or recall that an earlier attempt had stored already.
func (m *metrics) hit(layer dedup.Layer) {
	m.dedupHit.WithLabelValues(hitKey, string(layer)).Inc()
	if layer != layerStore {
		m.dedupCached.Inc()
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// reading is a counter that the store keeps itself.
func reading(name, help string, of func(store.Stats) float64, st store.Store) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return of(st.Stats()) })
}

// register adds the metrics to registry; nil is fine.
func (m *metrics) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	m.registry = registry
	for _, collector := range m.all {
		if err := registry.Register(collector); err != nil {
			m.unregister()
			return fmt.Errorf("registering metrics: %w", err)
		}
		m.theirs = append(m.theirs, collector)
	}
	return nil
}

// unregister takes back what register has added, and nothing of anybody else.
func (m *metrics) unregister() {
	for _, collector := range m.theirs {
		m.registry.Unregister(collector)
	}
	m.theirs = nil
}
