package monitoring

// panel is one graph. What it is about is told by the help of the metrics that its
// queries name.
type panel struct {
	title   string
	unit    string // of Grafana: ops, s, short, bytes, percentunit …
	queries []query
}

// query is one line of a graph, or one for each value of a label.
type query struct {
	expr   string
	legend string
}

// row is a line of panels under a heading.
type row struct {
	title  string
	panels []panel
}

// of is the selector of the servers that the dashboard shows.
const of = `{job="$job",instance=~"$instance"}`

func rate(metric string) string { return "rate(" + metric + of + "[$__rate_interval])" }

func quantile(q, metric string) string {
	return "histogram_quantile(" + q + ", sum by (le) (" + rate(metric+"_bucket") + "))"
}

func one(expr, legend string) []query { return []query{{expr, legend}} }

// rows are the dashboard.
var rows = []row{
	{"The promise", []panel{
		{"Messages stored", "ops", one("sum by (instance) ("+rate("im_messages_stored_total")+")", "{{instance}}")},
		{"From a batch of sends to its commit", "s", []query{{quantile("0.5", "im_send_seconds"), "p50"}, {quantile("0.99", "im_send_seconds"), "p99"}}},
		{"Requests refused", "ops", one("sum by (op, code) ("+rate("im_refused_total")+")", "{{op}} {{code}}")},
		{"Retries that were no second message", "ops", []query{
			{"sum(" + rate("im_dedup_hit_total") + ")", "all"}, {"sum(" + rate("im_dedup_cached_total") + ")", "answered without the store"}}},
	}},
	{"Delivery", []panel{
		{"Connections", "short", []query{{"im_connections" + of, "{{instance}}"}, {"im_connections_limit" + of, "{{instance}} takes at most"}}},
		{"Pushes", "ops", []query{
			{"sum(" + rate("im_push_total") + ")", "pushed"}, {"sum(" + rate("im_push_dropped_total") + ")", "dropped"}, {"sum(" + rate("im_push_failed_total") + ")", "failed"}}},
		{"Cursors moved and receipts", "ops", []query{
			{"sum(" + rate("im_cursors_moved_total") + ")", "cursors moved"}, {"sum(" + rate("im_receipts_total") + ")", "receipts"}}},
		{"Flows that owe an acknowledgement", "short", one("im_pending_flows"+of, "{{instance}}")},
		{"Repeated and given up", "ops", []query{
			{"sum(" + rate("im_retry_total") + ")", "repeated"}, {"sum by (reason) (" + rate("im_deliver_failed_total") + ")", "given up: {{reason}}"}}},
		{"Hints", "ops", one("sum by (why) ("+rate("im_hint_total")+")", "{{why}}")},
		{"Sweeps", "s", []query{{quantile("0.99", "im_sweep_seconds"), "p99"}, {"sum(" + rate("im_sweep_failed_total") + ")", "failed a second"}}},
		{"Connections closed by the server", "ops", one("sum by (code) ("+rate("im_bye_total")+")", "{{code}}")},
	}},
	{"Store", []panel{
		{"Transactions", "ops", []query{{"sum(" + rate("im_store_commits_total") + ")", "written"}, {"sum(" + rate("im_store_reads_total") + ")", "read only"}}},
		{"Items that share a transaction", "short", one("sum("+rate("im_store_items_total")+") / sum("+rate("im_store_commits_total")+")", "in the mean")},
		{"Slowest commit of late", "s", one("im_store_slowest_commit_seconds"+of, "{{instance}}")},
		{"Items that wait for a commit", "short", one("im_store_queue"+of, "{{instance}}")},
		{"Halted, and unsafe settings", "short", []query{{"im_store_halted" + of, "{{instance}} halted"}, {"im_store_unsafe_settings" + of, "{{instance}} unsafe settings"}}},
		{"Commits that wait for a standby", "short", one("im_store_waiting_for_standby"+of, "{{instance}}")},
		{"Clock ahead of the database's", "s", one("im_store_clock_offset_seconds"+of, "{{instance}}")},
	}},
	{"Between the nodes", []panel{
		{"Bus up", "short", one("im_bus_up"+of, "{{instance}}")},
		{"Heard, and missed", "ops", []query{{"sum by (instance) (" + rate("im_bus_heard_total") + ")", "{{instance}} heard"}, {"sum by (instance) (" + rate("im_bus_missed_total") + ")", "{{instance}} may have missed"}}},
		{"Redis up", "short", one("im_redis_up"+of, "{{instance}}")},
		{"Redis: failed, and not told", "ops", []query{
			{"sum by (part) (" + rate("im_redis_failed_total") + ")", "failed: {{part}}"}, {"sum by (part) (" + rate("im_redis_dropped_total") + ")", "not told: {{part}}"}}},
		{"Sets of unacknowledged flows in Redis", "short", []query{
			{"im_pending_untold" + of, "{{instance}} has not told"}, {"sum(" + rate("im_pending_inherited_total") + ")", "taken over a second"}}},
		{"Failovers, and what they lost", "short", []query{
			{"sum by (epoch) (im_failovers_total" + of + ")", "epoch {{epoch}}"}, {"sum by (what) (im_lost_acknowledged_total" + of + ")", "lost: {{what}}"}}},
	}},
	{"From gateways to logic nodes", []panel{
		{"Calls", "ops", one("sum by (op, code) ("+rate("im_rpc_calls_total")+")", "{{op}} {{code}}")},
		{"How long a call takes", "s", []query{{quantile("0.5", "im_rpc_seconds"), "p50"}, {quantile("0.99", "im_rpc_seconds"), "p99"}}},
		{"Logic nodes that calls go to", "short", one("sum by (instance) (im_rpc_node_up"+of+")", "{{instance}}")},
		{"Calls made again, and under way", "short", []query{{"sum(" + rate("im_rpc_retries_total") + ")", "made again a second"}, {"sum(im_rpc_inflight" + of + ")", "under way"}}},
	}},
	{"Process", []panel{
		{"Processor", "short", one("sum by (instance) ("+rate("process_cpu_seconds_total")+")", "{{instance}}")},
		{"Resident memory", "bytes", one("process_resident_memory_bytes"+of, "{{instance}}")},
		{"File descriptors", "short", []query{{"process_open_fds" + of, "{{instance}}"}, {"process_max_fds" + of, "{{instance}} has at most"}}},
		{"HTTP requests", "ops", one("sum by (route, code) ("+rate("im_http_requests_total")+")", "{{route}} {{code}}")},
	}},
}
