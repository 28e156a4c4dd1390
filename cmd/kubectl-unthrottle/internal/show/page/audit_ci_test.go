package page

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A told is what CI systems read of an audit.
type told struct {
	passed          int // cases
	failed, skipped []string
}

func junit(t *testing.T, d *result.Audit) (x told) {
	t.Helper()
	var b strings.Builder
	if err := ci.JUnit(&b, "audit", "2026-11-23T00:00:00Z", d.Checks()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Suites []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Suites {
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil:
				x.failed = append(x.failed, c.Failure.Message)
			case c.Skipped != nil:
				x.skipped = append(x.skipped, c.Skipped.Message)
			default:
				x.passed++
			}
		}
	}
	return x
}

func sarif(t *testing.T, d *result.Audit) (x told) {
	t.Helper()
	var b strings.Builder
	if err := ci.SARIF(&b, "test", d.Checks()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Runs []struct {
			Results []struct {
				Kind    string
				Message struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range doc.Runs[0].Results {
		switch r.Kind {
		case "open":
			x.skipped = append(x.skipped, r.Message.Text)
		case "pass":
			x.passed++
		default:
			x.failed = append(x.failed, r.Message.Text)
		}
	}
	return x
}

// TestAuditUnknown: anything that could not be known is skipped with the reason, in every format that can say so, and passes in none.
func TestAuditUnknown(t *testing.T) {
	heard := result.AuditAgents{Asked: true, Found: 1, Answered: 1, Programs: 1}
	problem := func(severity manifest.Severity, at, text string) []result.Problem {
		return []result.Problem{{At: at, Severity: string(severity), Text: text}}
	}
	for _, c := range []struct {
		name     string
		limit    float64 // of a workload next to the one that is right
		agents   result.AuditAgents
		problems []result.Problem
		found    []manifest.Problem
		unseen   bool // one of two pods was not looked at
		unnamed  bool
		empty    bool
		why      string // "": all is known
	}{
		{name: "all is known, and nothing is wrong", agents: heard},
		{name: "a note takes nothing away", agents: heard, problems: problem(manifest.Note, "chart", "it was left alone")},
		{name: "agents were not asked", why: "agents were not asked"},
		{name: "no agent", agents: result.AuditAgents{Asked: true}, why: "no agent was found"},
		{name: "an agent that was not heard", agents: heard, problems: problem(manifest.Error, "agent a", "no usable answer: it hangs"), why: "no usable answer: it hangs"},
		{name: "an agent that is not ready", agents: heard, problems: problem(manifest.Warning, "agent a", "not ready, so not asked"), why: "not ready"},
		{name: "agents may not be listed", agents: result.AuditAgents{Asked: true}, problems: problem(manifest.Warning, "agents", "User me cannot list pods"), why: "cannot list pods"},
		{name: "an API group that was not read", agents: heard, found: []manifest.Problem{{At: workload.Position{Path: "deployments.apps"}, Severity: manifest.Error, Text: "the verb list is missing"}}, why: "the verb list is missing"},
		{name: "an object that is not whole", agents: heard, found: []manifest.Problem{{At: workload.Position{Path: "Deployment/x"}, Severity: manifest.Warning, Text: "it is a template"}}, why: "it is a template"},
		{name: "Prometheus that was not reached", agents: heard, problems: problem(manifest.Error, "Prometheus", "connection refused"), why: "connection refused"},
		{name: "an image that was not read", agents: heard, problems: problem(manifest.Warning, "image x", "no such image"), why: "no such image"},
		{name: "a program that is not known", agents: heard, limit: -1, why: "the program is not known, and neither is its GOMAXPROCS"},
		{name: "a program that may be wrong", agents: heard, limit: 1, why: "which Go program runs there is not known"},
		{name: "a pod that nobody has looked at", agents: heard, unseen: true, why: "nothing is wrong with what was seen, and 1 of 2 pods were not looked at"},
		{name: "a pod with a container that has no name", agents: heard, unnamed: true, why: "1 of 2 pods were not looked at"},
		{name: "nothing at all", agents: heard, empty: true, why: "no workload was found in the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := &cluster.Found{Context: "prod", Server: "https://10.0.0.1:6443", Problems: c.found}
			add := func(name, image string, limit float64, nodes ...string) {
				one := workload.Container{Name: "app", Image: image, Role: workload.Main}
				if limit > 0 {
					one.Limit = workload.Amount{Value: limit, State: workload.Known}
				}
				w := &workload.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name, Pod: workload.Pod{Containers: []workload.Container{one}}}
				found.Workloads = append(found.Workloads, w)
				for i, node := range nodes {
					pod := name + "-" + string(rune('a'+i))
					found.Pods = append(found.Pods, cluster.Pod{Namespace: "shop", Name: pod, UID: pod, Node: node, Of: w})
				}
			}
			if !c.empty {
				add("good", "registry.example.com/good:1", 2, "node-1", "node-2")
			}
			if c.limit != 0 {
				add("other", "registry.example.com/other:1", c.limit, "node-3")
			}
			a := audit.New(found, lint.Known{}, audit.Options{})
			for i, pod := range []string{"good-a", "good-b"} {
				if (c.unseen || c.unnamed) && i == 1 {
					continue
				}
				a.Saw([]string{"node-1", "node-2"}[i], audit.Program{
					Namespace: "shop", Pod: pod, UID: pod, Container: "app", GoVersion: "go1.26.0", GoLine: "1.26 or later", Procs: 2, Expected: 2, SetBy: "default", Limit: 2, CPUs: 16,
				})
			}
			if c.unnamed {
				a.Saw("node-2", audit.Program{UID: "good-b"})
			}
			a.Answered("node-1")
			if !c.unseen {
				a.Answered("node-2")
			}
			joined, err := a.Result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d := result.NewAudit(found, joined, c.agents, nil, c.problems)
			if tone := auditTone(d); c.empty && tone != sheet.Warn {
				t.Errorf("its tone is %v", tone)
			}
			for format, x := range map[string]told{"JUnit": junit(t, d), "SARIF": sarif(t, d)} {
				says := slices.ContainsFunc(x.skipped, func(text string) bool { return strings.Contains(text, c.why) })
				if len(x.failed) > 0 || (x.passed == 1 && len(x.skipped) == 0) != (c.why == "") || x.passed > 1 || c.why != "" && (x.passed > 0 || !says) {
					t.Errorf("%s: %+v, want one for %q", format, x, c.why)
				}
			}
			// Annotations and Code Quality reports show what is not known, and nothing that passes.
			for format, write := range map[string]func(io.Writer, []report.Check) error{"GitHub": ci.GitHub, "GitLab": ci.GitLab} {
				var b strings.Builder
				if err := write(&b, d.Checks()); err != nil || strings.Contains(b.String(), "not known") != (c.why != "") || !strings.Contains(b.String(), c.why) {
					t.Errorf("%s: %v, %s, want %q", format, err, b.String(), c.why)
				}
			}
		})
	}
}
