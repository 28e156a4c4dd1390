package alert

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agent"
)

// A board is what the tests ask of the dashboard.
type board struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Expr string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr string }
	Panels      []panel // of a row that is closed: they ask nothing until it is opened
}

func dashboard(t *testing.T, text []byte) (b board) {
	t.Helper()
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.Panels {
		b.Panels = append(b.Panels, p.Panels...)
	}
	return b
}

func TestDashboard(t *testing.T) {
	unknown(t, string(Dashboard))
	used := string(Dashboard)
	for _, m := range agent.Metrics() {
		if !strings.Contains(used, m.Name) && !strings.HasSuffix(m.Name, "periods_total") && // these two are recorded as a share
			m.Name != "unthrottle_agent_containers" && m.Name != "unthrottle_agent_scans_total" && m.Name != "unthrottle_container_info" {
			t.Errorf("nothing shows %s", m.Name)
		}
	}
	wellFormed(t, dashboard(t, Dashboard), 20, "datasource", "namespace", "node", "pod", "container")
}

// TestProgramsDashboard: what it shows is recorded by the rules without agents, or a series of package metrics.
func TestProgramsDashboard(t *testing.T) {
	wellFormed(t, dashboard(t, ProgramsDashboard), 15, "datasource", "namespace", "pod", "container")
	knownWithoutAgents(t, string(ProgramsDashboard))
}

func wellFormed(t *testing.T, b board, least int, names ...string) {
	t.Helper()
	var variables []string
	for _, v := range b.Templating.List {
		variables = append(variables, v.Name)
	}
	if !slices.Equal(variables, names) {
		t.Errorf("variables %q, want %q", variables, names)
	}
	units := []string{"short", "percentunit", "s", "bytes"}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the ID of another panel", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("%s lies over %s, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
			t.Errorf("%s: %+v", p.Title, p)
		}
	}
	if len(ids) < least {
		t.Errorf("only %d panels", len(ids))
	}
}

// dashboardRuns asks a Prometheus for each panel, for each variable and for the annotations: there is data for all of it, but for panels that
// need what is not there.
func dashboardRuns(t *testing.T, p *prometheus, text []byte, without ...string) {
	p = &prometheus{t, p.url}
	b := dashboard(t, text)
	values := strings.NewReplacer("$namespace", ".*", "$node", ".*", "$pod", ".*", "$container", ".*", "$__rate_interval", "4s")
	n := 0
	run := func(what, expr string) {
		expr = values.Replace(expr)
		if strings.Contains(expr, "$") {
			t.Errorf("%s: an unknown variable: %s", what, expr)
			return
		}
		p.has(expr)
		n++
	}
	for _, panel := range b.Panels {
		if slices.Contains(without, panel.Title) {
			continue
		}
		for _, target := range panel.Targets {
			run(panel.Title, target.Expr)
		}
	}
	for _, a := range b.Annotations.List {
		run("annotations", a.Expr)
	}
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		i := strings.LastIndex(v.Definition, ", ")
		selector := strings.TrimPrefix(v.Definition[:i], "label_values(")
		label := strings.TrimSuffix(v.Definition[i+2:], ")")
		run("variable "+v.Name, "count by ("+label+") ("+selector+")")
	}
	t.Logf("%d queries have data", n)
}
