package attach

import (
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
)

func TestProfileURL(t *testing.T) {
	for _, c := range []struct {
		source string
		given  bool // --seconds
		want   string
	}{
		{"cpu.pb.gz", false, ""},
		{"-", false, ""},
		{"profile.go", false, ""}, // it exists
		{"dir/cpu:1/x", false, ""},
		{"localhost", false, ""},
		{"localhost:http", false, ""},
		{"localhost:6060", false, "http://localhost:6060/debug/pprof/profile?seconds=7"},
		{"localhost:6060/", false, "http://localhost:6060/debug/pprof/profile?seconds=7"},
		{"[::1]:80/debug/pprof", false, "http://[::1]:80/debug/pprof/profile?seconds=7"},
		{"https://a/debug/pprof/", false, "https://a/debug/pprof/profile?seconds=7"},
		{"http://a/x/y?seconds=3&z=1", false, "http://a/x/y?seconds=3&z=1"},
		{"http://a/x/y?seconds=3&z=1", true, "http://a/x/y?seconds=7&z=1"},
	} {
		u, err := CPUProfile.URL(c.source, 7, c.given)
		got := ""
		if u != nil {
			got = u.String()
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.source, got, err, c.want)
		}
	}
	for _, source := range []string{"ftp://a/", "http://", "http://a:b/", "http://%zz"} {
		if u, err := CPUProfile.URL(source, 7, false); err == nil {
			t.Errorf("%s: got %v", source, u)
		}
	}
}

// TestProfileDemand checks which readings of the metrics say nothing.
func TestProfileDemand(t *testing.T) {
	before := goself.Classes{Procs: 4, Total: 100, Idle: 50, CPU: 10}
	for name, c := range map[string]struct {
		after goself.Classes
		ok    bool
	}{
		"fine":           {goself.Classes{Procs: 4, Total: 136, Idle: 50, CPU: 15}, true}, // 9 s of 10
		"no collection":  {goself.Classes{Procs: 4, Total: 100, Idle: 50, CPU: 15}, false},
		"at the end":     {goself.Classes{Procs: 4, Total: 104, Idle: 50, CPU: 15}, false}, // 1 s of 10
		"idle":           {goself.Classes{Procs: 4, Total: 136, Idle: 85, CPU: 10.1}, false},
		"no CPU time":    {goself.Classes{Procs: 4, Total: 136, Idle: 50, CPU: -1}, false},
		"without a size": {goself.Classes{Total: 136, Idle: 50, CPU: 15}, true},
	} {
		p := &Profiler{}
		p.demand(&before, &c.after, 10*time.Second)
		if got := p.Demand != nil; got != c.ok || got == (len(p.Warnings) > 0) {
			t.Errorf("%s: %+v, %v", name, p.Demand, p.Warnings)
		}
	}
}
