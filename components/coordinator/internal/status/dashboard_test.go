package status

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// legendUse is a label in a legend of Grafana.
var legendUse = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)

// dashboard has the fields of Grafana's JSON that the test judges.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               *struct{ UID string }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile(panelsFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardUsesServedMetrics: the panels' metrics, labels and values exist in the code, each
// variable is defined, and no panel hides another.
func TestTheDashboardUsesServedMetrics(t *testing.T) {
	s, d := readSource(t), readDashboard(t)
	variables := []string{"__rate_interval", "datasource"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			s.check(t, "variable "+v.Name, v.Definition)
		}
	}
	ids, taken, panels := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q has the id %d of another, or no title", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("panel %q is over %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if panels++; p.Description == "" || len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q lacks a description, a target or the variable data source", p.Title)
		}
		for _, target := range p.Targets {
			names, labels := s.check(t, p.Title, target.Expr)
			if len(names) == 0 {
				t.Errorf("%s: %s asks for no figure", p.Title, target.Expr)
			}
			labels["le"] = true
			for _, by := range grouping.FindAllStringSubmatch(target.Expr, -1) {
				for l := range strings.SplitSeq(by[1], ",") {
					if !labels[strings.TrimSpace(l)] {
						t.Errorf("%s: none of %v has a label %s", p.Title, names, l)
					}
				}
			}
			for _, l := range legendUse.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !labels[l[1]] {
					t.Errorf("%s: the legend shows a label %s that none of %v has", p.Title, l[1], names)
				}
			}
			for _, v := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, v[1]) {
					t.Errorf("%s: the variable %s is not defined", p.Title, v[1])
				}
			}
			if !strings.Contains(target.Expr, `cluster=~"$cluster"`) || strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
				t.Errorf("%s: %s: no choice of the cluster, or an open bracket", p.Title, target.Expr)
			}
		}
	}
	if panels < 30 || d.UID == "" {
		t.Errorf("%d panels were found", panels)
	}
}

// TestTheDashboardShowsTheAlertsMetrics: a person that an alert calls sees its figures.
func TestTheDashboardShowsTheAlertsMetrics(t *testing.T) {
	s := readSource(t)
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			names, _ := s.check(t, p.Title, target.Expr)
			for _, n := range names {
				shown[n] = true
			}
		}
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			names, _ := s.check(t, r.Alert, r.Expr)
			for _, n := range names {
				if !shown[n] {
					t.Errorf("no panel shows %s of the alert %s", n, r.Alert)
				}
			}
		}
	}
}
