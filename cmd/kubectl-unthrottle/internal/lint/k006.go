package lint

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
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
	n := f.about(finding.Info, f.takeOut("set it to a whole number above 0"), "GOMAXPROCS is %q, which Go ignores", s.Value)
	if s.Target != nil {
		n.Summary = "GOMAXPROCS is 0, which Go ignores: there is no CPU request"
	}
	n = n.saying("%s; only a whole number from 1 on counts, and no error appears", f.source())
	if strings.ContainsAny(s.Value, "123456789") || automaxprocs {
		n.Severity = finding.Warning // somebody wanted a number, or automaxprocs
	}
	if automaxprocs {
		n = n.saying("automaxprocs, which the program contains, does nothing where GOMAXPROCS is set to any text")
	}
	if f.limit.State == workload.Known {
		n = n.saying("Go 1.25 and later takes %d here, from %s; an older Go takes the node's CPUs", f.right(), f.limit)
	}
	return one(n)
}
