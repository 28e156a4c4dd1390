package lint

import (
	"context"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A part changes a workload that is being made; the container that it means is the last one.
type part func(*workload.Workload)

// build makes a Deployment with one container, app, of these parts.
func build(parts ...part) *workload.Workload {
	w := &workload.Workload{Kind: "Deployment", Name: "api", At: at(1)}
	container("app")(w)
	for _, p := range parts {
		p(w)
	}
	return w
}

func at(line int) workload.Position { return workload.Position{File: "a.yaml", Line: line, Column: 1} }

func last(w *workload.Workload) *workload.Container {
	return &w.Pod.Containers[len(w.Pod.Containers)-1]
}

// line is where the next thing is: container 0 from 100, its variables from 110, container 1 from 200.
func line(w *workload.Workload) int { return 100*len(w.Pod.Containers) + 10 + len(last(w).Env) }

func cpus(text string) workload.Amount {
	if text == "?" {
		return workload.Amount{State: workload.Unknown, Text: "{{ .Values.cpu }}", Unknown: "a template"}
	}
	if text == "0" {
		return workload.Amount{State: workload.Known, Text: text}
	}
	v, err := quantity.ParseCPUs(text)
	if err != nil {
		panic(err)
	}
	return workload.Amount{State: workload.Known, Value: v, Text: text}
}

func memory(text string) workload.Amount {
	if text == "?" {
		return cpus(text)
	}
	v, err := quantity.ParseBytes(text)
	if err != nil {
		panic(err)
	}
	return workload.Amount{State: workload.Known, Value: float64(v), Text: text}
}

func container(name string) part {
	return func(w *workload.Workload) {
		n := 100 * (len(w.Pod.Containers) + 1)
		w.Pod.Containers = append(w.Pod.Containers, workload.Container{Name: name, Image: "example.com/" + name, Role: workload.Main, At: at(n)})
	}
}

// of changes the last container.
func of(change func(*workload.Container)) part { return func(w *workload.Workload) { change(last(w)) } }

func limit(text string) part {
	return of(func(c *workload.Container) {
		if c.Limit = cpus(text); c.Request.State == workload.Absent {
			c.Request = c.Limit
		}
	})
}
func request(text string) part { return of(func(c *workload.Container) { c.Request = cpus(text) }) }
func image(name string) part   { return of(func(c *workload.Container) { c.Image = name }) }
func role(r workload.Role) part {
	return of(func(c *workload.Container) { c.Role = r })
}

func mem(limit, request string) part {
	return of(func(c *workload.Container) { c.Memory, c.MemoryRequest = memory(limit), memory(request) })
}

func resize(r workload.Resize) part {
	return of(func(c *workload.Container) { c.Resize, c.ResizeAt = r, at(1) })
}

func command(words ...string) part { return of(func(c *workload.Container) { c.Command = words }) }

func variable(v workload.Variable) part {
	return func(w *workload.Workload) {
		v.At = at(line(w))
		last(w).Env = append(last(w).Env, v)
	}
}

func env(name, value string) part {
	return variable(workload.Variable{Name: name, Form: workload.Literal, Text: value, Value: value, State: workload.Known})
}

func procsIs(value string) part { return env("GOMAXPROCS", value) }

// ref is a variable from a resource of the container, or "container/resource".
func ref(name, resource, divisor string) part {
	from, res, ok := strings.Cut(resource, "/")
	if !ok {
		from, res = "", resource
	}
	return variable(workload.Variable{
		Name: name, Form: workload.ResourceRef, Text: res, Resource: res, Container: from, Divisor: divisor, State: workload.Unknown,
	})
}

func from(form workload.Form, text, value string) part {
	v := workload.Variable{Name: "GOMAXPROCS", Form: form, Text: text, Value: value, State: workload.Known}
	if value == "?" {
		v.Value, v.State = "", workload.Unknown
	}
	return variable(v)
}

func pod(limit string) part {
	return func(w *workload.Workload) { w.Pod.Limit, w.Pod.LimitAt = cpus(limit), at(50) }
}

func around(change func(*workload.Around)) part {
	return func(w *workload.Workload) { change(&w.Around) }
}

func vpa(mode string, change ...func(*workload.VPA)) part {
	return around(func(a *workload.Around) {
		a.VPA = &workload.VPA{Name: "api", Mode: mode, LimitsToo: true}
		for _, c := range change {
			c(a.VPA)
		}
	})
}

// advice is a CPU limit that is recommended; "": none.
func advice(by, limit string, does bool) part {
	return of(func(c *workload.Container) {
		a := workload.Advice{By: by, How: "by what it used", Does: does}
		if limit != "" {
			a.Limit = cpus(limit)
		}
		c.Advice = append(c.Advice, a)
	})
}

func advisedWith(request, limit string) part {
	return of(func(c *workload.Container) {
		c.Advice = append(c.Advice, workload.Advice{By: "KRR", Limit: cpus(limit), Request: cpus(request)})
	})
}

func ignore(from, to int, rules ...string) part {
	return func(w *workload.Workload) {
		w.Ignore = append(w.Ignore, workload.Ignore{Rules: rules, At: at(from), From: from, To: to})
	}
}

// The programs that the tests know.
var (
	go124    = program("go1.24.3", nil)
	go125    = program("go1.25.1", nil)
	go126    = program("go1.26.8", nil)
	oldLine  = program("go1.26.8", map[string]string{"containermaxprocs": "0", "updatemaxprocs": "0"})
	withAuto = library(&procs.Program{GoVersion: "go1.24.3", Automaxprocs: procs.Imported})
	withOurs = library(&procs.Program{GoVersion: "go1.24.3", Unthrottle: procs.Imported})
	notGo    = Known{Binaries: set(binary.Binary{Known: true, From: "/app"})}
)

func set(b binary.Binary) *binary.Set {
	s := new(binary.Set)
	s.All(b)
	return s
}

func program(version string, defaults map[string]string) Known {
	return library(&procs.Program{GoVersion: version, Defaults: defaults})
}

func library(p *procs.Program) Known {
	return Known{Binaries: set(binary.Binary{Known: true, Program: p, From: "/app"})}
}

func on(k Known, nodes ...int) Known {
	k.Nodes = nodes
	return k
}

// findings are what the rules say about a workload.
func findings(t testing.TB, w *workload.Workload, known Known) []Finding {
	t.Helper()
	found, err := Check(context.Background(), w, known)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
