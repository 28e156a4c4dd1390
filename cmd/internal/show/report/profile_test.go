package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// cpuProfile reads a profile of the package that reads them.
func cpuProfile(t *testing.T, name string) *cpuprofile.Profile {
	t.Helper()
	data, err := os.ReadFile("../../diagnose/cpuprofile/testdata/" + name + ".pb.gz")
	if err != nil {
		t.Fatal(err)
	}
	p, err := cpuprofile.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(v *float64, want float64) bool { return v != nil && math.Abs(*v-want) < 1e-3 }

// TestNewProfile holds a profile at GOMAXPROCS 192 against one at 1. The program's own count was 36374 requests in the
// one and 68014 in the other; 66 of 540 samples are excess, 6 of 595 were.
func TestNewProfile(t *testing.T) {
	start := time.Unix(1000, 0)
	d := NewProfile(ProfileFacts{
		Profile: cpuProfile(t, "procs192"), Source: "a.pb.gz", Base: cpuProfile(t, "procs1"), BaseSource: "b.pb.gz", Units: 36374, BaseUnits: 68014,
		Limits: &cgroup.Limits{State: cgroup.Limited, CPUs: 1, From: "/sys/fs/cgroup/a"}, PID: 7, Name: "agent", Live: 192, MetricsProcs: 5,
		Readings: []host.Reading{
			{At: start, Counters: cgroup.Counters{Known: true, Periods: 10, Throttled: 1, CPUKnown: true, CPU: time.Second}},
			{At: start.Add(6 * time.Second), Counters: cgroup.Counters{Known: true, Periods: 70, Throttled: 58, CPUKnown: true, CPU: 7300 * time.Millisecond}},
		},
		Demand: &goself.Demand{Wanted: 100, Got: 1.05, Covered: 5 * time.Second}, DemandOver: "profile",
	})
	if !near(d.Excess.Share, 66./540) || d.Excess.Amount != "much" || !near(d.Excess.Margin, 0.0276) {
		t.Errorf("excess is %+v", d.Excess)
	}
	if !near(d.Interrupt, 46./540) {
		t.Errorf("interrupted: %v", *d.Interrupt)
	}
	if !near(d.Limit.Share, 1.05) || d.Limit.ShareBy != "kernel" || !*d.Limit.Saturated || d.Limit.From != "/sys/fs/cgroup/a" {
		t.Errorf("the limit is %+v", d.Limit)
	}
	if *d.Procs != 192 || d.ProcsFrom != "live" || *d.Process.ThrottledPeriods != 57 || !near(d.Process.ThrottledShare, 0.95) {
		t.Errorf("the process: %+v, GOMAXPROCS %d", d.Process, *d.Procs)
	}
	if math.Abs(d.Demand.Ratio-95.24) > 0.01 {
		t.Errorf("the demand is %+v", d.Demand)
	}
	b := d.Base
	if !near(b.PerUnit, 5.4/36374/(5.95/68014)) || !near(b.ExcessAdded, (0.66/36374-0.06/68014)/(5.95/68014)) || !near(b.ExcessShare, 6./595) {
		t.Errorf("the base: %v, %v", *b.PerUnit, *b.ExcessAdded)
	}
	steal := d.Classes[5]
	if steal.Name != "steal" || steal.Samples != 18 || steal.PerUnit != nil || !near(steal.BaseShare, 0) || len(steal.Top) == 0 {
		t.Errorf("steal: %+v", steal)
	}
	if d.Verdict != "none" || len(d.Why) != 2 {
		t.Errorf("verdict %q, %q", d.Verdict, d.Why)
	}
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "samples for 0.89 of the 1.05 CPUs") {
		t.Errorf("warnings: %q", d.Warnings)
	}
	depth, sum := 0, 0.0
	for _, f := range d.Frames {
		if f.Depth < 1 || f.Depth > depth+1 {
			t.Fatalf("a frame of depth %d comes after one of %d", f.Depth, depth)
		}
		if depth = f.Depth; depth == 1 {
			sum += f.CPU
		}
	}
	if len(d.Frames) > framesMost || sum > d.CPU || sum < 0.95*d.CPU {
		t.Errorf("%d frames, whose roots have %.2f of %.2f s", len(d.Frames), sum, d.CPU)
	}
	var text bytes.Buffer
	if err := WriteJSON(&text, d); err != nil {
		t.Fatal(err)
	}
	var again Profile
	if err := json.Unmarshal(text.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
}

// TestNewProfileLittle is what there is of a file alone.
func TestNewProfileLittle(t *testing.T) {
	d := NewProfile(ProfileFacts{Profile: cpuProfile(t, "procs192-go121"), Source: "-", LimitGiven: 0.5})
	if d.Limit.From != "--limit" || d.Limit.ShareBy != "profile" || !*d.Limit.Saturated || d.Process != nil || d.Procs != nil || d.Base != nil || d.Demand != nil {
		t.Errorf("got %+v", d)
	}
	all := strings.Join(d.Warnings, "\n")
	for _, want := range []string{"only 234 samples", "Go 1.21 or older"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning says %q: %s", want, all)
		}
	}
	empty := NewProfile(ProfileFacts{Profile: &cpuprofile.Profile{Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{}}})
	if empty.Excess.Share != nil || empty.Interrupt != nil || empty.CPUs != nil || empty.Limit.State != "not given" || len(empty.Warnings) != 1 {
		t.Errorf("without samples: %+v", empty)
	}
}

// TestNewProfileWork takes CPU time of the program's own code for the work that was done.
func TestNewProfileWork(t *testing.T) {
	p := cpuProfile(t, "procs2")
	d := NewProfile(ProfileFacts{Profile: p, Base: p})
	if d.Base.UnitsBy != "program" || !near(d.Base.PerUnit, 1) || !near(d.Base.ExcessAdded, 0) {
		t.Errorf("a profile beside itself: %+v", d.Base)
	}
	for _, c := range d.Classes {
		if c.CPU > 0 && !near(c.PerUnit, 1) {
			t.Errorf("a profile beside itself: %+v", c)
		}
	}
}

func TestProfileHint(t *testing.T) {
	procs, two, one, half := 8, 2, 1.0, 0.5
	for _, c := range []struct {
		d    Profile
		want string
	}{
		{Profile{Excess: ProfileExcess{Amount: "little"}}, "under 3 % is what programs have at GOMAXPROCS 1 too"},
		{Profile{Excess: ProfileExcess{Amount: "some"}}, "between 3 and 8 % says little by itself"},
		{Profile{Procs: &procs, Limit: ProfileLimit{CPUs: &one}}, "with GOMAXPROCS 8 at a limit of 1 CPU that suggests that too many Ps cost CPU time; unthrottle tune measures how much"},
		{Profile{Procs: &two, Limit: ProfileLimit{CPUs: &one}}, "with GOMAXPROCS 2 at a limit of 1 CPU that suggests that too many Ps cost CPU time; unthrottle tune measures how much"},
		{Profile{Procs: new(1), Limit: ProfileLimit{CPUs: &half}}, "no smaller GOMAXPROCS could use all of the limit: it is how the program works, or a burst of short wake-ups"},
		{Profile{Procs: &procs}, "above 8 % suggests that too many Ps cost CPU time, if GOMAXPROCS is above the limit: see --pid and --limit"},
	} {
		if got := c.d.Hint(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	for ratio, want := range map[float64]string{
		1:    "1 P for each CPU that it got: they hardly had to wait",
		1.02: "1.02 Ps for each CPU that it got: they hardly had to wait",
		1.3:  "1.3 Ps for each CPU that it got: they had to wait",
	} {
		if got := (&ProfileDemand{Ratio: ratio}).Text(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	twice := 2.0
	if !(ProfileClass{Excess: true, PerUnit: &twice}).Costly() || (ProfileClass{PerUnit: &twice}).Costly() || (ProfileClass{Excess: true, PerUnit: &one}).Costly() || (ProfileClass{Excess: true}).Costly() {
		t.Error("what is costly")
	}
}
