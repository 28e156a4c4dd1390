package lint

import (
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// switchedOff finds a GODEBUG that makes Go 1.25 and later ignore the limit, or its changes. Where GOMAXPROCS is set, neither
// setting does anything.
func switchedOff(f *facts) []Finding {
	if f.isGo == other || f.c.Role == workload.Init || f.limit.State != workload.Known ||
		f.procs.State == workload.Unknown || f.procs.Valid() {
		return nil
	}
	if f.b.Go() && (f.b.Program.Minor() < 25 || f.b.Program.Unthrottle >= procs.Linked) {
		return nil
	}
	name := f.off()
	if name == "" {
		return nil
	}
	n := Finding{Variable: "GODEBUG", At: f.c.At}
	if v, ok := f.c.Var("GODEBUG"); ok {
		n.At = v.At
	}
	n.fixed(f.switchedOn(name))
	if name == "containermaxprocs" {
		n.Severity = finding.Warning
		n.Summary = "GODEBUG makes Go ignore the CPU limit: GOMAXPROCS is the node's CPUs"
		n = n.saying("containermaxprocs=0, under %s", f.limit).saying("Go 1.25 and later would take %d here", f.right())
		for _, node := range f.nodes {
			n = n.saying("%d on a node of %d CPUs", node, node)
		}
		return one(n)
	}
	n.Severity = finding.Info
	n.Summary = "GODEBUG makes Go keep the GOMAXPROCS that it starts with"
	n = n.saying("updatemaxprocs=0, under %s", f.limit)
	if f.resize.inPlace {
		n.Severity = finding.Warning
		n = n.saying("%s", f.resize.by)
	}
	return one(n)
}

// off is the setting that the environment switches off, "" for none.
func (f *facts) off() string {
	text, ok := forecast.GODEBUG(f.c, f.b)
	if !ok {
		return ""
	}
	env := map[string]string{"GODEBUG": text}
	p := f.b.Program
	if p == nil {
		p = &procs.Program{GoVersion: "go1.26"} // some program that knows the settings
	}
	for _, name := range []string{"containermaxprocs", "updatemaxprocs"} {
		if p.Setting(name, nil).On && !p.Setting(name, env).On {
			return name
		}
	}
	return ""
}

// switchedOn is the fix: GODEBUG without the setting. If Go should follow the limit, it should follow its changes, too.
func (f *facts) switchedOn(name string) fix {
	names := []string{name}
	text, _ := forecast.GODEBUG(f.c, f.b)
	if name == "containermaxprocs" && procs.ParseGODEBUG(text)["updatemaxprocs"] == "0" {
		names = append(names, "updatemaxprocs")
	}
	var rest []string
	for setting := range strings.SplitSeq(text, ",") {
		if key, _, _ := strings.Cut(setting, "="); !slices.Contains(names, key) && setting != "" {
			rest = append(rest, setting)
		}
	}
	c := fix{text: "take " + strings.Join(names, "=0 and ") + "=0 out of GODEBUG"}
	r := remedy.Remedy{Action: remedy.Set, Variable: "GODEBUG", Value: strings.Join(rest, ","), Why: "Go reads the limit without it, and an older Go does not know it"}
	if len(rest) == 0 {
		r.Action = remedy.Remove
	}
	c.remedies = append(c.remedies, r)
	return c
}
