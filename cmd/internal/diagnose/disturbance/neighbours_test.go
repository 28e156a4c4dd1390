package disturbance

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/fixture"
)

func whole(n time.Duration) map[string]time.Duration { return map[string]time.Duration{"/": n} }

// TestOthers checks the arithmetic, whatever becomes of the counters.
func TestOthers(t *testing.T) {
	for name, c := range map[string]struct {
		before, now reading
		want        time.Duration
	}{
		"a neighbour":            {reading{whole: whole(100), server: 50, own: 10}, reading{whole: whole(200), server: 80, own: 15}, 65},
		"none":                   {reading{whole: whole(100), server: 50, own: 10}, reading{whole: whole(140), server: 80, own: 20}, 0},
		"read a moment apart":    {reading{whole: whole(100), server: 50}, reading{whole: whole(139), server: 90}, -1},
		"nothing moves":          {reading{whole: whole(100), server: 50, own: 10}, reading{whole: whole(100), server: 50, own: 10}, 0},
		"the machine's is reset": {reading{whole: whole(100), server: 50}, reading{whole: whole(7), server: 53}, 4},
		"the server's is reset":  {reading{whole: whole(100), server: 50}, reading{whole: whole(130), server: 10}, 20},
		"several groups, one goes and one comes": {
			reading{whole: map[string]time.Duration{"a": 10, "b": 1000, "c": 5}, server: 1},
			reading{whole: map[string]time.Duration{"a": 40, "c": 7, "d": 3000}, server: 3},
			30,
		},
		"the end of what can be counted": {reading{whole: whole(1<<63 - 5)}, reading{whole: whole(3)}, 3},
	} {
		if got := c.now.others(c.before); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestSlices: a late reading makes a longer slice, and its rate decides. One that follows at once makes none.
func TestSlices(t *testing.T) {
	zero := time.Now()
	w := &Neighbours{Record: Record{Zero: zero}, last: reading{whole: whole(0)}, points: []point{{}}}
	used := time.Duration(0)
	for _, s := range []struct{ at, others time.Duration }{
		{20 * ms, 0}, {40 * ms, 4 * ms}, {60 * ms, 5 * ms}, {80 * ms, 0}, {280 * ms, 39 * ms}, {281 * ms, ms / 2}, {480 * ms, 60*ms - ms/2}, {500 * ms, -1 * ms}, {700 * ms, 0},
	} {
		used += s.others
		w.add(reading{at: s.at, whole: whole(used + s.at), server: s.at})
	}
	for at, want := range map[time.Duration]bool{
		0: true, 29 * ms: true, 30 * ms: false, 50 * ms: false, 70 * ms: false, 71 * ms: true, 200 * ms: true, 269 * ms: true, 270 * ms: false,
		400 * ms: false, 490 * ms: false, 491 * ms: true, 690 * ms: true,
	} {
		if ran, known := w.Ran(zero.Add(at)); ran != want || !known {
			t.Errorf("%v: %v, known %v", at, ran, known)
		}
	}
	if _, known := w.Ran(zero.Add(691 * ms)); known {
		t.Error("it knows what comes")
	}
	if got := w.Between(zero, zero.Add(time.Second)); got != (Total{Count: 2, Lasted: 220 * ms, Longest: 200 * ms}) {
		t.Errorf("%+v", got)
	}
	// The points are at 0, 280, 480 and 700 ms.
	if got, want := w.CPUs(zero.Add(270*ms), zero.Add(time.Hour)), 59.0/420; got != want {
		t.Errorf("%v CPUs, want %v", got, want)
	}
	if got := w.CPUs(zero.Add(600*ms), zero.Add(time.Hour)); got != 0 {
		t.Errorf("%v CPUs in no time", got)
	}
}

// TestReader reads saved trees of both versions.
func TestReader(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("cgroups are Linux's")
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	// For each: the whole, the server's, and how many processes are ours.
	for name, want := range map[string]struct {
		err    error
		whole  map[string]time.Duration
		server time.Duration
		ours   int
	}{
		"v1.txtar":        {whole: map[string]time.Duration{"/sys/fs/cgroup/cpu": 9_000_000_123}, server: 2_000_000_456, ours: 1},
		"v2.txtar":        {whole: map[string]time.Duration{"/sys/fs/cgroup/system.slice": 5 * ms, "/sys/fs/cgroup/user.slice": 7 * ms}, server: 2 * ms, ours: 1},
		"v2-root.txtar":   {whole: map[string]time.Duration{"/sys/fs/cgroup/app": 5 * ms}, server: 5 * ms},
		"inside.txtar":    {err: errInside},
		"container.txtar": {err: errNoGroup},
		"no-limit.txtar":  {err: errNoGroup},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			if err := fixture.Parse(string(text)).WriteTo(root); err != nil {
				t.Fatal(err)
			}
			r, err := open(root, 7)
			if !errors.Is(err, want.err) || err != nil {
				if err == nil || want.err == nil {
					t.Fatalf("got %v, want %v", err, want.err)
				}
				return
			}
			defer r.close()
			r.clock = func(int) (time.Duration, error) { return ms, nil }
			got, err := r.read(time.Now())
			for try := 0; errors.Is(err, errSlow) && try < 1000; try++ {
				got, err = r.read(time.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.whole) != len(want.whole) || got.server != want.server || got.own != time.Duration(want.ours)*ms {
				t.Errorf("%+v, want %+v", got, want)
			}
			for group, n := range want.whole {
				if got.whole[group] != n {
					t.Errorf("%s: %v, want %v", group, got.whole[group], n)
				}
			}
			if err := os.RemoveAll(filepath.Join(root, "sys")); err != nil {
				t.Fatal(err)
			}
			if _, err := r.read(time.Now()); err == nil {
				t.Error("the groups are gone, and it reads them")
			}
		})
	}
}
