package memory

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/heapfloor"
)

const mib = 1 << 20

func limited(bytes int64) cgroup.Memory {
	return cgroup.Memory{State: cgroup.Limited, Bytes: bytes, From: "/sys/fs/cgroup/app"}
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    cgroup.Memory
		o    Options
		want int64
		why  string
	}{
		{"usual", limited(1000 * mib), Options{}, 900 * mib, "GOMEMLIMIT=900 MiB: limit 1000 MiB at /sys/fs/cgroup/app; 90 % of it"},
		{"a share of one's own", limited(1000 * mib), Options{Share: 0.75}, 750 * mib, "GOMEMLIMIT=750 MiB: limit 1000 MiB at /sys/fs/cgroup/app; 75 % of it"},
		{"a reserve", limited(1000 * mib), Options{Reserve: 64 * mib}, 836 * mib, "GOMEMLIMIT=836 MiB: limit 1000 MiB at /sys/fs/cgroup/app; 90 % of it, less 64 MiB"},
		{"room for the kernel", limited(64 * mib), Options{}, 56 * mib, "GOMEMLIMIT=56 MiB: limit 64 MiB at /sys/fs/cgroup/app; all but 8 MiB of it"},
		{"too small", limited(31 * mib), Options{}, 0, "GOMEMLIMIT unchanged: limit 31 MiB at /sys/fs/cgroup/app; which has no room for a share"},
		{"nothing left", limited(100 * mib), Options{Reserve: 90 * mib}, 0, "GOMEMLIMIT unchanged: limit 100 MiB at /sys/fs/cgroup/app; 90 % of it, less 90 MiB is too little"},
		{"no share", limited(1000 * mib), Options{Share: math.NaN(), Reserve: -5}, 900 * mib, "GOMEMLIMIT=900 MiB: limit 1000 MiB at /sys/fs/cgroup/app; 90 % of it"},
		{"no limit", cgroup.Memory{State: cgroup.None}, Options{}, 0, "GOMEMLIMIT unchanged: no memory limit"},
		{"not known", cgroup.Memory{Reason: errors.New("no /proc")}, Options{}, 0, "GOMEMLIMIT unchanged: the memory limit is unknown: no /proc"},
		{"off", limited(1000 * mib), Options{off: true}, 0, "GOMEMLIMIT unchanged: it is switched off in the environment"},
	} {
		d := Decide(tt.m, tt.o)
		if d.Bytes != tt.want || d.String() != tt.why {
			t.Errorf("%s: %d, %s; want %d, %s", tt.name, d.Bytes, d, tt.want, tt.why)
		}
	}
	if d := Decide(limited(1000*mib), Options{Share: 1}); len(d.Warnings) != 1 || d.Bytes != 992*mib {
		t.Errorf("a share of all: %d, %v", d.Bytes, d.Warnings)
	}
}

func TestFromEnv(t *testing.T) {
	for _, tt := range []struct {
		memory, gogc string
		want         Options
		warning      string
	}{
		{"", "", Options{}, ""},
		{"on", "", Options{}, ""},
		{"off", "", Options{off: true}, ""},
		{"80%", "", Options{Share: 0.8}, ""},
		{"90%-64MiB", "20", Options{Share: 0.9, Reserve: 64 * mib, MinGOGC: 20}, ""},
		{"", "off", Options{MinGOGC: -1}, ""},
		{"80", "", Options{}, "UNTHROTTLE_MEMORY=80: want on, off, 80% or 90%-64MiB"},
		{"101%", "", Options{}, "UNTHROTTLE_MEMORY=101%: want"},
		{"0%", "", Options{}, "UNTHROTTLE_MEMORY=0%: want"},
		{"90%-64M", "", Options{}, "UNTHROTTLE_MEMORY=90%-64M: want"},
		{"", "0", Options{}, "UNTHROTTLE_MIN_GOGC=0: want a whole number above zero, or off"},
		{"", "many", Options{}, "UNTHROTTLE_MIN_GOGC=many: want"},
	} {
		got := fromEnv(func(name string) string {
			return map[string]string{"UNTHROTTLE_MEMORY": tt.memory, "UNTHROTTLE_MIN_GOGC": tt.gogc}[name]
		})
		warnings := ""
		for _, w := range got.warnings {
			warnings += w.Error()
		}
		if got.Share != tt.want.Share || tt.warning == "" && got.Reserve != tt.want.Reserve || got.MinGOGC != tt.want.MinGOGC || got.off != tt.want.off {
			t.Errorf("%q, %q: %+v", tt.memory, tt.gogc, got)
		}
		if !strings.HasPrefix(warnings, tt.warning) || tt.warning == "" && warnings != "" {
			t.Errorf("%q, %q: warnings %q", tt.memory, tt.gogc, warnings)
		}
	}
}

// start lets a test say what the kernel allows, and restores everything when it ends.
func start(t *testing.T, m cgroup.Memory) (set func(cgroup.Memory)) {
	t.Helper()
	for _, name := range []string{"GOMEMLIMIT", "UNTHROTTLE", "UNTHROTTLE_MEMORY", "UNTHROTTLE_MIN_GOGC", "UNTHROTTLE_HEAP_FLOOR"} {
		t.Setenv(name, "")
	}
	before, limit, gogc := readLimit, debug.SetMemoryLimit(noLimit), debug.SetGCPercent(100)
	allowed := m
	readLimit = func() cgroup.Memory { return allowed }
	t.Cleanup(func() {
		kept.Lock()
		readLimit = before
		kept.keepers, kept.givenUp = nil, false
		kept.Unlock()
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(gogc)
	})
	return func(m cgroup.Memory) {
		kept.Lock()
		defer kept.Unlock()
		allowed = m
		kept.read = time.Time{}
	}
}

// gogc is the current GOGC.
func gogc() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// until collects garbage until something is so.
func until(t *testing.T, what string, done func(Decision) bool) Decision {
	t.Helper()
	for i := 0; i < 2000; i++ {
		runtime.GC()
		if d, _ := Last(); done(d) {
			return d
		}
		time.Sleep(time.Millisecond) // for the finalizer
	}
	d, _ := Last()
	t.Fatalf("%s: not after 2,000 collections: %v, limit %d, GOGC %d", what, d, debug.SetMemoryLimit(-1), gogc())
	return d
}

// tighten sets a limit that leaves less room than what is alive needs, and waits until it is given up.
func tighten(t *testing.T, set func(cgroup.Memory)) {
	t.Helper()
	runtime.GC()
	kept.Lock()
	h, _ := readHeap()
	kept.Unlock()
	set(limited(int64(h.others+h.live+5*mib) * 10 / 9))
	until(t, "a tight limit", func(d Decision) bool { return d.GivenUp && gogc() == 10 })
}

func TestSetAndUndo(t *testing.T) {
	start(t, limited(1000*mib))
	d, undo := Set(Options{})
	if d.Bytes != 900*mib || debug.SetMemoryLimit(-1) != 900*mib {
		t.Errorf("%v: the limit is %d", d, debug.SetMemoryLimit(-1))
	}
	_, second := Set(Options{Share: 0.5})
	if got := debug.SetMemoryLimit(-1); got != 500*mib {
		t.Errorf("with a newer one the limit is %d", got)
	}
	undo()
	if got := debug.SetMemoryLimit(-1); got != 500*mib {
		t.Errorf("the older one's undo made the limit %d", got)
	}
	second()
	if got := debug.SetMemoryLimit(-1); got != noLimit {
		t.Errorf("after all undos the limit is %d", got)
	}
	second()
}

// TestOthersWin: the environment, the program, and the user who runs it.
func TestOthersWin(t *testing.T) {
	for _, tt := range []struct {
		name, value, why string
	}{
		{"GOMEMLIMIT", "2GiB", "GOMEMLIMIT unchanged: GOMEMLIMIT=2GiB is set in the environment"},
		{"GOMEMLIMIT", "off", "GOMEMLIMIT unchanged: GOMEMLIMIT=off is set in the environment"},
		{"UNTHROTTLE", "off", "GOMEMLIMIT unchanged: it is switched off in the environment"},
		{"UNTHROTTLE_MEMORY", "off", "GOMEMLIMIT unchanged: it is switched off in the environment"},
	} {
		start(t, limited(1000*mib))
		t.Setenv(tt.name, tt.value)
		if d, _ := Set(FromEnv()); d.Bytes != 0 || d.String() != tt.why || debug.SetMemoryLimit(-1) != noLimit {
			t.Errorf("%s=%s: %s, limit %d", tt.name, tt.value, d, debug.SetMemoryLimit(-1))
		}
		t.Setenv(tt.name, "")
	}
	debug.SetMemoryLimit(700 * mib)
	if d, _ := Set(Options{}); d.Bytes != 0 || d.String() != "GOMEMLIMIT unchanged: the program has set a limit of 700 MiB" || debug.SetMemoryLimit(-1) != 700*mib {
		t.Errorf("%s, limit %d", d, debug.SetMemoryLimit(-1))
	}
}

// TestFollows: the kernel's limit goes up, down and away; a limit of the program's own stays.
func TestFollows(t *testing.T) {
	set := start(t, limited(1000*mib))
	_, undo := Set(Options{})
	defer undo()
	for _, bytes := range []int64{2000 * mib, 500 * mib} {
		set(limited(bytes))
		until(t, "a change", func(Decision) bool { return debug.SetMemoryLimit(-1) == bytes/10*9 })
	}
	set(cgroup.Memory{State: cgroup.None})
	until(t, "the limit is gone", func(Decision) bool { return debug.SetMemoryLimit(-1) == noLimit })
	set(limited(600 * mib))
	d := until(t, "another one", func(Decision) bool { return debug.SetMemoryLimit(-1) == 540*mib })
	if d.Changes != 4 {
		t.Errorf("%d changes: %v", d.Changes, d)
	}
	debug.SetMemoryLimit(300 * mib)
	set(limited(800 * mib))
	until(t, "the program's own", func(d Decision) bool { return d.Yielded })
	if got := debug.SetMemoryLimit(-1); got != 300*mib {
		t.Errorf("the program's limit became %d", got)
	}
}

var alive [][]byte

// TestGivesUp: where live memory nearly fills the limit, it is given up, and GOGC is the least one; with room again both are as before.
func TestGivesUp(t *testing.T) {
	set := start(t, limited(1000*mib))
	debug.SetGCPercent(150)
	_, undo := Set(Options{})
	defer undo()
	defer func() { alive = nil }()
	for i := 0; i < 64; i++ {
		alive = append(alive, make([]byte, mib))
	}
	runtime.GC()
	kept.Lock()
	h, ok := readHeap()
	kept.Unlock()
	if !ok {
		t.Skip("this runtime does not tell")
	}
	tight := int64(h.others+h.live) + 6*mib // GOGC 5 or less
	set(limited(tight * 10 / 9))
	d := until(t, "a tight limit", func(d Decision) bool { return d.GivenUp })
	if d.Spirals != 1 || debug.SetMemoryLimit(-1) != noLimit || gogc() != 10 || !strings.Contains(d.String(), "given up for now") {
		t.Errorf("%v: limit %d, GOGC %d", d, debug.SetMemoryLimit(-1), gogc())
	}
	alive = alive[:16]
	for i := 16; i < 64; i++ {
		alive[:64][i] = nil
	}
	d = until(t, "room again", func(d Decision) bool { return !d.GivenUp })
	if got := debug.SetMemoryLimit(-1); got != d.Bytes || gogc() != 150 || !strings.Contains(d.String(), "it was given up once") {
		t.Errorf("%v: limit %d, GOGC %d", d, got, gogc())
	}
	set(limited(tight))
	for i := range alive[:64] {
		alive[:64][i] = make([]byte, mib)
	}
	alive = alive[:64]
	until(t, "a tight limit again", func(d Decision) bool { return d.GivenUp })
	undo()
	if d, _ := Last(); d.GivenUp || gogc() != 150 || debug.SetMemoryLimit(-1) != noLimit {
		t.Errorf("after undo: %v: limit %d, GOGC %d", d, debug.SetMemoryLimit(-1), gogc())
	}
}

// TestGivenUpAndGone: GOGC is as before where the kernel's limit goes away, or the program sets one of its own, while ours is
// given up; and ours comes back with theirs gone.
func TestGivenUpAndGone(t *testing.T) {
	set := start(t, limited(1000*mib))
	debug.SetGCPercent(150)
	_, undo := Set(Options{})
	defer undo()
	defer func() { alive = nil }()
	alive = append(alive[:0], make([]byte, 40*mib))
	tighten(t, set)
	set(cgroup.Memory{State: cgroup.None})
	until(t, "no limit", func(d Decision) bool { return !d.GivenUp && gogc() == 150 })
	set(limited(1000 * mib))
	until(t, "a limit again", func(Decision) bool { return debug.SetMemoryLimit(-1) == 900*mib })

	tighten(t, set)
	debug.SetMemoryLimit(500 * mib)
	until(t, "the program's own", func(d Decision) bool { return d.Yielded && !d.GivenUp && gogc() == 150 })
	debug.SetMemoryLimit(noLimit)
	set(limited(1000 * mib))
	until(t, "ours again", func(d Decision) bool { return !d.Yielded && debug.SetMemoryLimit(-1) == 900*mib })
}

// TestBesideAFloor: the floor waits while the limit is given up, and goes on from where it was.
func TestBesideAFloor(t *testing.T) {
	set := start(t, limited(1000*mib))
	t.Setenv("GOGC", "")
	_, drop := heapfloor.Keep(16 * mib)
	defer drop()
	_, undo := Set(Options{})
	defer undo()
	defer func() { alive = nil }()
	alive = append(alive[:0], make([]byte, 4*mib))
	until(t, "the floor", func(Decision) bool { d, _ := heapfloor.Last(); return d.Percent > 100 && d.Percent == gogc() })
	alive = append(alive, make([]byte, 40*mib))
	tighten(t, set)
	alive = alive[:1]
	alive[:2][1] = nil
	until(t, "room again", func(d Decision) bool { return !d.GivenUp })
	until(t, "the floor again", func(Decision) bool {
		d, _ := heapfloor.Last()
		return !d.Yielded && d.Percent > 100 && d.Percent == gogc()
	})
}

// TestFloor: one call sets both, one undo restores both, also while the limit is given up.
func TestFloor(t *testing.T) {
	set := start(t, limited(1000*mib))
	t.Setenv("GOGC", "")
	defer func() { alive = nil }()
	alive = append(alive[:0], make([]byte, 4*mib))
	raised := func(d Decision) bool { return d.Floor.Percent > 100 && d.Floor.Percent == gogc() }

	d, undo := Set(Options{Floor: 16 * mib})
	if d.Bytes != 900*mib || d.Floor.Bytes != 16*mib || !strings.HasSuffix(d.String(), "90 % of it; heap floor 16 MiB: 16 MiB asked for; GOGC is raised from 100 as far as that needs") {
		t.Errorf("%v", d)
	}
	until(t, "the floor", raised)
	undo()
	undo()
	if debug.SetMemoryLimit(-1) != noLimit || gogc() != 100 {
		t.Errorf("after undo: limit %d, GOGC %d", debug.SetMemoryLimit(-1), gogc())
	}

	_, undo = Set(Options{Floor: 16 * mib})
	until(t, "the floor", raised)
	alive = append(alive, make([]byte, 40*mib))
	tighten(t, set)
	undo()
	if debug.SetMemoryLimit(-1) != noLimit || gogc() != 100 {
		t.Errorf("after undo of a limit that was given up: limit %d, GOGC %d", debug.SetMemoryLimit(-1), gogc())
	}

	// It needs no limit, is cut by one, and is off with everything.
	alive = nil
	set(cgroup.Memory{State: cgroup.None})
	if d, undo := Set(Options{Floor: 16 * mib}); d.Bytes != 0 || d.Floor.Bytes != 16*mib || d.String() != "GOMEMLIMIT unchanged: no memory limit; "+d.Floor.String() {
		t.Errorf("without a limit: %v", d)
	} else if undo(); gogc() != 100 {
		t.Errorf("GOGC %d", gogc())
	}
	set(limited(64 * mib))
	if d, undo := Set(Options{Floor: 64 * mib}); d.Bytes != 56*mib || d.Floor.Bytes == 0 || d.Floor.Bytes > 16*mib || !strings.Contains(d.String(), "by the memory limit of ") {
		t.Errorf("with a small limit: %v", d)
	} else if undo(); gogc() != 100 {
		t.Errorf("GOGC %d", gogc())
	}
	t.Setenv("UNTHROTTLE", "off")
	t.Setenv("UNTHROTTLE_HEAP_FLOOR", "16MiB")
	if d, _ := Set(FromEnv()); d.Floor.Bytes != 0 || gogc() != 100 {
		t.Errorf("off: %v, GOGC %d", d, gogc())
	}
	t.Setenv("UNTHROTTLE", "")
	if d, undo := Set(FromEnv()); d.Floor.Asked != 16*mib || d.Floor.Bytes == 0 {
		t.Errorf("by the environment: %v", d)
	} else {
		undo()
	}
}

func TestFloorFromEnv(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "32MiB": 32 * mib, "1048576": mib, "lots": 0} {
		o := fromEnv(func(name string) string { return map[string]string{"UNTHROTTLE_HEAP_FLOOR": text}[name] })
		if warned := text == "lots"; o.Floor != want || (len(o.warnings) == 1) != warned || warned && o.warnings[0].Error() != "UNTHROTTLE_HEAP_FLOOR=lots: want a size such as 32MiB" {
			t.Errorf("%q: %d, %v", text, o.Floor, o.warnings)
		}
	}
}

// TestNews: a limit that is given up repeatedly has a line a minute, and anything else one at once.
func TestNews(t *testing.T) {
	begin := time.Now()
	k := &keeper{options: Options{Logf: t.Logf}}
	for i, step := range []struct {
		after   time.Duration
		change  func(*Decision)
		isSaid  bool
		however string
	}{
		{0, func(*Decision) {}, false, "nothing has changed"},
		{time.Second, func(d *Decision) { d.GivenUp, d.Spirals = true, 1 }, true, "the first time"},
		{2 * time.Second, func(d *Decision) { d.GivenUp = false }, false, "a second later"},
		{30 * time.Second, func(d *Decision) { d.GivenUp, d.Spirals = true, 2 }, false, "again"},
		{40 * time.Second, func(d *Decision) { d.Changes = 1 }, true, "the kernel's limit has changed"},
		{95 * time.Second, func(d *Decision) { d.GivenUp = false }, false, "not a minute after that"},
		{100 * time.Second, func(*Decision) {}, true, "a minute later, as it is then"},
		{200 * time.Second, func(*Decision) {}, false, "that was told"},
		{210 * time.Second, func(d *Decision) { d.Spirals = 3 }, true, "given up and set again between two looks"},
		{211 * time.Second, func(d *Decision) { d.Yielded = true }, true, "the program's own"},
	} {
		step.change(&k.d)
		if line := k.news(begin.Add(step.after)); (line != "") != step.isSaid {
			t.Errorf("%d, %s: %q", i, step.however, line)
		}
	}
	if k.options.Logf = nil; k.news(begin.Add(time.Hour)) != "" {
		t.Error("a line without a log")
	}
}

// TestLogf: each decision is a line, those after a collection too, and warnings come first.
func TestLogf(t *testing.T) {
	set := start(t, limited(1000*mib))
	var mu sync.Mutex
	var lines []string
	_, undo := Set(Options{Share: 0.96, Logf: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, fmt.Sprintf(format, args...))
		panic("a logger that panics ends nothing")
	}})
	defer undo()
	set(limited(500 * mib))
	until(t, "a change", func(Decision) bool { mu.Lock(); defer mu.Unlock(); return len(lines) > 2 })
	debug.SetMemoryLimit(300 * mib)
	until(t, "the program's own", func(Decision) bool { mu.Lock(); defer mu.Unlock(); return len(lines) > 3 })
	for i := 0; i < 20; i++ { // nothing happens
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, want := range []string{"unthrottle: a share above 95 % leaves", "unthrottle: GOMEMLIMIT=960 MiB: limit 1000 MiB", "unthrottle: GOMEMLIMIT=480 MiB: limit 500 MiB", "unthrottle: GOMEMLIMIT=480 MiB: limit 500 MiB at /sys/fs/cgroup/app; 96 % of it; the program has set another limit since, which stays"} {
		if len(lines) != 4 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("%d of %d: %q, want %q", i, len(lines), lines[min(i, len(lines)-1)], want)
		}
	}
	if _, off := Set(Options{}); len(lines) != 4 {
		t.Errorf("without a Logf: %q", lines)
	} else {
		off()
	}
}

// TestKeepsWhatever: a value below zero means no least GOGC.
func TestKeepsWhatever(t *testing.T) {
	start(t, limited(40*mib))
	_, undo := Set(Options{MinGOGC: -1})
	defer undo()
	alive = append(alive[:0], make([]byte, 40*mib))
	defer func() { alive = nil }()
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if d, _ := Last(); d.GivenUp || debug.SetMemoryLimit(-1) != 32*mib {
		t.Errorf("%v: limit %d", d, debug.SetMemoryLimit(-1))
	}
}

func TestEffective(t *testing.T) {
	h := heap{percent: 100, live: 80 * mib, scanned: 0, others: 10 * mib}
	for limit, want := range map[int64]float64{110 * mib: 21.25, 90 * mib: -3, 200 * mib: 130.375} {
		if got := h.effective(limit); math.Abs(got-want) > 0.01 {
			t.Errorf("at %d: %v, want %v", limit/mib, got, want)
		}
	}
}
