package choice

import (
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

func TestAlone(t *testing.T) {
	half := cgroup.Quota{QuotaMicros: 50_000, PeriodMicros: 100_000}
	own := Under(0.5, 8, unthrottle.Go)
	above := own
	above.Inside.Levels = []cgroup.Level{{Dir: "/p/c"}, {Dir: "/p", Quota: half}}
	hidden := above
	hidden.Inside = cgroup.Limits{State: cgroup.None, Affinity: 8, Levels: []cgroup.Level{{Dir: "/"}}}
	none := Under(0, 8, unthrottle.Go)
	for _, c := range []struct {
		name    string
		system  System
		program *procs.Program
		env     map[string]string
		want    Alone
	}{
		{"Go 1.26", own, &procs.Program{GoVersion: "go1.26.0"}, nil, Follows},
		{"without a limit", none, &procs.Program{GoVersion: "go1.26.0"}, nil, Follows},
		{"Go 1.24", own, &procs.Program{GoVersion: "go1.24.3"}, nil, Ignores},
		{"Go 1.24, without a limit", none, &procs.Program{GoVersion: "go1.24.3"}, nil, Ignores},
		{"an old go line", own, &procs.Program{GoVersion: "go1.26.0", Defaults: map[string]string{"containermaxprocs": "0", "updatemaxprocs": "0"}}, nil, Ignores},
		{"switched off by GODEBUG", own, &procs.Program{GoVersion: "go1.26.0"}, map[string]string{"GODEBUG": "updatemaxprocs=0"}, Ignores},
		{"our library", own, &procs.Program{GoVersion: "go1.24.3", Unthrottle: procs.Linked}, nil, Follows},
		{"a limit above", above, &procs.Program{GoVersion: "go1.26.0"}, nil, Ignores},
		{"our library, a limit above", above, &procs.Program{GoVersion: "go1.26.0", Unthrottle: procs.Imported}, nil, Follows},
		{"our library, a limit that it can't see", hidden, &procs.Program{GoVersion: "go1.26.0", Unthrottle: procs.Imported}, nil, Ignores},
		{"a version of its own", own, &procs.Program{GoVersion: "devel +abc"}, nil, NotKnown},
		{"no program", own, nil, nil, NotKnown},
	} {
		if got := c.system.Alone(procs.Process{Program: c.program, Env: c.env}); got != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.want, got.Fix(2))
		}
	}
}
