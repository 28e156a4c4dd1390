package audit

import (
	"regexp"
	"slices"
	"strings"
)

// In says which context of a kubeconfig leads to the workloads' cluster, where there are several: their names say so, and their commands
// go there.
func (r *Result) In(context string) {
	name := context
	if !bare.MatchString(name) {
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	for _, w := range r.Workloads {
		w.Context = context
		if w.Fix != nil {
			if rest, ok := strings.CutPrefix(w.Fix.Command, "kubectl "); ok {
				w.Fix.Command = "kubectl --context " + name + " " + rest
			}
		}
	}
}

// bare are names that a shell takes unquoted.
var bare = regexp.MustCompile(`^[A-Za-z0-9._/@:][-A-Za-z0-9._/@:]*$`)

// Together are the results of several clusters as one.
func Together(all []*Result, o Options) *Result {
	r := &Result{Workloads: []*Workload{}}
	for _, one := range all {
		r.Workloads = append(r.Workloads, one.Workloads...)
	}
	slices.SortStableFunc(r.Workloads, worth)
	r.Totals = totals(r.Workloads, o)
	return r
}
