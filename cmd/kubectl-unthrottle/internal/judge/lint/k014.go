package lint

import "github.com/unthrottle/unthrottle/cmd/internal/ground/finding"

// heapBet finds a GOGC above 100 without a GOMEMLIMIT: the heap grows by that factor, regardless of the memory limit.
func heapBet(f *facts) []Finding {
	gogc, grows := f.grows()
	if !f.bounded() || !grows || !f.noGOMEMLIMIT() {
		return nil
	}
	n := Finding{Variable: "GOGC", At: f.atVariable("GOGC")}
	n.Severity = finding.Warning
	n.Summary = "GOGC is " + gogc + " and there is no GOMEMLIMIT, under a memory limit of " + f.c.Memory.Text
	n.fixed(f.withHeadroom())
	return one(n.saying("GOGC lets the heap grow by a share of what is alive, also beyond the limit, where the kernel kills the program").
		saying("with GOMEMLIMIT the collector runs earlier where it has to; a small heap pays nothing for it"))
}
