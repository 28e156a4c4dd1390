package lint

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// What is done about each finding: "set GOMAXPROCS limits.cpu, newer: remove GOMAXPROCS".
func TestRemedies(t *testing.T) {
	ref1m := ref("GOMAXPROCS", "limits.cpu", "1m")
	pinnedRef := ref("GOMAXPROCS", "limits.cpu", "1")
	for _, c := range []struct {
		name  string
		w     *workload.Workload
		known Known
		want  string
		why   string
	}{
		{"thousandths", build(limit("250m"), ref1m), Known{}, "K001 repair GOMAXPROCS 1, newer: remove GOMAXPROCS", ""},
		{"thousandths, Go 1.24", build(limit("250m"), ref1m), go124, "K001 repair GOMAXPROCS 1", ""},
		{"thousandths, Go 1.26", build(limit("250m"), ref1m), go126, "K001 remove GOMAXPROCS", ""},
		{"thousandths, ours", build(limit("250m"), ref1m), withOurs, "K001 remove GOMAXPROCS", ""},
		{"thousandths, no limit", build(ref1m), Known{}, "K001 remove GOMAXPROCS", ""},
		{"thousandths of a request", build(limit("4"), request("3500m"), ref("GOMAXPROCS", "requests.cpu", "1m")), go124, "K001 repair GOMAXPROCS 1", ""},
		{"thousandths of a small request", build(limit("4"), request("100m"), ref("GOMAXPROCS", "requests.cpu", "1m")), go124, "K001 set GOMAXPROCS limits.cpu", ""},
		{"thousandths of a request, no limit", build(request("100m"), ref("GOMAXPROCS", "requests.cpu", "1m")), go126, "K001 repair GOMAXPROCS 1", ""},
		{"hundredths", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "100m")), go126, "K001 leave", ""},
		{"hundredths, not known", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "100m")), Known{}, "K001 leave", ""},
		{"MiB", build(mem("200m", "200m"), ref("GOMEMLIMIT", "limits.memory", "1Mi")), go126, "K001 set GOMEMLIMIT 180MiB", ""},
		{"no divisor", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "")), Known{}, "K002 repair GOMAXPROCS 1", ""},
		{"no divisor, Go 1.26", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", "")), go126, "K002 remove GOMAXPROCS", ""},
		{"no divisor of memory", build(mem("200m", "200m"), ref("GOMEMLIMIT", "requests.memory", "")), go126, "K002 repair GOMEMLIMIT 1", ""},
		{"all of the memory", build(mem("256m", "256m"), ref("GOMEMLIMIT", "limits.memory", "1")), Known{}, "K015 set GOMEMLIMIT 230MiB", "no divisor makes a share"},
		{"all of the memory, VPA", build(mem("256m", "256m"), ref("GOMEMLIMIT", "limits.memory", "1"), vpa("InPlace")), Known{}, "K015 leave", "changes the memory limit"},
		{"a heap without a limit", build(mem("256m", "256m"), env("GOGC", "400")), Known{}, "K014 set GOMEMLIMIT 230MiB", ""},
		{"no limit", build(pinnedRef), Known{}, "K003 remove GOMAXPROCS", ""},
		{"another has no limit", build(container("b"), limit("3"), ref("GOMAXPROCS", "app/limits.cpu", "1")), go124, "K003 set GOMAXPROCS limits.cpu", ""},
		{"another has no limit, thousandths", build(container("b"), limit("3"), ref("GOMAXPROCS", "app/limits.cpu", "1m")), go126, "K001 remove GOMAXPROCS", ""},
		{"no limit, no image", build(image(""), pinnedRef), Known{}, "K003 leave", "may bring a limit"},
		{"pinned", build(limit("2"), procsIs("2")), Known{}, "K004 leave, newer: remove GOMAXPROCS", ""},
		{"pinned, Go 1.26", build(limit("2"), pinnedRef), go126, "K004 remove GOMAXPROCS", ""},
		{"pinned, VPA in place", build(limit("2"), pinnedRef, vpa("InPlace")), Known{}, "K004 leave, newer: remove GOMAXPROCS", ""},
		{"pinned, VPA in place, Go 1.24", build(limit("2"), pinnedRef, vpa("InPlace")), go124, "K004 leave", "restarted"},
		{"a number, VPA", build(limit("2"), procsIs("2"), vpa("Auto")), Known{}, "K004 older: set GOMAXPROCS limits.cpu, newer: remove GOMAXPROCS", ""},
		{"a number, VPA, Go 1.24", build(limit("2"), procsIs("2"), vpa("Auto")), go124, "K004 set GOMAXPROCS limits.cpu", ""},
		{"a number, VPA, half a CPU", build(limit("500m"), procsIs("2"), vpa("Auto")), go124, "K004 leave", ""},
		{"a boost, Go 1.24", build(limit("2"), pinnedRef, vpa("Off", func(v *workload.VPA) { v.Boost = true })), go124, "K004 set GOMAXPROCS 2", ""},
		{"above", build(limit("2"), procsIs("8")), Known{}, "K005 set GOMAXPROCS limits.cpu, newer: remove GOMAXPROCS", ""},
		{"above, half a CPU", build(limit("500m"), procsIs("8")), go124, "K005 set GOMAXPROCS 2", ""},
		{"above, Go 1.26", build(limit("2"), procsIs("8")), go126, "K005 remove GOMAXPROCS", ""},
		{"above, a custom resource", custom(build(limit("2"), procsIs("8"))), go124, "K005 set GOMAXPROCS 2", ""},
		{"above, a pod's limit", build(pod("3"), procsIs("8")), go124, "K005 set GOMAXPROCS limits.cpu", ""},
		{"above, by the image", build(limit("1")), inImage("8"), "K005 leave GOMAXPROCS", "the image sets GOMAXPROCS"},
		{"above, Go 1.26, the image has one", build(limit("1"), procsIs("8")), imageWith("go1.26.1", "4"), "K005 leave GOMAXPROCS", "the image sets it to 4"},
		{"above, a ConfigMap", build(limit("2"), from(workload.ConfigMap, "ConfigMap tuning, key procs", "16")), Known{}, "K005 leave GOMAXPROCS", "comes from ConfigMap tuning"},
		{"above, put together", build(limit("2"), variable(workload.Variable{Name: "GOMAXPROCS", Form: workload.Literal, Text: "$(N)", Value: "16", State: workload.Known})), Known{}, "K005 leave GOMAXPROCS", "put together"},
		{"above, an alias", shared1(build(limit("2"), procsIs("16"))), Known{}, "K005 leave GOMAXPROCS", "alias"},
		{"above, a Secret may set it", build(limit("2"), procsIs("16"), envFrom("tuning")), go126, "K005 leave GOMAXPROCS", "may set it, too"},
		{"above, referred to", build(limit("2"), procsIs("16"), command("app", "--procs=$(GOMAXPROCS)")), go126, "K005 leave GOMAXPROCS", "refers to $(GOMAXPROCS)"},
		{"above, another variable refers to it", build(limit("2"), procsIs("16"), of(func(c *workload.Container) { c.Referred = []string{"GOMAXPROCS"} })), go126, "K005 leave GOMAXPROCS", "refers to $(GOMAXPROCS)"},
		{"above, referred to, not known", build(limit("2"), procsIs("16"), command("app", "--procs=$(GOMAXPROCS)")), Known{}, "K005 leave GOMAXPROCS", "refers to $(GOMAXPROCS)"},
		{"above, another variable refers to it, not known", build(limit("2"), procsIs("16"), of(func(c *workload.Container) { c.Referred = []string{"GOMAXPROCS"} })), Known{}, "K005 leave GOMAXPROCS", "refers to $(GOMAXPROCS)"},
		{"above, another one is referred to", build(limit("2"), procsIs("16"), of(func(c *workload.Container) { c.Referred = []string{"GOGC"} })), go124, "K005 set GOMAXPROCS limits.cpu", ""},
		{"thousandths, referred to", build(limit("250m"), ref1m, command("app", "--procs=$(GOMAXPROCS)")), go124, "K001 leave GOMAXPROCS", "refers to $(GOMAXPROCS)"},
		{"no divisor, referred to", build(limit("2"), ref("GOMAXPROCS", "limits.cpu", ""), command("app", "--procs=$(GOMAXPROCS)")), Known{}, "K002 repair GOMAXPROCS 1", ""},
		{"all of the memory, referred to", build(mem("256m", "256m"), ref("GOMEMLIMIT", "limits.memory", "1"), command("app", "--memory=$(GOMEMLIMIT)")), Known{}, "K015 leave GOMEMLIMIT", "refers to $(GOMEMLIMIT)"},
		{"above, a part of env is a template", build(limit("2"), procsIs("16"), of(func(c *workload.Container) { c.EnvUnknown = "a template" })), go126, "K005 leave GOMAXPROCS", "a template"},
		{"500m", build(limit("500m"), procsIs("500m")), Known{}, "K006 set GOMAXPROCS 2, newer: remove GOMAXPROCS", ""},
		{"500m, and GODEBUG is off", build(limit("2"), procsIs("500m"), env("GODEBUG", "containermaxprocs=0")), go126, "K006 remove GOMAXPROCS; K008 remove GODEBUG", ""},
		{"500m, no limit", build(procsIs("500m")), go124, "K006 remove GOMAXPROCS", ""},
		{"auto", build(limit("2"), procsIs("auto")), Known{}, "K006 remove GOMAXPROCS", ""},
		{"auto, Go 1.24", build(limit("2"), procsIs("auto")), go124, "K006 set GOMAXPROCS limits.cpu", ""},
		{"empty for automaxprocs", build(limit("2"), procsIs("")), withAuto, "K006 remove GOMAXPROCS", "automaxprocs"},
		{"below", build(limit("3"), procsIs("1")), Known{}, "K007 set GOMAXPROCS limits.cpu, newer: remove GOMAXPROCS", ""},
		{"below, from a request", build(limit("4"), request("500m"), ref("GOMAXPROCS", "requests.cpu", "1")), go124, "K007 set GOMAXPROCS limits.cpu", ""},
		{"off", build(limit("2"), env("GODEBUG", "containermaxprocs=0")), Known{}, "K008 remove GODEBUG", ""},
		{"off, and more", build(limit("2"), env("GODEBUG", "http2client=0,containermaxprocs=0,updatemaxprocs=0,x=1")), Known{}, "K008 set GODEBUG http2client=0,x=1", ""},
		{"updates off", build(limit("2"), env("GODEBUG", "updatemaxprocs=0,x=1")), Known{}, "K008 set GODEBUG x=1", ""},
		{"one limit for several", build(pod("2"), container("b")), Known{}, "K009 leave", ""},
		{"no limit, Go", build(request("500m")), go126, "K010 leave", ""},
		{"another's limit", build(limit("8"), container("b"), limit("1"), ref("GOMAXPROCS", "app/limits.cpu", "1")), go124, "K013 set GOMAXPROCS limits.cpu, rebuild; K011 set GOMAXPROCS 2", ""},
		{"another's limit, 3", build(limit("8"), container("b"), limit("3"), ref("GOMAXPROCS", "app/limits.cpu", "1")), go124, "K013 set GOMAXPROCS limits.cpu, rebuild; K011 set GOMAXPROCS limits.cpu", ""},
		{"nobody's limit", build(limit("2"), ref("GOMAXPROCS", "ap/limits.cpu", "1")), go126, "K011 leave", ""},
		{"a command", build(limit("2"), command("sh", "-c", "GOMAXPROCS=$(nproc) exec app")), go126, "K011 leave", ""},
		{"CPUs of its own", build(limit("2"), mem("1g", "1g"), procsIs("2")), Known{}, "K012 nodes: remove GOMAXPROCS; K016 leave", ""},
		{"CPUs of its own, Go 1.26", build(limit("2"), mem("1g", "1g"), procsIs("2")), go126, "K012 remove GOMAXPROCS; K016 leave", ""},
		{"not read", build(limit("3")), go124, "K013 set GOMAXPROCS limits.cpu, rebuild", ""},
		{"not read, half a CPU", build(limit("500m")), oldLine, "K013 set GOMAXPROCS 2, rebuild", ""},

		{"--go 1.25", build(limit("2"), pinnedRef), withGo(t, "1.25"), "K004 remove GOMAXPROCS", ""},
		{"--go 1.24", build(limit("2"), pinnedRef), withGo(t, "1.24"), "", ""},
		{"--go 1.24, and nobody says that it is Go", build(limit("2")), withGo(t, "1.24"), "", ""},
		{"--go 1.24, and it is Go", build(limit("2"), env("GOGC", "50")), withGo(t, "go1.24.3"), "K013 set GOMAXPROCS limits.cpu, rebuild", "by --go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, why []string
			for _, f := range findings(t, c.w, c.known) {
				var texts []string
				for _, r := range f.Remedies {
					texts = append(texts, inShort(r))
					why = append(why, r.Why)
				}
				got = append(got, f.Rule+" "+strings.Join(texts, ", "))
				why = append(why, f.Evidence...)
				sound(t, f)
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s\n%q", text, c.want, why)
			}
			if !strings.Contains(strings.Join(why, "\n"), c.why) {
				t.Errorf("%q is not in %q", c.why, why)
			}
		})
	}
}

func inShort(r remedy.Remedy) string {
	text := strings.Join(strings.Fields(string(r.Action)+" "+r.Variable+" "+r.Value+" "+r.Resource), " ")
	switch r.Only {
	case "":
		return text
	case newer:
		return "newer: " + text
	case older:
		return "older: " + text
	}
	return "nodes: " + text
}

func custom(w *workload.Workload) *workload.Workload {
	w.APIVersion, w.Kind = "serving.knative.dev/v1", "Service"
	return w
}

func shared1(w *workload.Workload) *workload.Workload {
	c := last(w)
	c.Env[len(c.Env)-1].At.Shared = true
	return w
}

func imageWith(version, procs string) Known {
	k := program(version, nil)
	b := k.Binaries.Of(&workload.Workload{}, &workload.Container{})
	b.Env = []binary.Variable{{Name: "GOMAXPROCS", Value: procs}}
	return Known{Binaries: set(b)}
}

func withGo(t *testing.T, version string) Known {
	t.Helper()
	p, err := ParseGo(version)
	if err != nil {
		t.Fatal(err)
	}
	return Known{Go: p}
}

func TestParseGo(t *testing.T) {
	for _, text := range []string{"1.25", "go1.25", "1.25.3", "go1.9"} {
		if p, err := ParseGo(text); err != nil || p.Minor() == 0 {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "2", "1", "1.", "1.25rc1", "v1.25", "1.25.3.4", "gogo1.25"} {
		if p, err := ParseGo(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
}
