package lint

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// ignored finds a value that Go ignores without a word: it takes a whole number above 0 alone.
func ignored(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || s.State != workload.Known || s.Valid() {
		return nil
	}
	automaxprocs := f.b.Go() && f.b.Program.Automaxprocs >= procs.Linked && f.b.Program.Unthrottle < procs.Linked
	if (s.Value == "" || s.Value == "0" && s.Target == nil) && !automaxprocs {
		return nil // a way to say that it is not set
	}
	n := f.about(finding.Info, f.cleared(automaxprocs), "GOMAXPROCS is %q, which Go ignores", s.Value)
	if s.Target != nil {
		n.Summary = "GOMAXPROCS is 0, which Go ignores: there is no CPU request"
	}
	n = n.saying("%s; only a whole number from 1 on counts, and no error appears", f.source())
	if strings.ContainsAny(s.Value, "123456789") || automaxprocs {
		n.Severity = finding.Warning // a user wanted a number, or automaxprocs
	}
	if automaxprocs {
		n = n.saying("automaxprocs, which the program contains, does nothing where GOMAXPROCS is set to any text")
	}
	if f.limit.State == workload.Known {
		n = n.saying("Go 1.25 and later takes %d here, from %s; an older Go takes the node's CPUs", f.right(), f.limit)
	}
	return one(n)
}

// cleared is the fix: a number where a user wanted one, or the program needs one, and the limit says which; otherwise nothing is
// lost without it.
func (f *facts) cleared(automaxprocs bool) fix {
	does, known := f.itself()
	const text = "set it to a whole number above 0"
	switch {
	case automaxprocs:
		return remove("take GOMAXPROCS out: the program contains automaxprocs", "automaxprocs reads the limit where GOMAXPROCS is not set")
	case f.b.Go() && len(switchedOff(f)) > 0:
		return remove("take GOMAXPROCS out, or "+text, "Go ignores the value, and it is GODEBUG that keeps the program from following its limit")
	case f.limit.State == workload.Known && (strings.ContainsAny(f.procs.Value, "123456789") || known && !does):
		return f.takeOut(f.fitting())
	}
	return remove("take GOMAXPROCS out, or "+text, "Go ignores the value, so this only removes what misleads")
}
