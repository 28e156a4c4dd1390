package heapfloor

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
)

const mib = 1 << 20

// goalOf is how the runtime makes the goal (mgcpacer.go: heapMinimum, and live heap, stacks and globals times GOGC).
func goalOf(percent int, live, roots, limit int64) int64 {
	p := float64(percent) / 100
	goal := math.Max(leastGoal*p, float64(live)+float64(live+roots)*p)
	if limit > 0 {
		goal = math.Max(float64(live), math.Min(goal, float64(limit)))
	}
	return int64(goal)
}

func TestSteer(t *testing.T) {
	tests := []struct {
		name  string
		floor int64
		base  int
		now   collector
		want  int
	}{
		{"first step: double, not a round number", 32 * mib, 100, collector{percent: 100, goal: 4 * mib, live: mib}, 199},
		{"second step", 32 * mib, 100, collector{percent: 199, goal: 8 * mib, live: mib}, 398},
		{"last step: what gives 30 MiB of goal to any small heap", 32 * mib, 100, collector{percent: 398, goal: 16 * mib, live: mib}, 749},
		{"there", 32 * mib, 100, collector{percent: 749, goal: 30 * mib, live: mib}, 749},
		{"in the band", 32 * mib, 100, collector{percent: 700, goal: 28 * mib, live: mib}, 700},
		{"a little over: 100 × (30-10)/10", 32 * mib, 100, collector{percent: 300, goal: 40 * mib, live: 10 * mib}, 199},
		{"the live heap grew to 25 MiB: down at once", 32 * mib, 100, collector{percent: 749, goal: 212 * mib, live: 25 * mib}, 100},
		{"the live heap is above the floor", 32 * mib, 100, collector{percent: 749, goal: 1000 * mib, live: 100 * mib}, 100},
		{"a large heap", 32 * mib, 100, collector{percent: 100, goal: 1000 * mib, live: 500 * mib}, 100},
		{"never below the program's own", 32 * mib, 400, collector{percent: 400, goal: 100 * mib, live: 20 * mib}, 400},
		{"from a small GOGC", 32 * mib, 25, collector{percent: 25, goal: mib, live: mib / 2}, 49},
		{"the memory limit holds the goal down", 32 * mib, 100, collector{percent: 200, goal: 12 * mib, live: 10 * mib}, 200},
		{"nothing above the live heap", 32 * mib, 100, collector{percent: 200, goal: 10 * mib, live: 10 * mib}, 200},
		{"the collector is off", 32 * mib, 100, collector{percent: -1, goal: math.MaxInt64, live: mib}, -1},
		{"a smaller floor than before", 8 * mib, 100, collector{percent: 749, goal: 30 * mib, live: mib}, 167},
	}
	for _, tt := range tests {
		if got := steer(tt.floor, tt.base, tt.now); got != tt.want {
			t.Errorf("%s: GOGC %d, want %d", tt.name, got, tt.want)
		}
	}
}

// For any heap, the steering keeps its promises at each step and comes to rest.
func FuzzSteer(f *testing.F) {
	f.Add(int64(32*mib), 100, 100, int64(mib), int64(100000), int64(0))
	f.Add(int64(32*mib), 100, 749, int64(25*mib), int64(mib), int64(0))
	f.Add(int64(256*mib), 50, 6000, int64(3*mib), int64(50*mib), int64(0))
	f.Add(int64(16*mib), 100, 300, int64(8*mib), int64(0), int64(10*mib))
	f.Add(int64(mib), 1, 1, int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, floor int64, base, percent int, live, roots, limit int64) {
		if floor < mib || floor > largestFloor || base < 1 || base > 10000 || percent < base || percent > 100000 ||
			live < 0 || live > 1<<40 || roots < 0 || roots > 1<<40 || limit < 0 {
			t.Skip()
		}
		most := goalOf(base, live, roots, limit)
		if most < floor {
			most = floor
		}
		for i := 0; ; i++ {
			goal := goalOf(percent, live, roots, limit)
			next := steer(floor, base, collector{percent: percent, goal: goal, live: live})
			if next < base || next > 2*percent {
				t.Fatalf("GOGC %d → %d, with %d without a floor", percent, next, base)
			}
			// The goal may be beyond the floor when the heap has grown, but not by what we do about it.
			if after := goalOf(next, live, roots, limit); after > most && after > goal {
				t.Fatalf("GOGC %d → %d takes the goal from %d to %d; floor %d", percent, next, goal, after, floor)
			} else if capped := goalOf(percent, live, roots, 0) > goal; i > 0 && next != percent && after > most && !capped {
				// What a memory limit holds down says too little of GOGC: then it takes some more steps.
				t.Fatalf("GOGC %d → %d leaves the goal at %d; floor %d", percent, next, after, floor)
			}
			if largest := int64(100 * float64(floor) / leastGoal); int64(next) > largest && next > base && next != percent {
				t.Fatalf("GOGC %d → %d, above %d", percent, next, largest)
			}
			if next == percent {
				break
			}
			if percent = next; i > 40 {
				t.Fatalf("no rest after %d steps: GOGC %d", i, percent)
			}
		}
		// Without a memory limit the goal comes to the floor, within an eighth, and what whole percents lose.
		goal := goalOf(percent, live, roots, 0)
		coarse := float64(live+roots+leastGoal) / 100 * 3
		if limit == 0 && float64(goal) < float64(floor-floor/8)-coarse && base < 1000 {
			t.Errorf("rest at GOGC %d, goal %d, floor %d", percent, goal, floor)
		}
	})
}

func TestCutFloor(t *testing.T) {
	for _, tt := range []struct{ floor, limit, want int64 }{
		{32 * mib, 0, 32 * mib},
		{32 * mib, 1 << 40, 32 * mib},
		{32 * mib, 288 * mib, 32 * mib}, // 32 × (1 + 32/4) = 288
		{32 * mib, 224 * mib, 28 * mib}, // 28 × (1 + 28/4) = 224
		{32 * mib, 40 * mib, 10 * mib},  // a quarter
		{1 << 40, 0, 256 * mib},
		{32 * mib, 1, 0},
	} {
		if got := cutFloor(tt.floor, tt.limit); got != tt.want {
			t.Errorf("%d under %d: %d, want %d", tt.floor, tt.limit, got, tt.want)
		}
	}
}

func TestDecision(t *testing.T) {
	limited := func(bytes int64) cgroup.Memory {
		return cgroup.Memory{State: cgroup.Limited, Bytes: bytes, From: "/sys/fs/cgroup/app"}
	}
	none := cgroup.Memory{State: cgroup.None}
	tests := []struct {
		asked    int64
		gogc     int
		env      string
		memLimit int64
		memory   cgroup.Memory
		want     string
	}{
		{32 * mib, 100, "", 0, none, "heap floor 32 MiB: 32 MiB asked for; GOGC is raised from 100 as far as that needs"},
		{32 * mib, 100, "lots", 0, none, "heap floor 32 MiB: 32 MiB asked for; GOGC is raised from 100 as far as that needs"},
		{32 * mib, 200, "200", 0, none, "no heap floor: GOGC=200 is set in the environment"},
		{32 * mib, -1, "off", 0, none, "no heap floor: GOGC=off is set in the environment"},
		{32 * mib, -1, "", 0, none, "no heap floor: the collector is off"},
		{32 * mib, 0, "", 0, none, "no heap floor: the program has set GOGC to 0"},
		{0, 100, "", 0, none, "no heap floor: none is asked for"},
		{-5, 100, "", 0, none, "no heap floor: none is asked for"},
		{4 * mib, 100, "", 0, none, "no heap floor: 4 MiB asked for; the collector keeps its goal above that by itself, with GOGC 100"},
		{16 * mib, 400, "", 0, none, "no heap floor: 16 MiB asked for; the collector keeps its goal above that by itself, with GOGC 400"},
		{32 * mib, 100, "", 0, limited(224 * mib), "heap floor 28 MiB: 32 MiB asked for; cut to 28 MiB by the memory limit of 224 MiB (/sys/fs/cgroup/app); GOGC is raised from 100 as far as that needs"},
		{32 * mib, 100, "", 40 * mib, limited(224 * mib), "heap floor 10 MiB: 32 MiB asked for; cut to 10 MiB by the memory limit of 40 MiB (GOMEMLIMIT); GOGC is raised from 100 as far as that needs"},
		{32 * mib, 100, "", 1 << 40, limited(16 * mib), "no heap floor: 32 MiB asked for; cut to 4 MiB by the memory limit of 16 MiB (/sys/fs/cgroup/app); the collector keeps its goal above that by itself, with GOGC 100"},
		{1 << 40, 100, "", 0, none, "heap floor 256 MiB: 1048576 MiB asked for; cut to 256 MiB, the largest there is; GOGC is raised from 100 as far as that needs"},
		{32 * mib, 100, "", 0, cgroup.Memory{Reason: errors.New("no such file")}, "heap floor 32 MiB: 32 MiB asked for; the cgroup's memory limit is unknown: no such file; GOGC is raised from 100 as far as that needs"},
	}
	for _, tt := range tests {
		d := Decision{Asked: tt.asked, GOGC: tt.gogc}
		d.decide(tt.env, tt.memLimit, func() cgroup.Memory { return tt.memory })
		if got := d.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	d := Decision{Bytes: 32 * mib, Asked: 32 * mib, GOGC: 100, Percent: 749, Steps: 3}
	if got, want := d.String(), "heap floor 32 MiB: 32 MiB asked for; GOGC is 749 after 3 steps from 100"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	d.Yielded = true
	if got := d.String(); !strings.HasSuffix(got, "; the program has set another GOGC since, which stays") {
		t.Error(got)
	}
}

// startFloor leaves the test with GOGC as the runtime has it, and no limit that cuts the floor.
func startFloor(t *testing.T) {
	t.Helper()
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	})
	if m := memoryLimit(); m.State == cgroup.Limited && cutFloor(32*mib, m.Bytes) < 32*mib {
		t.Skipf("the memory limit of %d leaves no room for the test's floor", m.Bytes)
	}
	if now := gogc(); now != 100 {
		t.Fatalf("GOGC is %d", now)
	}
}

func gogc() int {
	floors.Lock()
	defer floors.Unlock()
	now, _ := readCollector()
	return now.percent
}

func goal() int64 {
	floors.Lock()
	defer floors.Unlock()
	now, _ := readCollector()
	return now.goal
}

var garbage [64]*[512]byte

// waste allocates bytes of small objects that die at once, and returns how many collections that took. It lets others
// run now and then, as any service does: a loop that never does keeps the finalizers waiting for 10 ms with one P.
func waste(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < bytes/512; i++ {
		garbage[i%len(garbage)] = new([512]byte)
		if i%256 == 0 {
			runtime.Gosched()
		}
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

// wasteUntil goes on until done, and gives up after so many bytes that it can't be chance.
func wasteUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for i := 0; i < 5000; i++ {
		if done() {
			return
		}
		waste(4 * mib)
	}
	d, _ := Last()
	t.Fatalf("%s: not after 20 GB of garbage; GOGC %d, goal %d; %v", what, gogc(), goal(), d)
}

func TestSavesCollections(t *testing.T) {
	startFloor(t)
	// With more Ps than CPUs, garbage is made faster than it is collected, and the heap gets larger than its goal.
	procs := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(procs)
	const bytes = 400 * mib
	runtime.GC()
	if goal() > 8*mib {
		t.Skipf("a goal of %d is not a tiny heap", goal())
	}
	before := waste(bytes)
	d, undo := Keep(32 * mib)
	if d.Bytes != 32*mib || d.GOGC != 100 {
		t.Errorf("got %+v", d)
	}
	// What is allocated during a collection counts as alive, so the goal is beyond the floor now and then, until the
	// finalizer has run.
	inBand := func() bool { return goal() >= 28*mib && goal() <= 32*mib }
	wasteUntil(t, "reaching the floor", inBand)
	with := waste(bytes)
	wasteUntil(t, "staying at the floor", inBand)
	if d, ok := Last(); !ok || d.Percent != gogc() || d.Percent <= 100 || d.Steps < 3 || d.Yielded {
		t.Errorf("Last: %v", d)
	}
	undo()
	if gogc() != 100 {
		t.Errorf("after undo GOGC is %d", gogc())
	}
	after := waste(bytes)
	t.Logf("collections in %d MiB of garbage: %d, with the floor %d, after undo %d", bytes/mib, before, with, after)
	// 400/4 collections at least without a floor, some 400/28 with it.
	if with == 0 || with*3 > before || with*3 > after {
		t.Errorf("%d collections, with the floor %d, after undo %d", before, with, after)
	}
	debug.SetGCPercent(77)
	undo() // a second time does nothing
	if gogc() != 77 {
		t.Errorf("undo worked twice: GOGC %d", gogc())
	}
}

func TestFromEnvironment(t *testing.T) {
	startFloor(t)
	for _, tt := range []struct{ env, want string }{
		{"", "no heap floor: none is asked for"},
		{"8MiB", "heap floor 8 MiB: 8 MiB asked for; GOGC is raised from 100 as far as that needs"},
		{"8M", "no heap floor: UNTHROTTLE_HEAP_FLOOR=8M: want a size such as 32MiB"},
	} {
		t.Setenv("UNTHROTTLE_HEAP_FLOOR", tt.env)
		d, undo := Keep(0)
		undo()
		if got := d.String(); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.env, got, tt.want)
		}
	}
	t.Setenv("UNTHROTTLE_HEAP_FLOOR", "8MiB")
	if d, undo := Keep(16 * mib); d.Asked != 16*mib {
		t.Errorf("the environment has overridden the code: %v", d)
	} else {
		undo()
	}
}

var ballast []byte

// The live heap takes the floor's place as it grows: GOGC comes down, and up again when it shrinks.
func TestFollowsTheHeap(t *testing.T) {
	startFloor(t)
	_, undo := Keep(32 * mib)
	defer undo()
	up := func() bool { return gogc() > 400 }
	wasteUntil(t, "going up", up)
	ballast = make([]byte, 64*mib)
	wasteUntil(t, "coming down", func() bool { return gogc() == 100 })
	ballast = nil
	wasteUntil(t, "going up again", up)
}

func TestYieldsToTheProgram(t *testing.T) {
	startFloor(t)
	_, undo := Keep(32 * mib)
	wasteUntil(t, "going up", func() bool { return gogc() > 400 })
	yielded := func() bool { d, _ := Last(); return d.Yielded }
	ours := debug.SetGCPercent(50)
	wasteUntil(t, "standing back", yielded)
	waste(100 * mib)
	if gogc() != 50 {
		t.Errorf("GOGC is %d, not the program's 50", gogc())
	}
	// What the program found comes back: it must be steered again.
	debug.SetGCPercent(ours)
	ballast = make([]byte, 64*mib)
	wasteUntil(t, "coming down", func() bool { return gogc() == 100 })
	ballast = nil
	if yielded() {
		t.Error("still standing back")
	}
	debug.SetGCPercent(60)
	undo()
	if gogc() != 60 {
		t.Errorf("undo took the program's GOGC away: it is %d", gogc())
	}
}

func TestTwice(t *testing.T) {
	startFloor(t)
	_, undoSmall := Keep(16 * mib)
	wasteUntil(t, "the small floor", func() bool { return goal() >= 14*mib })
	d, undoLarge := Keep(32 * mib)
	if d.GOGC != 100 {
		t.Errorf("the second floor takes the GOGC of the first for the program's: %+v", d)
	}
	wasteUntil(t, "the large floor", func() bool { return goal() >= 28*mib })
	undoLarge()
	undoLarge()
	wasteUntil(t, "the small floor again", func() bool { return gogc() > 100 && goal() >= 14*mib && goal() <= 16*mib })
	undoSmall()
	if gogc() != 100 {
		t.Errorf("after both undos GOGC is %d", gogc())
	}
}

// The hook ends after undo and starts again with the next floor.
func TestEnds(t *testing.T) {
	startFloor(t)
	hooked := func() bool { floors.Lock(); defer floors.Unlock(); return floors.hooked }
	for i := 0; i < 2; i++ {
		_, undo := Keep(32 * mib)
		if !hooked() {
			t.Error("not hooked")
		}
		undo()
		wasteUntil(t, "unhooking", func() bool { return !hooked() })
	}
}

// A memory limit that the program sets later cuts the floor as well.
func TestUnderALaterLimit(t *testing.T) {
	startFloor(t)
	_, undo := Keep(32 * mib)
	defer undo()
	wasteUntil(t, "going up", func() bool { return goal() >= 28*mib })
	debug.SetMemoryLimit(96 * mib) // room for 17.7 MiB
	wasteUntil(t, "coming down", func() bool { return goal() <= 18*mib })
}

func TestOff(t *testing.T) {
	startFloor(t)
	for _, text := range []string{"100", "off", "-1"} {
		t.Setenv("GOGC", text)
		d, undo := Keep(32 * mib)
		undo()
		if d.Bytes != 0 || d.UserGOGC != text || gogc() != 100 {
			t.Errorf("GOGC=%s: %v", text, d)
		}
	}
	os.Unsetenv("GOGC")
	debug.SetGCPercent(-1)
	d, undo := Keep(32 * mib)
	undo()
	if d.Bytes != 0 || d.GOGC != -1 || gogc() != -1 {
		t.Errorf("the collector is off: %v", d)
	}
}

func TestSwapGOGC(t *testing.T) {
	startFloor(t)
	if !swapGOGC(100, 150) || gogc() != 150 {
		t.Errorf("GOGC is %d", gogc())
	}
	if swapGOGC(100, 200) || gogc() != 150 {
		t.Errorf("GOGC is %d: what was not ours did not come back", gogc())
	}
}
