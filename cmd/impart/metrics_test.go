package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/impart-im/impart/deploy/monitoring"
)

// described reads what a metric says of itself, which has no accessors.
var described = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),(?: unit: "[^"]*",)? constLabels: \{[^}]*\}, variableLabels: \{(.*)\}\}$`)

// ofTheProcess are the metrics not of our own that are watched. What else there is
// depends on the system and on Go's version.
var ofTheProcess = []string{"process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes", "process_start_time_seconds"}

// metricsOf are the metrics of a process, those that have counted nothing yet
// included.
func metricsOf(t *testing.T, registry *prometheus.Registry) map[string]monitoring.Metric {
	t.Helper()
	types := map[string]string{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() { registry.Describe(descs); close(descs) }()
	var texts []string
	for desc := range descs {
		texts = append(texts, desc.String())
	}
	all := map[string]monitoring.Metric{}
	for _, desc := range texts {
		found := described.FindStringSubmatch(desc)
		if found == nil {
			t.Fatalf("a metric says of itself: %s", desc)
		}
		var m monitoring.Metric
		for i, into := range []*string{&m.Name, &m.Help} {
			if err := json.Unmarshal([]byte(found[1+i]), into); err != nil {
				t.Fatal(err)
			}
		}
		if found[3] != "" {
			m.Labels = strings.Split(found[3], ",")
		}
		m.Type = types[m.Name]
		switch {
		case m.Type != "":
		case strings.HasSuffix(m.Name, "_total"):
			m.Type = "counter"
		case strings.HasSuffix(m.Name, "_seconds"):
			m.Type = "histogram"
		default:
			m.Type = "gauge"
		}
		if strings.HasPrefix(m.Name, "im_") || slices.Contains(ofTheProcess, m.Name) {
			all[m.Name] = m
		}
	}
	return all
}

// started are the parts of a process, without its ports.
func started(t *testing.T, as role, variables ...string) *parts {
	t.Helper()
	env := streams{
		environ: func() []string { return variables },
		env: func(name string) (string, bool) {
			for _, v := range variables {
				if value, is := strings.CutPrefix(v, name+"="); is {
					return value, true
				}
			}
			return "", false
		},
	}
	commands := map[role]func(streams) *cobra.Command{roleServe: serveCommand, roleGateway: gatewayCommand, roleLogic: logicCommand}
	l, err := loadAs(commands[as](env), env, as)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newParts(t.Context(), l.config, slog.New(slog.DiscardHandler), 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// shapes are servers as they can be set up, by the name that metrics.json has for
// what not all of them have.
func shapes(t *testing.T) map[string]map[string]monitoring.Metric {
	_, dsn, _ := database(t)
	_, mysqlDSN, _ := mysqlDatabase(t)
	redis := "IM_REDIS=" + redisServer(t).URL()
	logic := launchRole(t, "logic", []string{"IM_STORE=" + dsn, "IM_LOGIC_LISTEN=127.0.0.1:0"})
	all := map[string]map[string]monitoring.Metric{}
	for name, p := range map[string]*parts{
		"sqlite":   started(t, roleServe, "IM_STORE=sqlite:"+filepath.Join(t.TempDir(), "impart.db")),
		"postgres": started(t, roleServe, "IM_STORE="+dsn),
		"mysql":    started(t, roleServe, "IM_STORE="+mysqlDSN, redis),
		"logic":    started(t, roleLogic, "IM_STORE="+dsn, redis),
		"gateway":  started(t, roleGateway, "IM_LOGIC="+logic.hop, redis),
	} {
		all[name] = metricsOf(t, p.metrics)
	}
	return all
}

// TestMetricsList holds deploy/monitoring/metrics.json, from which the alert rules
// and the dashboard are made, against servers that run.
func TestMetricsList(t *testing.T) {
	byShape := shapes(t)
	merged := map[string]monitoring.Metric{}
	for shape, all := range byShape {
		for name, m := range all {
			if was, there := merged[name]; there {
				if was.Help != m.Help || !slices.Equal(was.Labels, m.Labels) {
					t.Errorf("%s is one thing here and another there: %+v and %+v", name, was, m)
				}
				m.Only = was.Only
			}
			m.Only = append(m.Only, shape)
			merged[name] = m
		}
	}
	var list []monitoring.Metric
	for _, m := range merged {
		slices.Sort(m.Only)
		if len(m.Only) == len(byShape) {
			m.Only = nil
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b monitoring.Metric) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, filepath.Join("..", "..", "deploy", "monitoring", "metrics.json"), append(text, '\n'))
}

// TestWatchingIsWrittenAnew holds the alert rules and the dashboard against what
// the generator makes of the list of metrics.
func TestWatchingIsWrittenAnew(t *testing.T) {
	all, err := monitoring.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func([]monitoring.Metric) ([]byte, error){
		"prometheus/alerts.yml":          monitoring.Rules,
		"grafana/dashboards/impart.json": monitoring.Dashboard,
		// A chart can read only files of its own folder.
		"helm/impart/files/alerts.yml":  monitoring.Rules,
		"helm/impart/files/impart.json": monitoring.Dashboard,
	} {
		text, err := write(all)
		if err != nil {
			t.Error(err)
			continue
		}
		compareFile(t, filepath.Join("..", "..", "deploy", filepath.FromSlash(name)), text)
	}
}

// compareFile compares a file that is made with what was made; -update writes it.
func compareFile(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what is made now: make docs", name)
	}
}
