package monitoring

// The severities: page wakes somebody, ticket waits for the morning.
const (
	page   = "page"
	ticket = "ticket"
)

// Alert is one rule. Its name is the heading of its paragraph in docs/deploy.md.
type Alert struct {
	Name     string
	Expr     string
	For      string // how long it has to hold; "" is at once
	Severity string
	Summary  string // one line; {{ $labels.instance }} is filled in by Prometheus
}

// group is a part of the rules file.
type group struct {
	name   string
	alerts []Alert
}

// alerts are all rules, in the order of the rules file.
var alerts = []group{
	{"impart-store", []Alert{
		{"ImpartStoreFailing", `sum by (instance) (rate(im_refused_total{code="UNAVAILABLE"}[5m])) > 0.1`, "2m", page,
			"{{ $labels.instance }} refuses requests because its store does not answer or does not write"},
		{"ImpartHistoryHalted", `max by (instance) (im_store_halted) > 0`, "1m", page,
			"{{ $labels.instance }} has halted: the database has a history that cannot be judged"},
		{"ImpartAcknowledgedLost", `sum by (instance) (increase(im_lost_acknowledged_total{what="message"}[15m])) > 0`, "", page,
			"a failover has lost messages that {{ $labels.instance }} had answered with sent"},
		{"ImpartUnsafeDurability", `max by (instance) (im_store_unsafe_settings) > 0`, "1m", page,
			"the database of {{ $labels.instance }} is set so that a sent message can be lost"},
		{"ImpartStandbyMissing", `max(im_store_waiting_for_standby) > 0`, "30s", page,
			"nothing can be stored: commits wait for a synchronous standby that does not answer"},
		{"ImpartCommitSlow", `max by (instance) (im_store_slowest_commit_seconds) > 0.5`, "5m", ticket,
			"commits of {{ $labels.instance }} take longer than half a second"},
		{"ImpartCommitQueue", `max by (instance) (im_store_queue) > 1000`, "2m", page,
			"{{ $labels.instance }} is given more to store than its store commits"},
		{"ImpartSendSlow", `histogram_quantile(0.99, sum by (le) (rate(im_send_seconds_bucket[5m]))) > 0.25`, "5m", ticket,
			"one send in a hundred takes longer than 250 ms from its batch to its commit"},
		{"ImpartClockOffset", `abs(im_store_clock_offset_seconds) > 1`, "5m", ticket,
			"the clock of {{ $labels.instance }} is more than a second from the database's"},
	}},
	{"impart-delivery", []Alert{
		{"ImpartSweepLate", `increase(im_sweep_seconds_count[5m]) == 0`, "2m", page,
			"{{ $labels.instance }} has not looked for lost pushes for five minutes"},
		{"ImpartSweepFailing", `increase(im_sweep_failed_total[5m]) > 3`, "", ticket,
			"sweeps of {{ $labels.instance }} fail: lost pushes are found late"},
		{"ImpartPendingGrows", `im_pending_flows > 1000 and im_pending_flows > 0.5 * im_connections and deriv(im_pending_flows[15m]) > 0`, "15m", ticket,
			"more and more devices of {{ $labels.instance }} owe an acknowledgement"},
		{"ImpartDeliverFailed", `sum(rate(im_deliver_failed_total{reason="ack_timeout"}[10m])) > 0.02 * sum(rate(im_push_total[10m])) and sum(rate(im_push_total[10m])) > 1`, "15m", ticket,
			"more than 2 % of the pushes are given up without an acknowledgement"},
		{"ImpartPushDropped", `sum by (instance) (rate(im_push_dropped_total[10m])) > 0.01 * sum by (instance) (rate(im_push_total[10m]))`, "15m", ticket,
			"clients of {{ $labels.instance }} read too slowly: pushes are dropped, and hints take their place"},
		{"ImpartBusDeaf", `max by (instance) (im_bus_up) == 0`, "1m", page,
			"{{ $labels.instance }} hears no wake-ups of other nodes: their messages come with the sweep"},
		{"ImpartBusBacklog", `max by (instance) (im_bus_backlog) > 0.5`, "5m", page,
			"the database's queue of notifications is half full: some session listens and does not read"},
		{"ImpartRedisDown", `max by (instance) (im_redis_up) == 0`, "1m", ticket,
			"Redis does not answer {{ $labels.instance }}: nothing is lost, and lost pushes are found by the sweep"},
		{"ImpartRedisFailing", `sum by (instance) (rate(im_redis_failed_total[5m])) > 1`, "10m", ticket,
			"exchanges of {{ $labels.instance }} with Redis fail again and again"},
	}},
	{"impart-process", []Alert{
		{"ImpartDown", `up{job="impart"} == 0`, "1m", page,
			"{{ $labels.instance }} does not answer"},
		{"ImpartLogicNodeLost", `min by (instance, node) (im_rpc_node_up) == 0`, "2m", page,
			"{{ $labels.instance }} does not reach the logic node {{ $labels.node }}"},
		{"ImpartConnectionsNearLimit", `im_connections > 0.85 * im_connections_limit`, "5m", page,
			"{{ $labels.instance }} has more than 85 % of the connections that it takes"},
		{"ImpartFilesNearLimit", `process_open_fds > 0.9 * process_max_fds`, "5m", page,
			"{{ $labels.instance }} has more than 90 % of the file descriptors that it may have"},
		{"ImpartOverloaded", `sum by (instance) (rate(im_refused_total{code="OVERLOADED"}[5m])) > 0.1`, "5m", page,
			"{{ $labels.instance }} refuses requests because too many wait"},
		{"ImpartPanic", `sum by (instance) (increase(im_http_panics_total[15m])) > 0`, "", ticket,
			"a request made {{ $labels.instance }} panic, which is a fault of the server"},
	}},
}
