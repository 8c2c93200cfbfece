package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExpressionsNameOnlyWhatServersHave(t *testing.T) {
	c := newCatalog([]Metric{
		{Name: "im_a_total", Type: "counter", Labels: []string{"code"}},
		{Name: "im_b_seconds", Type: "histogram"},
	})
	for expr, want := range map[string]string{
		`sum by (instance, code) (rate(im_a_total{code="X",instance=~"y"}[5m]))`: "",
		`histogram_quantile(0.9, sum by (le) (rate(im_b_seconds_bucket[5m])))`:   "",
		`increase(im_b_seconds_count[1m]) > 0`:                                   "",
		`up{job="impart"} == 0`:                                                  "",
		`rate(im_c_total[5m])`:                                                   "no server has the metric im_c_total",
		`rate(im_b_seconds[5m])`:                                                 "no server has the metric im_b_seconds",
		`im_a_total{why="x"}`:                                                    "im_a_total has no label why",
		`im_a_total{code!="x",why=~"y"} > 1`:                                     "im_a_total has no label why",
		`sum by (why) (im_a_total)`:                                              "has the label why",
		`1 > 0`:                                                                  "names no metric",
		`sum without (instance, reason) (im_b_seconds_sum)`:                      "has the label reason",
		`im_a_total{code="x"} / on (code, op) im_a_total{code="y"}`:              "has the label op",
		`process_open_fds / process_max_fds`:                                     "process_open_fds",
	} {
		err := c.check(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// TestEveryAlertHasItsParagraph: whoever is woken finds what to do.
func TestEveryAlertHasItsParagraph(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, paragraph, _ := strings.Cut(part, "\n")
		paragraph, _, _ = strings.Cut(paragraph, "\n## ")
		told[name] = strings.TrimSpace(paragraph)
	}
	names := map[string]bool{}
	for _, g := range alerts {
		for _, a := range g.alerts {
			if len(told[a.Name]) < 100 {
				t.Errorf("docs/deploy.md says of %s: %q", a.Name, told[a.Name])
			}
			if names[a.Name] {
				t.Errorf("%s is there twice", a.Name)
			}
			names[a.Name] = true
			if d, err := time.ParseDuration(a.For); a.For != "" && (err != nil || d <= 0) {
				t.Errorf("%s: for %q", a.Name, a.For)
			}
			if a.Severity != page && a.Severity != ticket {
				t.Errorf("%s: severity %q", a.Name, a.Severity)
			}
		}
	}
	for name := range told {
		if strings.HasPrefix(name, "Impart") && !names[name] {
			t.Errorf("docs/deploy.md explains %s, and no rule has that name", name)
		}
	}
}

// TestPanelsDoNotOverlap: Grafana takes any grid, and shows a wrong one.
func TestPanelsDoNotOverlap(t *testing.T) {
	all, err := Metrics()
	if err != nil {
		t.Fatal(err)
	}
	text, err := Dashboard(all)
	if err != nil {
		t.Fatal(err)
	}
	var board struct{ Panels []graph }
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d %q: its id is taken, or it shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%q lies over %q at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if len(board.Panels) < 20 {
		t.Errorf("%d panels", len(board.Panels))
	}
}
