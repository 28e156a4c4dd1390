package view

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// profiles are documents of real profiles, with what is known of their processes made up.
func profiles() map[string]*report.Profile {
	read := func(name string) *cpuprofile.Profile {
		f, err := os.Open("../../diagnose/cpuprofile/testdata/" + name + ".pb.gz")
		if err != nil {
			panic(err)
		}
		defer f.Close()
		p, err := cpuprofile.Read(f)
		if err != nil {
			panic(err)
		}
		return p
	}
	few := func(d *report.Profile) *report.Profile { // a golden file need not have all frames
		d.Header = report.Header{Version: report.Version, Verb: "profile", MadeBy: "unthrottle test", Time: "2026-01-02T03:04:05Z"}
		d.Frames = slices.DeleteFunc(d.Frames, func(f report.ProfileFrame) bool { return f.Depth > 8 || f.CPU < 0.1 })
		return d
	}
	alone := report.NewProfile(report.ProfileFacts{Profile: read("procs192-go121"), Source: "cpu.pb.gz"})
	alone.Command = []string{"unthrottle", "profile", "cpu.pb.gz"}

	start := time.Unix(1000, 0)
	live := report.NewProfile(report.ProfileFacts{
		Profile: read("procs192"), Source: "http://localhost:6060/debug/pprof/profile?seconds=6", Saved: "now.pb.gz",
		Base: read("procs1"), BaseSource: "base.pb.gz", Units: 36374, BaseUnits: 68014, PID: 4711, Name: "agent",
		Limits: &cgroup.Limits{State: cgroup.Limited, CPUs: 1, From: "/sys/fs/cgroup/agent", Affinity: 192}, Live: 192,
		Readings: []host.Reading{
			{At: start, Counters: cgroup.Counters{Known: true, CPUKnown: true}},
			{At: start.Add(6 * time.Second), Counters: cgroup.Counters{Known: true, Periods: 61, Throttled: 60, CPUKnown: true, CPU: 6180 * time.Millisecond}},
		},
		Demand: &goself.Demand{Wanted: 94.6, Got: 1.03, Covered: 5800 * time.Millisecond}, DemandOver: "profile",
	})
	live.Command = []string{"unthrottle", "profile", "localhost:6060", "--base", "base.pb.gz"}

	healthy := report.NewProfile(report.ProfileFacts{Profile: read("procs1"), Source: "cpu.pb.gz", LimitGiven: 1})
	empty := report.NewProfile(report.ProfileFacts{Profile: &cpuprofile.Profile{Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{}}, Source: "-"})
	return map[string]*report.Profile{"alone": few(alone), "live": few(live), "healthy": few(healthy), "empty": few(empty)}
}

// hostileProfile has texts from outside in every place that has any.
func hostileProfile() *report.Profile {
	d := profiles()["live"]
	d.Command, d.Source, d.Pod, d.Saved, d.Program, d.MadeBy = []string{hostile}, hostile, hostile, hostile, hostile, hostile
	d.Limit.From, d.Process.Name, d.Base.Source, d.Base.Program = hostile, hostile, hostile, hostile
	d.Why, d.Warnings = []string{hostile}, []string{hostile}
	for i := range d.Classes {
		d.Classes[i].Name, d.Classes[i].About, d.Classes[i].Top = hostile, hostile, []report.ProfileFunction{{Name: hostile, CPU: 1}}
	}
	for i := range d.Frames {
		d.Frames[i].Function, d.Frames[i].Class = hostile, hostile
	}
	return d
}

func TestProfile(t *testing.T) {
	for name, d := range profiles() {
		s := Profile(d)
		golden(t, "profile "+name, s)
		shown(t, s)
		if name != "healthy" { // which has nothing that the others have not
			screen(t, "profile "+name, s)
		}
		sane(t, s)
		selfContained(t, s)
	}
	d := hostileProfile()
	harmless(t, Profile(d))
	if d.Warnings[0] != hostile || d.Frames[0].Function != hostile {
		t.Error("the document was changed")
	}
}

// TestProfileOdd renders documents that no profile makes, but a file may hold.
func TestProfileOdd(t *testing.T) {
	negative := profiles()["live"]
	for i := range negative.Frames {
		negative.Frames[i].Depth, negative.Frames[i].CPU = 5-i, -1
	}
	for i := range negative.Classes {
		negative.Classes[i].CPU, negative.Classes[i].Share, *negative.Excess.Share = -1, -3, -7
	}
	huge := profiles()["live"]
	huge.CPU, *huge.Seconds, huge.Demand.Ratio, *huge.Base.PerUnit, huge.Samples = 1e300, 1e300, 1e300, 1e300, math.MaxInt64
	deep := profiles()["live"]
	deep.Frames = nil
	for i := range 200 {
		deep.Frames = append(deep.Frames, report.ProfileFrame{Depth: i + 1, Function: "f", Class: "program", CPU: 1})
	}
	jump := profiles()["live"]
	jump.Frames = []report.ProfileFrame{{Depth: 90, Function: "a", CPU: 9}, {Depth: -1, Function: "b", CPU: 9}, {Depth: math.MaxInt, CPU: 1e300}}
	for name, d := range map[string]*report.Profile{
		"nothing": {}, "negative": negative, "huge": huge, "deep": deep, "jump": jump,
		"parts": {Base: &report.ProfileBase{}, Demand: &report.ProfileDemand{}, Process: &report.ProfileProcess{}, CPU: 1, Frames: make([]report.ProfileFrame, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			s := Profile(d)
			sane(t, s)
			for _, f := range profileFrames(s) {
				if !(f.From >= 0 && f.Width >= 0 && f.From+f.Width <= 1+1e-9) {
					t.Errorf("a frame is beside the graph: %+v", f)
				}
			}
		})
	}
}

// profileFrames are those of the flame graph, if there is one.
func profileFrames(s *sheet.Sheet) []sheet.Frame {
	for _, section := range s.Sections {
		for _, b := range section.Blocks {
			if flame, ok := b.(*sheet.Flame); ok {
				return flame.Frames
			}
		}
	}
	return nil
}

// TestProfileColors holds that each class has a colour of its own.
func TestProfileColors(t *testing.T) {
	if len(profileColors) != sheet.FlameColors || len(cpuprofile.Classes()) != sheet.FlameColors {
		t.Errorf("%d colours of %d, for %d classes", len(profileColors), sheet.FlameColors, len(cpuprofile.Classes()))
	}
	for _, c := range cpuprofile.Classes() {
		if profileColor(c.Name) == sheet.NoColor {
			t.Errorf("%s has no colour", c.Name)
		}
	}
}

// randomProfile is of a program that wants some CPUs under a limit, with what else may be known of it.
func randomProfile(random *rand.Rand) *report.Profile {
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	cpus, wants, node, procs := pick(0, 0.3, 0.5, 1, 1.5, 3), pick(0, 0.02, 0.3, 1, 2, 4), pick(1, 2, 4, 16), pick(0, 1, 2, 4, 16, 64)
	used := min(wants, node)
	if procs > 0 {
		used = min(used, procs)
	}
	if cpus > 0 {
		used = min(used, cpus)
	}
	of := func(excess float64) *cpuprofile.Profile {
		p := &cpuprofile.Profile{
			Program: "server", Duration: seconds(pick(0.5, 5, 30)), Period: 10 * time.Millisecond, NoIdle: random.IntN(8) == 0,
			Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{},
		}
		for i, c := range cpuprofile.Classes() {
			share := 1 - excess
			if c.Excess {
				share = excess
			}
			u := &p.Classes[i]
			u.Samples = int64(share * random.Float64() * used * p.Duration.Seconds() * 100 / 3)
			u.CPU = time.Duration(u.Samples) * p.Period
			p.Samples, p.CPU = p.Samples+u.Samples, p.CPU+u.CPU
		}
		return p
	}
	f := report.ProfileFacts{Profile: of(pick(0, 0.02, 0.1, 0.4)), Source: "cpu.pb.gz", Live: int(procs)}
	switch known := random.IntN(4); {
	case known == 0:
		f.LimitGiven = cpus
	case known > 1:
		start, wall := time.Unix(1000, 0), f.Profile.Duration
		limits := cgroup.Limits{State: cgroup.None, Affinity: int(node)}
		c := cgroup.Counters{CPUKnown: true, CPU: f.Profile.CPU + seconds(pick(0, 0, 0.1)*used*wall.Seconds())}
		if cpus > 0 {
			limits.State, limits.CPUs, limits.From = cgroup.Limited, cpus, "/sys/fs/cgroup/app"
			c.Known, c.Periods = true, int64(10*wall.Seconds())
			if wants > cpus {
				c.Throttled = int64(pick(0.1, 0.6, 1) * float64(c.Periods))
			}
		}
		f.PID, f.Name, f.Limits = 4711, "server", &limits
		f.Readings = []host.Reading{{At: start, Counters: cgroup.Counters{Known: c.Known, CPUKnown: true}}, {At: start.Add(wall), Counters: c}}
		if wanted := min(wants, max(procs, 1)); used > 0 && random.IntN(2) == 0 {
			f.Demand, f.DemandOver = &goself.Demand{Wanted: max(wanted, used), Got: used, Covered: wall}, "profile"
		}
	}
	if random.IntN(3) == 0 {
		f.Base, f.BaseSource = of(pick(0, 0.1)), "base.pb.gz"
	}
	d := report.NewProfile(f)
	return d
}

// TestProfileAgrees draws random profiles: no sentence of one denies another, nor the figures next to it.
func TestProfileAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	hints := map[string]int{}
	for range 2000 {
		d := randomProfile(random)
		hints[d.Hint()]++
		text := drawn(t, Profile(d), 0)
		if bad := contradictions(text); len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	if len(hints) < 10 {
		t.Errorf("%v", hints)
	}
}
