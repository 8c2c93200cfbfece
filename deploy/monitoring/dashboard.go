package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The parts of Grafana's model of a dashboard that this one needs.
type (
	grid struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	target struct {
		RefID      string `json:"refId"`
		Datasource source `json:"datasource"`
		Expr       string `json:"expr"`
		Legend     string `json:"legendFormat"`
	}
	graph struct {
		ID          int            `json:"id"`
		Type        string         `json:"type"`
		Title       string         `json:"title"`
		Description string         `json:"description,omitempty"`
		GridPos     grid           `json:"gridPos"`
		Datasource  *source        `json:"datasource,omitempty"`
		FieldConfig map[string]any `json:"fieldConfig,omitempty"`
		Options     map[string]any `json:"options,omitempty"`
		Targets     []target       `json:"targets,omitempty"`
	}
)

// prometheus is the data source that the dashboard's variable chooses.
var prometheus = source{"prometheus", "${datasource}"}

// Dashboard is the dashboard for Grafana, checked against the list of metrics.
func Dashboard(all []Metric) ([]byte, error) {
	c := newCatalog(all)
	const width, height, columns = 12, 8, 24
	var graphs []graph
	var errs []error
	y := 0
	for _, r := range rows {
		graphs = append(graphs, graph{ID: len(graphs) + 1, Type: "row", Title: r.title, GridPos: grid{H: 1, W: columns, Y: y}})
		y++
		for i, p := range r.panels {
			g, err := c.graph(p)
			errs = append(errs, err)
			g.ID, g.GridPos = len(graphs)+1, grid{H: height, W: width, X: i % 2 * width, Y: y + i/2*height}
			graphs = append(graphs, g)
		}
		y += (len(r.panels) + 1) / 2 * height
	}
	variable := func(name, label string) map[string]any {
		return map[string]any{
			"type": "query", "name": name, "label": name, "datasource": prometheus, "refresh": 2, "sort": 1,
			"query": map[string]any{"query": "label_values(" + label + ")", "refId": name},
		}
	}
	instance := variable("instance", `up{job="$job"}, instance`)
	instance["multi"], instance["includeAll"], instance["allValue"] = true, true, ".*"
	instance["current"] = map[string]any{"text": "All", "value": "$__all"}
	board := map[string]any{
		"title": "Impart", "uid": "impart", "tags": []string{"impart"}, "schemaVersion": 39, "version": 1, "editable": true,
		"time": map[string]any{"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser",
		"templating": map[string]any{"list": []any{
			map[string]any{"type": "datasource", "name": "datasource", "query": "prometheus", "label": "data source"},
			variable("job", "up, job"), instance,
		}},
		"panels": graphs,
	}
	text, err := json.MarshalIndent(board, "", "  ")
	return append(text, '\n'), errors.Join(append(errs, err)...)
}

// graph makes a panel; its description is what the server says of the metrics.
func (c catalog) graph(p panel) (graph, error) {
	g := graph{
		Type: "timeseries", Title: p.title, Datasource: &prometheus,
		FieldConfig: map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0, "custom": map[string]any{"fillOpacity": 8, "showPoints": "never"}}, "overrides": []any{}},
		Options:     map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{"mode": "multi"}},
	}
	if strings.Contains(p.title, "Clock") {
		delete(g.FieldConfig["defaults"].(map[string]any), "min") // it may be behind
	}
	var told []string
	var errs []error
	for i, q := range p.queries {
		errs = append(errs, c.check(q.expr))
		g.Targets = append(g.Targets, target{RefID: string(rune('A' + i)), Datasource: prometheus, Expr: q.expr, Legend: q.legend})
		for _, name := range seriesName.FindAllString(q.expr, -1) {
			if line := fmt.Sprintf("%s: %s", c[name].Name, c[name].Help); !slices.Contains(told, line) {
				told = append(told, line)
			}
		}
	}
	g.Description = strings.Join(told, "\n\n")
	return g, errors.Join(errs...)
}
