package procs

import "testing"

// TestBuilt: the go line comes out as it went in, and decides whether the limit is read.
func TestBuilt(t *testing.T) {
	for _, c := range []struct {
		version, line, want string
		reads               bool
	}{
		{"go1.26.2", "1.26 or later", "1.26 or later", true},
		{"go1.26.2", "1.25", "1.25", true},
		{"go1.26.2", "1.24", "1.24", false},
		{"go1.26.2", "1.21", "1.21", false},
		{"go1.25.0", "1.20 or older", "1.20 or older", false},
		{"go1.24.3", "1.24 or later", "1.24 or later", false},
		{"go1.26.0", "", "1.26 or later", true},
		{"go1.26.0", "nonsense", "1.26 or later", true},
		{"", "1.24", "", false},
	} {
		p := Built(c.version, c.line)
		if got, reads := p.GoLine(), p.Setting("containermaxprocs", nil).On; got != c.want || reads != c.reads {
			t.Errorf("%s, go line %q: %q, reads its limit: %v", c.version, c.line, got, reads)
		}
	}
}
