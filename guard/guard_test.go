package guard

import (
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// looks makes looks a second apart from what each second adds: throttled periods of ten.
func looks(throttled ...int64) (ks []look) {
	k := look{at: time.Unix(1000, 0), limited: true, cpus: 0.5, counts: cgroup.Counters{Dir: "/a", Known: true}, period: 100 * time.Millisecond}
	ks = append(ks, k)
	for _, n := range throttled {
		k.at = k.at.Add(time.Second)
		k.counts.Periods += 10
		k.counts.Throttled += n
		ks = append(ks, k)
	}
	return ks
}

func TestDetector(t *testing.T) {
	tests := []struct {
		name string
		ks   []look
		want []int // looks at which a storm begins
	}{
		{"calm", looks(0, 1, 0, 2, 4), nil},
		{"a storm", looks(0, 0, 8, 10, 10), []int{3}},
		{"from the beginning", looks(10, 10), []int{1}},
		{"at the threshold", looks(4, 5), []int{2}},
		{"one that wavers is one", looks(9, 1, 4, 9, 0, 0, 9, 3, 3, 3, 3, 9), []int{1}},
		{"two storms", looks(9, 0, 0, 0, 9), []int{1, 5}},
		{"a storm ends below half of the threshold only", looks(9, 3, 3, 3, 9), []int{1}},
	}
	for _, tt := range tests {
		d := detector{minShare: 0.5}
		var got []int
		for i, k := range tt.ks {
			if s, begins := d.see(k); begins {
				got = append(got, i)
				if s.To != k.at || s.From != tt.ks[i-1].at || s.Group != "/a" || s.CPUs != 0.5 {
					t.Errorf("%s: %+v", tt.name, s)
				}
			}
		}
		if !equal(got, tt.want) {
			t.Errorf("%s: storms begin at %v, want %v", tt.name, got, tt.want)
		}
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestBetween(t *testing.T) {
	begin := time.Unix(1000, 0)
	a := look{at: begin, limited: true, cpus: 1, period: 100 * time.Millisecond, counts: cgroup.Counters{Dir: "/a", Known: true, Periods: 100, Throttled: 50}}
	b := a
	b.at = begin.Add(time.Second)
	with := func(change func(*look)) look {
		k := b
		change(&k)
		return k
	}
	hidden := look{at: begin, limited: true, counts: cgroup.Counters{Dir: "/a", Known: true}, time: time.Second, timeKnown: true}
	hiddenAfter := func(d time.Duration) look {
		k := hidden
		k.at, k.time = begin.Add(time.Second), k.time+d
		return k
	}
	tests := []struct {
		name    string
		a, b    look
		share   float64
		periods int64
		ok      bool
	}{
		{"idle", a, b, 0, 10, true},
		{"busy", a, with(func(k *look) { k.counts.Periods += 10; k.counts.Throttled += 7 }), 0.7, 10, true},
		{"one period of activity that was throttled", a, with(func(k *look) { k.counts.Periods++; k.counts.Throttled++ }), 0.1, 10, true},
		{"a look that is late", a, with(func(k *look) { k.at = begin.Add(2 * time.Second); k.counts.Periods += 20; k.counts.Throttled += 10 }), 0.5, 20, true},
		{"a period that is not known", a, with(func(k *look) { k.period = 0; k.counts.Periods += 4; k.counts.Throttled += 3 }), 0.75, 4, true},
		{"nothing counted, period not known", a, with(func(k *look) { k.period = 0 }), 0, 0, true},
		{"moved to another group", a, with(func(k *look) { k.counts.Dir = "/b"; k.counts.Throttled += 9 }), 0, 0, false},
		{"counts began again", a, with(func(k *look) { k.counts.Periods, k.counts.Throttled = 3, 3 }), 0, -97, false},
		{"no time passed", a, a, 0, 0, false},
		{"the limit came to be hidden", a, hiddenAfter(time.Second), 0, 0, false},
		{"hidden, calm", hidden, hiddenAfter(0), 0, 0, true},
		{"hidden, throttled", hidden, hiddenAfter(600 * time.Millisecond), 0.6, 0, true},
		{"hidden, on several CPUs", hidden, hiddenAfter(3 * time.Second), 1, 0, true},
		{"hidden, counted again", hidden, hiddenAfter(-time.Millisecond), 0, 0, false},
	}
	for _, tt := range tests {
		s, ok := between(tt.a, tt.b)
		if ok != tt.ok || ok && (s.Share != tt.share || s.Periods != tt.periods) {
			t.Errorf("%s: got %v %v of %d periods, want %v %v of %d", tt.name, ok, s.Share, s.Periods, tt.ok, tt.share, tt.periods)
		}
	}
}

func TestDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.Poll != time.Second || o.MinShare != 0.5 || o.Every != 10*time.Minute || o.MaxFiles != 5 || o.MinAge != 5*time.Second || o.MaxBytes != 16<<20 {
		t.Errorf("%+v", o)
	}
	if o := (Options{Poll: 10 * time.Second}).withDefaults(); o.MinAge != 30*time.Second {
		t.Errorf("the recorder keeps %v where a poll takes 10 s", o.MinAge)
	}
}
