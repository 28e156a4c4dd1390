package tune

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

const mib = 1 << 20

// memoryWorld has a server that is killed under 64 MiB, collects all the time under 128, and is fast from 256 on.
func memoryWorld() (*Study, *world) {
	w := newWorld()
	w.slo = 0.05
	w.cpu = func(s lab.Setting) float64 {
		switch {
		case s.Memory == 0:
			return 0.0008
		case s.Memory <= 128*mib:
			return 0.004
		}
		return 0.001
	}
	w.p99 = func(s lab.Setting, _ float64) float64 { return 20 * w.cpu(s) }
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		if x.killed = x.setting.Memory == 64*mib; x.killed {
			x.died = "out of memory: limit 64 MiB"
		}
		return trial.Window{}, nil, false
	}
	return newStudy(Plan{Memories: []int64{0, 256 * mib, 64 * mib, 128 * mib, 512 * mib}, GOMEMLIMIT: true, Rate: 100, SLO: "p99=50ms"}), w
}

// under is the setting of these tests under a memory limit.
func under(memory int64) LimitTry { return LimitTry{Under{1, memory}, 2, true} }

func TestExecuteMemoryLimits(t *testing.T) {
	s, w := memoryWorld()
	j := mustDo(t, s, w)
	want := []LimitTry{under(64 * mib), under(128 * mib), under(256 * mib), under(512 * mib), under(0)}
	if tries := s.Tries(); !slices.Equal(tries, want) {
		t.Errorf("tries %v", tries)
	}
	l := limitsOf(t, s)
	for _, test := range []struct {
		memory int64
		Hold
	}{
		{64 * mib, Hold{Answer: Fails, Of: failWindows, Killed: failWindows}},
		{128 * mib, Hold{Answer: Fails, Of: failWindows + 1}}, // once more after the larger one
		{256 * mib, Hold{Answer: Holds, Held: HoldWindows + besideWindows, Of: HoldWindows + besideWindows}},
		{512 * mib, Hold{Answer: Open, Held: besideWindows, Of: besideWindows}},
		{0, Hold{Answer: Open, Held: besideWindows, Of: besideWindows}},
	} {
		if got := l.Hold(under(test.memory)); got.Answer != test.Answer || got.Held != test.Held || got.Of != test.Of || got.Killed != test.Killed {
			t.Errorf("%d MiB: %+v", test.memory/mib, got)
		}
	}
	if !slices.Equal(w.rushes, slices.Repeat([]int{1000}, len(s.Windows))) {
		t.Errorf("at once: %v, for %d windows", w.rushes, len(s.Windows))
	}
	// What more memory saves is seen by windows in turns, with the same arrivals.
	var turns []int64
	seeds := map[int64][]uint64{}
	for i, window := range s.Windows {
		if window.Phase == BesidePhase {
			turns = append(turns, window.Memory/mib)
			seeds[window.Memory] = append(seeds[window.Memory], w.shots[i].Seed)
		}
		if peak := lab.PeakMemory.In(window.Metrics); peak != 1<<20 { // as each run of this world has it
			t.Errorf("window %d: a peak of %v", i, peak)
		}
	}
	if !slices.Equal(turns, slices.Repeat([]int64{256, 512, 0}, besideWindows)) {
		t.Errorf("turns %v", turns)
	}
	if !slices.Equal(seeds[256*mib], seeds[0]) || !slices.Equal(seeds[256*mib], seeds[512*mib]) || slices.Contains(seeds[0], w.shots[0].Seed) {
		t.Errorf("seeds %v", seeds)
	}
	if answer, anything := l.Unfinished(); answer || anything {
		t.Error("something is still wanted")
	}
	for _, shot := range w.shots {
		if want := map[int64]string{64 * mib: "56MiB", 128 * mib: "115MiB", 256 * mib: "230MiB", 512 * mib: "460MiB"}[shot.setting.Memory]; shot.setting.GOMEMLIMIT != want {
			t.Errorf("%+v", shot.setting)
		}
	}
	// Read again it is the same, and nothing is left to do.
	again, _, err := Read(j.all())
	if err != nil {
		t.Fatal(err)
	}
	if mustDo(t, again, w); len(again.Windows) != len(s.Windows) {
		t.Errorf("%d windows, and %d before", len(again.Windows), len(s.Windows))
	}
}

// A limit under which the server is killed while it is compared does not hold the SLO after all, and the next larger one is tried.
func TestMemoryLimitsLateKill(t *testing.T) {
	s, w := memoryWorld()
	inner, ofIt := w.shoot, 0
	w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
		if x.setting.Memory == 256*mib {
			if ofIt++; ofIt > HoldWindows {
				x.killed, x.died = true, "out of memory: limit 256 MiB"
				return trial.Window{}, nil, false
			}
		}
		return inner(x, n)
	}
	mustDo(t, s, w)
	l := limitsOf(t, s)
	if h := l.Hold(under(256 * mib)); h.Answer == Holds || h.Killed == 0 {
		t.Errorf("256 MiB: %+v", h)
	}
	if h := l.Hold(under(512 * mib)); h.Answer != Holds {
		t.Errorf("512 MiB: %+v", h)
	}
}

// One that was killed is not looked at again, as one that only was slow is: the machine's being busy does not kill.
func TestMemoryLimitsKilledOnce(t *testing.T) {
	s, w := memoryWorld()
	s.Plan.Memories = []int64{128 * mib, 256 * mib}
	cost, windows := w.cpu, 0
	w.cpu = func(s lab.Setting) float64 {
		if s.Memory == 128*mib { // fast enough, where it lives
			return 0.001
		}
		return cost(s)
	}
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		if x.setting.Memory == 128*mib {
			if windows++; windows <= 3 {
				x.killed, x.died = true, "out of memory: limit 128 MiB"
			}
		}
		return trial.Window{}, nil, false
	}
	mustDo(t, s, w)
	l := limitsOf(t, s)
	if h := l.Hold(under(128 * mib)); h.Answer != Fails || h.Killed != 3 || h.Of != failWindows || windows != failWindows {
		t.Errorf("%+v, %d windows", h, windows)
	}
	if h := l.Hold(under(256 * mib)); h.Answer != Holds {
		t.Errorf("256 MiB: %+v", h)
	}
}

// One that is killed as it starts gets no second chance, nor one that does not get ready for long.
func TestMemoryLimitsNoStart(t *testing.T) {
	for _, failed := range []service.Error{{Why: "out of memory: limit 64 MiB", Killed: true}, {Why: "it was not ready within 1m0s", Apart: true}} {
		s, w := memoryWorld()
		s.Plan.Memories = []int64{64 * mib, 256 * mib}
		starts := 0
		w.start = func(set lab.Setting, _ int) error {
			if set.Memory != 64*mib {
				return nil
			}
			if starts++; starts > 1 {
				return nil
			}
			if !failed.Killed {
				w.now = w.now.Add(time.Minute)
			}
			return &failed
		}
		mustDo(t, s, w)
		h := limitsOf(t, s).Hold(under(64 * mib))
		if h.Answer != Fails || h.NoStart != failed.Why || h.Killed > 0 != failed.Killed || h.Of != 1 || starts != 1 {
			t.Errorf("%+v, %d starts", h, starts)
		}
	}
}

// Wherever it is interrupted it goes on as if it had not been.
func TestMemoryLimitsGoOn(t *testing.T) {
	s, w := memoryWorld()
	all := mustDo(t, s, w)
	for lines := range len(all.lines) {
		part, _, err := Read(all.first(lines))
		if err != nil {
			t.Fatal(err)
		}
		_, w := memoryWorld()
		if _, err := do(t, context.Background(), part, w); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(part.Windows, s.Windows, func(a, b LimitWindow) bool { return a.Under == b.Under && a.Phase == b.Phase && a.Held == b.Held }) {
			t.Errorf("after %d lines it went on otherwise", lines)
		}
	}
}

// The largest of all leaves nothing to compare it with, and a program that has its own GOMEMLIMIT keeps it.
func TestMemoryLimitsLargest(t *testing.T) {
	s, w := memoryWorld()
	s.Plan.Memories, s.Plan.GOMEMLIMIT = []int64{128 * mib, 256 * mib}, false
	mustDo(t, s, w)
	for _, window := range s.Windows {
		if window.Phase != HoldPhase {
			t.Errorf("%+v", window)
		}
	}
	for _, shot := range w.shots {
		if shot.setting.GOMEMLIMIT != "" {
			t.Errorf("%+v", shot.setting)
		}
	}
}

// Room is what a memory limit leaves at the peak of a typical window.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		limit   int64
		elastic bool
		peaks   []float64
		file    float64
		want    bool
	}{
		{100, false, []float64{81, 81, 81}, 0, true},
		{100, false, []float64{80, 80, 80}, 90, false},
		{100, false, []float64{81, 81}, 0, false}, // too few
		{100, false, []float64{99, 60, 60}, 0, false},
		{0, false, []float64{81, 81, 81}, 90, false},
		{100, true, []float64{90, 90, 90}, 10, false},
		{100, true, []float64{90, 90, 90}, 11, true},
		{100, true, []float64{80, 80, 80}, 90, false},
	} {
		r := room{limit: c.limit, elastic: c.elastic}
		for _, peak := range c.peaks {
			r.add(LimitWindow{Metrics: map[string]float64{"peak-RSS-bytes": peak, "program-file-bytes": c.file}})
		}
		r.add(LimitWindow{Killed: true, Metrics: map[string]float64{"peak-RSS-bytes": 1000}})
		r.add(LimitWindow{})
		if got := r.full(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestLimitRush: as many requests as arrive in ten seconds are under way, and no more than there may be connections.
func TestLimitRush(t *testing.T) {
	for _, c := range []struct {
		rate        float64
		conns, want int
	}{{0.5, 0, 10}, {60, 0, 600}, {2430, 0, 1000}, {2430, 50, 50}, {2430, 5000, 5000}, {0, 0, 0}} {
		s := Study{Plan: Plan{Memories: []int64{256 * mib, 512 * mib}, Conns: c.conns}}
		if got := s.LimitRush(c.rate); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := new(Study).LimitRush(100); got != 0 {
		t.Errorf("without memory limits: %d", got)
	}
}

// A server that dies of the overload has met no goal, though the window after them would have been good.
func TestMemoryLimitsRush(t *testing.T) {
	s, w := memoryWorld()
	s.Plan.Memories = []int64{256 * mib, 512 * mib}
	w.rushed = func(x *fakeSession) {
		if x.setting.Memory == 256*mib {
			x.killed, x.died = true, "out of memory: limit 256 MiB"
		}
	}
	w.shoot = nil
	mustDo(t, s, w)
	l := limitsOf(t, s)
	if h := l.Hold(under(256 * mib)); h.Answer != Fails || h.Killed != failWindows {
		t.Errorf("256 MiB: %+v", h)
	}
	if h := l.Hold(under(512 * mib)); h.Answer != Holds {
		t.Errorf("512 MiB: %+v", h)
	}
}

// A limit that leaves too little room is not advised, though all windows held: the next larger one is tried.
func TestMemoryLimitsFull(t *testing.T) {
	s, w := memoryWorld()
	s.Plan.Memories = []int64{192 * mib, 256 * mib}
	w.peak = func(s lab.Setting) float64 { return map[int64]float64{192 * mib: 180, 256 * mib: 180}[s.Memory] * mib }
	w.file = 40 * mib
	mustDo(t, s, w)
	l := limitsOf(t, s)
	if h := l.Hold(under(192 * mib)); h.Answer != Full || h.Held != failWindows || h.Of != failWindows {
		t.Errorf("192 MiB: %+v", h)
	}
	if h := l.Hold(under(256 * mib)); h.Answer != Holds {
		t.Errorf("256 MiB: %+v", h)
	}
}

// A plan that isn't ours is refused.
func TestMemoryLimitsPlan(t *testing.T) {
	for name, change := range map[string]func(*Study){
		"both":          func(s *Study) { s.Plan.Limits, s.Defaults = []float64{1, 2}, []int{2, 2} },
		"negative":      func(s *Study) { s.Plan.Memories[0] = -1 },
		"too large":     func(s *Study) { s.Plan.Memories[0] = mostMemory + 1 },
		"too many":      func(s *Study) { s.Plan.Memories = make([]int64, mostLimits+1) },
		"no default":    func(s *Study) { s.Defaults = nil },
		"no rate":       func(s *Study) { s.Plan.Rate = 0 },
		"a curve":       func(s *Study) { s.Windows = []LimitWindow{{Under: Under{CPUs: 1}, Procs: 2, Phase: "bend"}} },
		"another limit": func(s *Study) { s.Windows = []LimitWindow{{Under: Under{1, 3}, Procs: 2, Phase: HoldPhase, Rate: 100}} },
		"another rate": func(s *Study) {
			s.Windows = []LimitWindow{{Under: Under{CPUs: 1}, Procs: 2, Phase: BesidePhase, Rate: 3}}
		},
		"none of the kind": func(s *Study) { s.Plan.Kind = JobKind },
	} {
		s, _ := memoryWorld()
		change(s)
		err := s.checkPlan()
		if _, reading := s.Limits(); err == nil && reading == nil {
			t.Errorf("%s: nothing is said of it", name)
		}
	}
}
