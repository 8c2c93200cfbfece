package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// metric is what deploy/monitoring/metrics.json says of one.
type metric struct {
	Name, Type string
	Labels     []string
}

// series are metrics by the names under which they can be asked for.
type series map[string]metric

func readSeries(file string) (series, error) {
	var list []metric
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, err
	}
	all := series{"up": {Name: "up"}}
	for _, m := range list {
		if m.Type != "histogram" {
			all[m.Name] = m
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[m.Name+suffix] = m
		}
	}
	return all, nil
}

// given are labels that Prometheus adds, and that of histograms.
var given = []string{"job", "instance", "le"}

// check parses an expression, and looks for its metrics and labels.
func (s series) check(expr string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return fmt.Errorf("%s: %w", expr, err)
	}
	var faults all
	var labelled []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		v, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		m, there := s[v.Name]
		if !there {
			faults.addf("%s: no server has %s", expr, v.Name)
			return nil
		}
		labelled = append(labelled, m.Labels...)
		for _, matcher := range v.LabelMatchers {
			if matcher.Name != model.MetricNameLabel && !slices.Contains(given, matcher.Name) && !slices.Contains(m.Labels, matcher.Name) {
				faults.addf("%s: %s has no label %s", expr, v.Name, matcher.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, name := range names {
			if !slices.Contains(given, name) && !slices.Contains(labelled, name) {
				faults.addf("%s: no metric of it has the label %s", expr, name)
			}
		}
		return nil
	})
	return faults.err()
}

// rulesFile is a file of alert rules.
type rulesFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func checkWatching(folder string) (string, error) {
	known, err := readSeries(filepath.Join(folder, "monitoring", "metrics.json"))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(folder, "prometheus", "alerts.yml"))
	if err != nil {
		return "", err
	}
	var rules rulesFile
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return "", err
	}
	var faults all
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			faults.add(r.Alert, known.check(r.Expr))
			if r.For != "" {
				_, err := model.ParseDuration(r.For)
				faults.add(r.Alert, err)
			}
		}
	}
	if text, err = os.ReadFile(filepath.Join(folder, "grafana", "dashboards", "impart.json")); err != nil {
		return "", err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return "", err
	}
	queries := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries++
			faults.add(p.Title, known.check(strings.ReplaceAll(q.Expr, "$__rate_interval", "1m")))
		}
	}
	if alerts == 0 || queries == 0 {
		faults.addf("%d alerts and %d queries", alerts, queries)
	}
	return fmt.Sprintf("%d alerts and %d queries name what servers have", alerts, queries), faults.err()
}
