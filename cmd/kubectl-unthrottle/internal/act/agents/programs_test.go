package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const sha = "sha256:9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"

// A seen is a process in a container, in a few words.
type seen struct {
	owner, container, image string // shop/Deployment/api, app, api:1
	digest                  string
	version, line           string
	cpu                     float64
	change                  func(*result.AgentProcess)
}

// of is a document of one agent.
func of(all ...seen) *result.Agent {
	doc := &result.Agent{Header: report.Header{Version: report.Version, Verb: "agent"}, Node: "node1", Processes: []result.AgentProcess{}}
	for i, s := range all {
		p := result.AgentProcess{SetBy: result.FromDefault}
		p.PID, p.CPU = i+1, &s.cpu
		built := ""
		if s.line == "1.24" {
			built = "0"
		}
		p.Go = &report.Go{
			Version: s.version, GoLine: s.line, Automaxprocs: "no", Unthrottle: "no",
			Containermaxprocs: report.Setting{Built: built}, Updatemaxprocs: report.Setting{Built: built},
		}
		if owner := strings.Split(s.owner, "/"); len(owner) == 3 {
			p.Container = &result.AgentContainer{
				Namespace: owner[0], OwnerKind: owner[1], Owner: owner[2], Name: s.container, Image: s.image, Digest: s.digest, ID: s.owner + s.container,
			}
		}
		if s.change != nil {
			s.change(&p)
		}
		doc.Processes = append(doc.Processes, p)
	}
	return doc
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func readPrograms(t testing.TB, text string) *binary.Set {
	t.Helper()
	set := new(binary.Set)
	if err := ReadPrograms(strings.NewReader(text), set); err != nil {
		t.Fatal(err)
	}
	return set
}

// what is known about a program, in a few words.
func what(b binary.Binary) string {
	if b.Unknown != "" {
		return b.Unknown
	}
	return b.From + " is " + b.String()
}

// TestOf: a container is found by its workload, by its image, and by another build of it.
func TestOf(t *testing.T) {
	api := seen{owner: "shop/Deployment/api", container: "app", image: "registry.example.com/api:1", digest: sha, version: "go1.26.1", line: "1.24", cpu: 1}
	other := api
	other.owner, other.version, other.line = "far/StatefulSet/db", "go1.26.1", "1.26 or later"
	same := other
	same.version, same.line = api.version, api.line
	small, more := other, api
	small.owner, small.cpu = api.owner, 0.5
	old := other
	old.owner, old.image, old.digest = "staging/Deployment/api", "registry.example.com/api:0", ""
	for _, c := range []struct {
		name             string
		seen             []seen
		namespace, owner string // of the manifest: Deployment/api
		image            string
		want             string
	}{
		{"the same", []seen{api}, "shop", "Deployment/api", api.image, "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"no namespace", []seen{api}, "", "Deployment/api", api.image, "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"its digest", []seen{api}, "shop", "Deployment/api", "registry.example.com/api@" + sha, "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"the same of two", []seen{other, api}, "shop", "Deployment/api", api.image, "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"the main one of its container", []seen{small, more}, "shop", "Deployment/api", api.image, "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"another workload of the image", []seen{api}, "far", "CronJob/x", api.image, "the program that image registry.example.com/api:1 runs in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"several of the image", []seen{api, same}, "far", "CronJob/x", api.image, "the program that image registry.example.com/api:1 runs in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"several that differ", []seen{api, other}, "far", "CronJob/x", api.image, "different programs were seen in container app of Deployment/api in shop and container app of StatefulSet/db in far"},
		{"another build", []seen{api}, "shop", "Deployment/api", "registry.example.com/api:2", "the program in container app of Deployment/api in shop, which was of image registry.example.com/api:1, is built with Go 1.26.1, go line 1.24"},
		{"another build of several", []seen{api, old}, "", "Deployment/api", "registry.example.com/api:2", "different programs were seen in container app of Deployment/api in shop and container app of Deployment/api in staging"},
		{"this build of several", []seen{old, api}, "", "Deployment/api", "registry.example.com/api:1", "the program in container app of Deployment/api in shop is built with Go 1.26.1, go line 1.24"},
		{"another image", []seen{api}, "shop", "Deployment/api", "registry.example.com/web:1", " is not known"},
		{"another workload and build", []seen{api}, "far", "CronJob/x", "registry.example.com/api:2", " is not known"},
	} {
		w := &workload.Workload{Namespace: c.namespace}
		w.Kind, w.Name, _ = strings.Cut(c.owner, "/")
		container := &workload.Container{Name: "app", Image: c.image}
		set := readPrograms(t, text(t, of(c.seen...)))
		if got := what(set.Of(w, container)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		live := &workload.Workload{Namespace: c.namespace, Kind: "Pod", Name: "x", Owner: c.owner}
		if got := what(set.Of(live, container)); got != c.want {
			t.Errorf("%s, live: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFacts: what an agent writes down about a program is what is known about it, libraries and settings among them.
func TestFacts(t *testing.T) {
	four := "4"
	set := readPrograms(t, text(t, of(
		seen{owner: "a/Deployment/a", container: "app", version: "go1.26.1", line: "1.24", change: func(p *result.AgentProcess) {
			p.Go.Automaxprocs, p.Go.Unthrottle = "blank import", "linked"
			p.Go.Containermaxprocs.Built, p.Go.Updatemaxprocs.Built = "0", "" // by a go:debug line
			p.SetBy, p.Go.GOMAXPROCS = result.FromImageOrRuntime, &four
		}},
		seen{owner: "a/Deployment/b", container: "app", version: "go1.26.1", line: "1.26 or later", change: func(p *result.AgentProcess) {
			p.SetBy, p.Go.GOMAXPROCS = result.FromSpec, &four // that the manifest says itself
		}},
		seen{owner: "", version: "go1.26.1"},
		seen{owner: "a/Deployment/c", container: "app", change: func(p *result.AgentProcess) { p.Go = nil }},
	)))
	known := func(name string) binary.Binary {
		return set.Of(&workload.Workload{Namespace: "a", Kind: "Deployment", Name: name}, &workload.Container{Name: "app"})
	}
	a, b := known("a"), known("b")
	if p := a.Program; p.Automaxprocs != procs.Imported || p.Unthrottle != procs.Linked || p.Setting("containermaxprocs", nil).On || !p.Setting("updatemaxprocs", nil).On {
		t.Errorf("%+v", p)
	}
	if v, _ := a.Var("GOMAXPROCS"); v != "4" {
		t.Errorf("%+v", a.Env)
	}
	if b.Program.Automaxprocs != procs.NotLinked || !b.Program.Setting("containermaxprocs", nil).On || b.Env != nil {
		t.Errorf("%+v", b)
	}
	if c := known("c"); c.Known {
		t.Errorf("%+v", c)
	}
}

// TestReal: a program that is known by a document is judged as by its file.
func TestReal(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := binary.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ps := report.NewPs(host.Result{Processes: []host.Process{{Process: procs.Process{PID: 7, Program: file.Program}, Version: file.Program.GoVersion}}})
	doc := of(seen{owner: "a/Deployment/a", container: "app"})
	doc.Processes[0].PsProcess = ps.Processes[0]
	got := readPrograms(t, text(t, doc)).Of(&workload.Workload{Kind: "Deployment", Name: "a"}, &workload.Container{Name: "app"})
	want := file.Program
	if p := got.Program; p.GoVersion != want.GoVersion || p.GoLine() != want.GoLine() || p.Path != want.Path || p.Module != want.Module ||
		p.Automaxprocs != want.Automaxprocs || p.Unthrottle != want.Unthrottle || got.String() != file.String() {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, name := range []string{"containermaxprocs", "updatemaxprocs"} {
		if got.Program.Setting(name, nil) != want.Setting(name, nil) {
			t.Errorf("%s: %+v, want %+v", name, got.Program.Setting(name, nil), want.Setting(name, nil))
		}
	}
}

// TestForms: one document, several one after the other, or a list; anything else is refused with what to do.
func TestForms(t *testing.T) {
	one := text(t, of(seen{owner: "a/Deployment/a", container: "app", image: "a", version: "go1.26.1"}))
	two := text(t, of(seen{owner: "a/Deployment/b", container: "app", image: "b", version: "go1.26.1"}))
	none := text(t, of())
	for form, want := range map[string]int{
		one: 1, one + "\n" + two: 2, "[" + one + "," + two + "]": 2, " \n[\n" + two + "]\n": 1, none + one: 1, "[" + none + "," + one + "]": 1,
	} {
		set, found := readPrograms(t, form), 0
		for _, name := range []string{"a", "b"} {
			if set.Of(&workload.Workload{Kind: "Deployment", Name: name}, &workload.Container{Name: "app", Image: name}).Known {
				found++
			}
		}
		if found != want {
			t.Errorf("%.40q: %d workloads, want %d", form, found, want)
		}
	}
	dir := t.TempDir()
	for form, want := range map[string]string{
		"":                                 "empty: EOF",
		"<html>":                           "not an agent's answer",
		"{}":                               "no version",
		"[]":                               "none of its processes is a Go program in a container",
		none:                               "none of its processes is a Go program in a container",
		one + "]":                          "not an agent's answer",
		one + "{":                          "not an agent's answer",
		"[" + one:                          "not an agent's answer",
		"7":                                "not an agent's answer",
		`{"version":3,"verb":"agent"}`:     "version 3, and this command reads version 2",
		`{"version":2,"verb":"ps"}`:        "a document of unthrottle ps, which does not know",
		`{"version":2,"verb":"lint"}`:      "a document of lint, not of an agent",
		`{"version":2,"processes":"none"}`: "not an agent's answer",
		strings.ReplaceAll(one, `"pid":1`, `"pid":"1"`): "not an agent's answer",
	} {
		file := filepath.Join(dir, "agents.json")
		if err := os.WriteFile(file, []byte(form), 0o600); err != nil {
			t.Fatal(err)
		}
		err := ReadProgramsFile(t.Context(), file, new(binary.Set))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) || !slices.Contains(hint.Of(err), howToGet) {
			t.Errorf("%.60q: %v (%q), want %q", form, err, hint.Of(err), want)
		}
	}
	if err := ReadProgramsFile(t.Context(), filepath.Join(dir, "none"), new(binary.Set)); err == nil || len(hint.Of(err)) == 0 {
		t.Error(err)
	}
}

// FuzzRead: whatever is in a file, it is read or refused.
func FuzzRead(f *testing.F) {
	one := text(f, of(seen{owner: "a/Deployment/a", container: "app", image: "a@" + sha, version: "go1.26.1", line: "1.24"}))
	f.Add([]byte(one))
	f.Add([]byte("[" + one + "," + one + "]"))
	f.Add([]byte(`{"version":2,"verb":"agent","processes":[{"container":{"image":"@@"},"go":{"go_version":"go1.","go_line":"1.-9"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set := new(binary.Set)
		if ReadPrograms(bytes.NewReader(data), set) == nil {
			b := set.Of(&workload.Workload{Kind: "Deployment", Name: "a"}, &workload.Container{Name: "app", Image: "a"})
			_ = fmt.Sprint(what(b), b.Known && b.Program == nil)
		}
	})
}
