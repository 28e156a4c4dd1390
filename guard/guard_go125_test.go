//go:build go1.25

//go:debug asynctimerchan=0

package guard

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// fakeRecorder is a recorder that holds a text.
type fakeRecorder struct {
	mu  sync.Mutex
	off bool
	err error
}

func (f *fakeRecorder) set(off bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off, f.err = off, err
}

func (f *fakeRecorder) Enabled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.off
}

func (f *fakeRecorder) WriteTo(w io.Writer) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	n, err := io.WriteString(w, "snapshot")
	return int64(n), err
}

// counts stands in for the kernel: it counts ten periods a second, some of them throttled.
type counts struct {
	mu        sync.Mutex
	began     time.Time
	last      look
	throttled int64 // a second
	err       error
}

func (c *counts) set(throttled int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.throttled, c.err = throttled, err
}

func (c *counts) take(at time.Time) (look, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = at
		c.last = look{at: at, limited: true, cpus: 1, counts: cgroup.Counters{Dir: "/a", Known: true}, period: 100 * time.Millisecond}
		return c.last, c.err
	}
	seconds := int64(at.Sub(c.last.at) / time.Second)
	c.last.at = at
	c.last.counts.Periods += 10 * seconds
	c.last.counts.Throttled += c.throttled * seconds
	return c.last, c.err
}

// TestGuard runs the clock by hand: what is saved and when, and what isn't.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var mu sync.Mutex
		var saved []Snapshot
		var failed []error
		rec, kernel := &fakeRecorder{}, &counts{}
		g, err := start(Options{
			Dir: dir, Recorder: rec, MaxFiles: 2,
			OnSave: func(s Snapshot) {
				mu.Lock()
				defer mu.Unlock()
				saved = append(saved, s)
			},
			OnError: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			},
		}, kernel.take)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Stop()
		after := func(d time.Duration, throttled int64, snapshots, errs int) {
			t.Helper()
			kernel.set(throttled, nil)
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(saved) != snapshots || len(failed) != errs {
				t.Fatalf("%d snapshots and %v, want %d and %d", len(saved), failed, snapshots, errs)
			}
		}
		time.Sleep(time.Millisecond) // from here on between two looks
		after(10*time.Second, 0, 0, 0)
		after(time.Second, 8, 1, 0)    // a storm
		after(30*time.Second, 9, 1, 0) // that lasts
		after(10*time.Second, 0, 1, 0)
		after(10*time.Second, 9, 1, 0) // the next is too soon
		after(10*time.Minute, 0, 1, 0)
		after(time.Second, 5, 2, 0)
		after(20*time.Minute, 0, 2, 0)
		rec.set(false, errors.New("no space left on device"))
		after(10*time.Second, 9, 2, 1)
		rec.set(false, nil)
		after(20*time.Minute, 0, 2, 1)
		kernel.set(0, errors.New("the files are gone"))
		time.Sleep(time.Minute)
		after(time.Minute, 0, 2, 1)
		rec.set(true, nil) // its owner has stopped it
		after(10*time.Second, 9, 2, 1)
		rec.set(false, nil)
		after(20*time.Minute, 0, 2, 1)
		after(time.Second, 9, 3, 1)
		g.Stop()
		g.Stop()
		after(20*time.Minute, 0, 3, 1)

		if s := saved[0]; s.Storm.Periods != 10 || s.Storm.Throttled != 8 || s.Storm.Share != 0.8 || s.Bytes != 8 {
			t.Errorf("%+v", s)
		}
		if !strings.HasPrefix(failed[0].Error(), "saving a snapshot: no space") {
			t.Errorf("%v", failed[0])
		}
		got := names(t, dir)
		if len(got) != 2 || !strings.HasSuffix(saved[2].Path, got[1]) {
			t.Errorf("files %v, the last snapshot is %s", got, saved[2].Path)
		}
	})
}

// TestSave hands a snapshot over, and Stop waits until that is done.
func TestSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		ended := false
		kernel := &counts{throttled: 10}
		g, err := start(Options{Recorder: &fakeRecorder{}, Save: func(ctx context.Context, s Storm, snapshot io.WriterTo) error {
			snapshot.WriteTo(&text)
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return nil
		}}, kernel.take)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		g.Stop()
		if text.String() != "snapshot" || !ended {
			t.Errorf("got %q, ended %v", text.String(), ended)
		}
	})
}

// TestRecorders starts guards with real flight recorders, next to another one. Go allows one at a time.
func TestRecorders(t *testing.T) {
	limited := func(at time.Time) (look, error) {
		return look{at: at, limited: true, cpus: 1, counts: cgroup.Counters{Dir: "/a", Known: true}}, nil
	}
	other := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	if g, err := start(Options{Dir: t.TempDir(), Recorder: other}, limited); err == nil || g != nil {
		t.Error("took a recorder that is not running")
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	if _, err := start(Options{Dir: t.TempDir()}, limited); !errors.Is(err, ErrRecorderInUse) {
		t.Errorf("beside another recorder: %v", err)
	}
	g, err := start(Options{Dir: t.TempDir(), Recorder: other}, limited)
	if err != nil {
		t.Fatal(err)
	}
	g.Stop()
	if !other.Enabled() {
		t.Error("Stop has stopped somebody else's recorder")
	}
	other.Stop()

	// Without a limit the recorder waits, so another one is not an error yet.
	g, err = start(Options{Dir: t.TempDir()}, func(at time.Time) (look, error) { return look{at: at}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if g.own.Enabled() {
		t.Error("the recorder runs though there is no limit")
	}
	g.Stop()
}

// TestRecorderWaits: the guard's own recorder runs from the first throttled period until a minute after the last one, and a
// storm that began with it is saved when it holds something.
func TestRecorderWaits(t *testing.T) {
	kernel := looks()[0]
	var saved []Snapshot
	g, err := start(Options{Dir: t.TempDir(), Poll: time.Hour, OnSave: func(s Snapshot) { saved = append(saved, s) }, OnError: func(err error) { t.Error(err) }},
		func(time.Time) (look, error) { return kernel, nil })
	if err != nil {
		t.Fatal(err)
	}
	step := func(seconds int, throttled int64, runs bool, snapshots int) {
		t.Helper()
		for range seconds {
			kernel.at = kernel.at.Add(time.Second)
			kernel.counts.Periods += 10
			kernel.counts.Throttled += throttled
			g.look(context.Background())
		}
		if g.own.Enabled() != runs || len(saved) != snapshots {
			t.Fatalf("after %v with %d throttled: the recorder runs %v, %d snapshots; want %v, %d", kernel.at, throttled, g.own.Enabled(), len(saved), runs, snapshots)
		}
	}
	step(100, 0, false, 0)
	step(1, 9, true, 0) // nothing is recorded yet
	began := kernel.at
	step(1, 9, true, 0)
	step(1, 9, true, 1)
	if s := saved[0].Storm; s.To != began || s.Throttled != 9 || saved[0].Bytes == 0 {
		t.Errorf("%+v", saved[0])
	}
	step(60, 0, false, 1)
	step(1, 1, true, 1) // one isn't a storm
	step(59, 0, true, 1)
	g.Stop()
	if g.own.Enabled() {
		t.Error("the recorder runs on after Stop")
	}
	text, err := os.ReadFile(saved[0].Path)
	if err != nil || !strings.Contains(string(text), category) || !strings.Contains(string(text), "nr_throttled 27\nthrottled_usec 0\nperiod_usec 100000\n") {
		t.Errorf("the snapshot does not say what the kernel counted: %v", err)
	}
}

// TestLimitComesLater has a limit appear while another recorder runs: that is reported once, and the guard goes on.
func TestLimitComesLater(t *testing.T) {
	other := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	var failed []error
	own := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	g := &Guard{
		o: Options{OnError: func(err error) { failed = append(failed, err) }}.withDefaults(), recorder: own, own: own,
	}
	kernel := &counts{throttled: 9}
	next := time.Now()
	g.take = func(time.Time) (look, error) {
		next = next.Add(time.Second)
		return kernel.take(next)
	}
	for range 4 { // two make the difference, from which on it tries
		g.look(context.Background())
	}
	if len(failed) != 1 || !errors.Is(failed[0], ErrRecorderInUse) {
		t.Errorf("got %v", failed)
	}
	other.Stop()
	g.look(context.Background())
	if !own.Enabled() {
		t.Error("the recorder was not started when it could be")
	}
	own.Stop()
}

func TestNothingToWatch(t *testing.T) {
	_, err := start(Options{Dir: t.TempDir()}, func(time.Time) (look, error) { return look{}, cgroup.ErrNotVisible })
	if !errors.Is(err, ErrNothingToWatch) || !errors.Is(err, cgroup.ErrNotVisible) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkLook is what the guard does once a second.
func BenchmarkLook(b *testing.B) {
	if _, err := take(time.Now()); err != nil {
		b.Skip(err)
	}
	g := &Guard{o: Options{}.withDefaults(), take: take, recorder: &fakeRecorder{}, detector: detector{minShare: 0.5}}
	b.ReportAllocs()
	for range b.N {
		g.look(context.Background())
	}
}

var _ Recorder = (*trace.FlightRecorder)(nil)

func TestMain(m *testing.M) {
	if os.Getenv("GUARD_TEST") != "" {
		guardMain()
		return
	}
	os.Exit(m.Run())
}
