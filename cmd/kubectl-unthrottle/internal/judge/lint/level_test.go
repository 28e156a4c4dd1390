package lint

import (
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// TestLevels: a project says how severe a rule's findings are, or that it does not want them.
func TestLevels(t *testing.T) {
	info, critical := finding.Info, finding.Critical
	pinned := func(role workload.Role) *workload.Workload {
		return build(container("a"), of(func(c *workload.Container) { c.Role = role }), limit("2"), procsIs("16"))
	}
	for _, c := range []struct {
		name   string
		w      *workload.Workload
		levels Levels
		want   []string
	}{
		{"as it is", pinned(workload.Main), nil, []string{"K005 warning"}},
		{"another rule", pinned(workload.Main), Levels{"K001": nil}, []string{"K005 warning"}},
		{"less", pinned(workload.Main), Levels{"K005": &info}, []string{"K005 info"}},
		{"more", pinned(workload.Main), Levels{"K005": &critical}, []string{"K005 critical"}},
		{"the next about the variable is told, where the first is off", pinned(workload.Main), Levels{"K005": nil}, []string{"K004 info"}},
		{"both", pinned(workload.Main), Levels{"K005": nil, "K004": nil}, nil},
		{"the more severe is told", pinned(workload.Main), Levels{"K004": &critical}, []string{"K004 critical"}},
		{"what is over before the others start stays a note", pinned(workload.Init), Levels{"K005": &critical}, []string{"K005 info"}},
		{"a comment about a rule that is off", build(container("a"), limit("2"), procsIs("16"), ignore(0, 1000, "K005")), Levels{"K005": nil}, []string{"K004 info"}},
		{"comments", build(container("a"), limit("2"), ignore(0, 1000, "K005")), nil, []string{"K000 info"}},
		{"comments, off", build(container("a"), limit("2"), ignore(0, 1000, "K005")), Levels{"K000": nil}, nil},
		{"comments, more", build(container("a"), limit("2"), ignore(0, 1000, "K005")), Levels{"K000": &critical}, []string{"K000 critical"}},
	} {
		var got []string
		for _, f := range findings(t, c.w, Known{Levels: c.levels}) {
			got = append(got, f.Rule+" "+f.Severity.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
