// Package monitoring writes what a team watches Impart with: alert rules for
// Prometheus and a dashboard for Grafana, both made from the list of the server's
// own metrics. A rule or a panel that names a metric or a label which no server has
// is an error here, and a test holds the list against running servers.
package monitoring

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Metric is one metric as the server defines it.
type Metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"` // counter, gauge or histogram
	Help   string   `json:"help"`
	Labels []string `json:"labels,omitempty"`
	// Only names the shapes that have it, where not every server does: see metrics.json.
	Only []string `json:"only,omitempty"`
}

// series are the names under which a metric can be asked for.
func (m Metric) series() []string {
	if m.Type == "histogram" {
		return []string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
	}
	return []string{m.Name}
}

// metricsFile is the list of metrics, which a test of cmd/impart writes and compares
// with running servers.
//
//go:embed metrics.json
var metricsFile []byte

// Metrics are all that servers have, sorted by name.
func Metrics() ([]Metric, error) {
	var all []Metric
	if err := json.Unmarshal(metricsFile, &all); err != nil {
		return nil, fmt.Errorf("metrics.json: %w", err)
	}
	return all, nil
}

// catalog finds metrics by the name of a series.
type catalog map[string]Metric

func newCatalog(all []Metric) catalog {
	c := catalog{}
	for _, m := range all {
		for _, name := range m.series() {
			c[name] = m
		}
	}
	return c
}

// Labels that Prometheus itself gives, and the buckets of a histogram.
var given = []string{"instance", "job", "le"}

var (
	seriesName = regexp.MustCompile(`\b(?:im|process|go)_[a-z0-9_]+\b`)
	selector   = regexp.MustCompile(`\b((?:im|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
)

// check says what in a PromQL expression no server has. It looks at names only;
// that the expression can be parsed is checked with Prometheus' own parser.
func (c catalog) check(expr string) error {
	var errs []error
	var named []Metric
	for _, name := range seriesName.FindAllString(expr, -1) {
		m, there := c[name]
		if !there {
			errs = append(errs, fmt.Errorf("no server has the metric %s", name))
		}
		named = append(named, m)
	}
	for _, found := range selector.FindAllStringSubmatch(expr, -1) {
		for _, label := range labelName.FindAllStringSubmatch(found[2], -1) {
			if name := label[1]; !slices.Contains(given, name) && !slices.Contains(c[found[1]].Labels, name) {
				errs = append(errs, fmt.Errorf("the metric %s has no label %s", found[1], name))
			}
		}
	}
	for _, found := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(found[1], ",") {
			name = strings.TrimSpace(name)
			has := func(m Metric) bool { return slices.Contains(m.Labels, name) }
			if !slices.Contains(given, name) && !slices.ContainsFunc(named, has) {
				errs = append(errs, fmt.Errorf("no metric of the expression has the label %s", name))
			}
		}
	}
	if len(named) == 0 && !strings.Contains(expr, "up{") {
		errs = append(errs, errors.New("the expression names no metric"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	return nil
}
