package attach

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// elsewhere is a machine on which one server listens on port 8080, one with pprof on 6060, and on 9090 one that does not answer.
func elsewhere(t *testing.T) *Far {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	servers := map[string]*httptest.Server{
		"localhost:8080": httptest.NewServer(http.NotFoundHandler()),
		"localhost:6060": httptest.NewServer(mux),
	}
	for _, s := range servers {
		t.Cleanup(s.Close)
	}
	return &Far{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "localhost:9090" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s := servers[address]
		if s == nil {
			return nil, errors.New("nothing listens there: " + address)
		}
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}}
}

func TestFarFind(t *testing.T) {
	far := elsewhere(t)
	u, late, err := far.Find(t.Context(), []int{1, 8080, 6060})
	if err != nil || len(late) > 0 || u == nil || u.Host != "localhost:6060" {
		t.Errorf("got %v, %v, %v", u, late, err)
	}
	if u, _, err := far.Find(t.Context(), []int{1, 8080}); u != nil || err != nil {
		t.Errorf("a server without pprof: %v, %v", u, err)
	}
	if _, _, err := far.Find(t.Context(), []int{1, 2}); err == nil || err.Error() != "nothing listens there: localhost:1" {
		t.Errorf("no port can be asked: %v", err)
	}
	if _, late, err := far.Find(t.Context(), []int{9090, 8080}); err != nil || !slices.Equal(late, []int{9090}) {
		t.Errorf("a port that does not answer: %v, %v", late, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := far.Find(over, []int{6060}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestFarTake: what is known of a far program is what its own machine counts, and no process that listens here is taken for it.
func TestFarTake(t *testing.T) {
	limits := cgroup.Limits{State: cgroup.Limited, CPUs: 0.5, Path: "/pod", From: "/pod", Levels: []cgroup.Level{{Dir: "/pod", Quota: cgroup.Quota{QuotaMicros: 50000, PeriodMicros: 100000}}}}
	at := func(pid int, throttled int64) *Counted {
		c := cgroup.Counters{Known: true, Dir: "/pod", Periods: 10 * throttled, Throttled: throttled, ThrottledTime: time.Duration(throttled) * time.Millisecond}
		return &Counted{PID: pid, Name: "api", Live: 2, Set: choice.FromEnvironment, Limits: limits, OutOfSight: true, Reading: host.Reading{At: time.Now(), Counters: c, Groups: cgroup.Throttling{Owner: c}}}
	}
	several := func(c *Counted) *Counted { c.Programs = 3; return c }
	for _, c := range []struct {
		name        string
		first, last *Counted
		pid         int
		counts      bool
		warning     string
	}{
		{"counted", at(7, 1), at(7, 3), 7, true, ""},
		{"nobody counts", nil, nil, 0, false, "is not known: no agent"},
		{"it went", at(7, 1), nil, 7, false, "counted of it is not known: no agent"},
		{"started again", at(7, 1), at(8, 3), 7, false, "started again"},
		{"one of several", several(at(7, 1)), several(at(7, 3)), 0, true, "3 Go programs run in its container"},
	} {
		far, answers := elsewhere(t), []*Counted{c.first, c.last}
		far.Count = func(context.Context) (*Counted, error) {
			next := answers[0]
			if answers = answers[1:]; next == nil {
				return nil, errors.New("no agent")
			}
			return next, nil
		}
		u, _, err := far.Find(t.Context(), []int{6060})
		if err != nil {
			t.Fatal(err)
		}
		tracer := &Tracer{URL: Trace.At(u, 1), Far: far}
		f, err := tracer.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 5)
		if _, err := io.ReadFull(f, head); err != nil || string(head) != "go 1." {
			t.Errorf("%s: a trace that begins with %q, %v", c.name, head, err)
		}
		f.Close()
		b := tracer.Beside
		if b.PID != c.pid || (b.Set != choice.FromEnvironment || !b.OutOfSight) && c.pid > 0 || b.Kernel.Counts != c.counts || c.counts && (b.Kernel.Most != 2*time.Millisecond || tracer.Quotas.Period != 100*time.Millisecond) {
			t.Errorf("%s: %+v", c.name, b)
		}
		if text := errors.Join(b.Warnings...); c.warning == "" && text != nil || c.warning != "" && (text == nil || !strings.Contains(text.Error(), c.warning)) {
			t.Errorf("%s: warnings %v, want %q", c.name, text, c.warning)
		}
	}
}

func TestFarProfile(t *testing.T) {
	far := elsewhere(t)
	u, _, err := far.Find(t.Context(), []int{6060})
	if err != nil {
		t.Fatal(err)
	}
	p := &Profiler{URL: CPUProfile.At(u, 1), Far: far}
	data, err := p.Take(t.Context())
	if err != nil || len(data) == 0 || p.PID != 0 || p.Limits != nil {
		t.Errorf("%d bytes, %+v, %v", len(data), p.Beside, err)
	}
}
