package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A table is a source of containers, by ID.
type table map[string]pods.Container

func (x table) Container(ref podpath.Ref) (pods.Container, bool) {
	c, ok := x[ref.Container]
	return c, ok
}

func (x table) Err() error { return nil }

// TestNamed: the caller names the containers of an agent that can't, and finds what follows from their pods' specs.
func TestNamed(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(name string, s pods.Setting, more ...func(*pods.Container)) pods.Container {
		c := pods.Container{Namespace: "shop", Pod: "api", UID: "uid", Name: name, Limit: 2, Spec: s}
		for _, change := range more {
			change(&c)
		}
		return c
	}
	literal := pods.Setting{Set: true, Form: pods.Literal, Value: "1"}
	known := table{
		"spec":    of("spec", literal),
		"other":   of("other", pods.Setting{Set: true, Form: pods.Literal, Value: "4"}),
		"baked":   of("baked", pods.Setting{}),
		"env":     of("env", pods.Setting{Form: pods.EnvFrom}),
		"resized": of("resized", literal, func(c *pods.Container) { c.Resized = began.Add(time.Hour) }),
		"early":   of("early", literal, func(c *pods.Container) { c.Resized = began.Add(time.Second) }),
		"limit":   of("limit", pods.Setting{Set: true, Form: pods.Limits}),
		"muted":   of("muted", literal, func(c *pods.Container) { c.Resized, c.Muted = began.Add(time.Hour), []string{"stale", "throttled"} }),
	}
	d := result.Agent{Node: "node-1", Looked: 100, Problems: []string{}, Seconds: 2}
	d.Version = report.Version
	for _, id := range []string{"spec", "other", "baked", "env", "resized", "early", "limit", "muted", "unknown"} {
		p := result.AgentProcess{Container: &result.AgentContainer{UID: "uid", ID: id}, SetBy: result.FromEnvironment, Started: began.Format(time.RFC3339)}
		p.PID, p.GoVersion, p.CPUs = 1, "go1.26.0", 8
		p.GOMAXPROCS.Value, p.GOMAXPROCS.Source = new(1), "environment"
		p.Limit.State, p.Limit.CPUs = "limited", new(2.0)
		p.Levels = []result.AgentLevel{{Level: podpath.Container, Limit: new(2.0)}}
		if id == "muted" {
			p.Findings = []finding.Finding{{Rule: "throttled", Severity: finding.Warning}}
		}
		d.Processes = append(d.Processes, p)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	closed := false
	Read(t.Context(), nil, []Agent{{Node: "node-1", Ready: true}}, Options{
		Ask: func(context.Context, Agent) (io.ReadCloser, error) {
			return closer{strings.NewReader(string(text)), &closed}, nil
		},
		Pods: func(_ context.Context, node string) (pods.Source, error) { return known, nil },
	}, func(_ string, p audit.Program) audit.Outcome {
		var rules []string
		for _, f := range p.Findings {
			rules = append(rules, f.Rule+" "+f.Severity.String())
		}
		got[p.Container] = fmt.Sprint(p.SetBy, rules)
		return audit.Taken
	}, func(x *Answer) {
		if x.Err != nil || x.Programs != 9 || !x.Trusted() {
			t.Errorf("%+v", x)
		}
	})
	for name, want := range map[string]string{
		"spec": "spec[]", "other": "image-or-runtime[]", "baked": "image-or-runtime[]", "env": "environment[]", "resized": "spec[stale warning]", "early": "spec[]",
		"limit": "spec[stale warning]", "muted": "spec[]", "": "environment[]",
	} {
		if got[name] != want {
			t.Errorf("%q: %s, want %s", name, got[name], want)
		}
	}
	if !closed {
		t.Error("what was asked was not closed")
	}
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error { *c.closed = true; return nil }
