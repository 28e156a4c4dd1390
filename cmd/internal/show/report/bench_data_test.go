package report

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

func TestGoName(t *testing.T) {
	for _, c := range []struct {
		s    lab.Setting
		r    lab.Run
		want string
	}{
		{lab.Setting{Workload: "fib", CPUs: 0.5, Procs: 1}, lab.Run{Block: 3, GOMAXPROCS: 1}, "BenchmarkFib/limit=0.5/block=3-1"},
		{lab.Setting{Workload: "gocmd-list", Go: "go1.18.10", Procs: 2}, lab.Run{Block: 1}, "BenchmarkGocmdList/limit=none/go=go1.18.10/block=1-2"},
		{lab.Setting{Workload: "fib", CPUs: 1}, lab.Run{Block: 1, GOMAXPROCS: 2}, "BenchmarkFib/limit=1/procs=default/block=1-2"},
		{lab.Setting{Workload: "BenchmarkB/x=2", CPUs: 1}, lab.Run{Block: 1}, "BenchmarkB/x=2/limit=1/procs=default/block=1"},
		{lab.Setting{Workload: "my server.sh", CPUs: 1, Procs: 4}, lab.Run{Block: 1}, "BenchmarkMyServerSh/limit=1/block=1-4"},
	} {
		if got := goName(c.s, c.r); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
