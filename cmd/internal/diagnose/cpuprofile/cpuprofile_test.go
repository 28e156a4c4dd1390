package cpuprofile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var update = flag.Bool("update", false, "write what was read into the golden files")

// The profiles in testdata are of one program, a server with its own clients that decodes JSON in four goroutines a
// request, under a limit of one CPU on a machine of two: at GOMAXPROCS 1, 2 and 192, built by Go 1.26.11, and at 192 built
// by Go 1.21.13.
func TestRead(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.pb.gz")
	if len(files) < 4 {
		t.Fatalf("there are %d profiles in testdata", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		sameSums(t, p)
		got, name := summary(p), strings.TrimSuffix(file, ".pb.gz")+".golden"
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// summary is a profile as text.
func summary(p *Profile) string {
	var b strings.Builder
	samples := int64(0) // of what grows with GOMAXPROCS
	fmt.Fprintf(&b, "%s %v of %v, %d samples, every %v, interrupted %v, no idle %v\n", p.Program, p.CPU, p.Duration.Round(time.Millisecond), p.Samples, p.Period, p.Interrupted, p.NoIdle)
	for i, u := range p.Classes {
		if classes[i].Excess {
			samples += u.Samples
		}
		fmt.Fprintf(&b, "%-10s %3d %v", classes[i].Name, u.Samples, u.CPU)
		if len(u.Top) > 0 {
			fmt.Fprintf(&b, " %s %v", u.Top[0].Name, u.Top[0].CPU)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "excess %d %v\n", samples, p.Excess())
	for _, f := range p.Prune(0.1, 10).Children {
		fmt.Fprintf(&b, "root %s %s %v\n", f.Name, classes[f.Class].Name, f.CPU)
	}
	return b.String()
}

// sameSums checks what is true of every profile.
func sameSums(t *testing.T, p *Profile) {
	t.Helper()
	var cpu time.Duration
	for _, u := range p.Classes {
		cpu += u.CPU
		if u.CPU < 0 || u.Samples < 0 || len(u.Top) > topMost {
			t.Errorf("a class has %+v", u)
		}
	}
	if len(p.Classes) != len(Classes()) || cpu != p.CPU || p.Root.CPU != p.CPU || p.Interrupted > p.CPU {
		t.Errorf("%d classes have %v, the root %v, and all is %v", len(p.Classes), cpu, p.Root.CPU, p.CPU)
	}
	var walk func(f *Frame)
	walk = func(f *Frame) {
		var sum time.Duration
		for _, child := range f.Children {
			sum += child.CPU
			walk(child)
		}
		if sum > f.CPU || f.Class < 0 || f.Class >= len(classes) {
			t.Errorf("%s has %v, and within it %v", f.Name, f.CPU, sum)
		}
	}
	walk(p.Root)
}

// TestClass has a stack a line, the function that ran last.
func TestClass(t *testing.T) {
	for stack, want := range map[string]string{
		"main.main main.work":                              "program",
		"main.main runtime.memmove":                        "program",
		"main.main runtime.chansend1 runtime.chansend":     "program",
		"main.main runtime.chansend runtime.lock2":         "lock",
		"main.main runtime.chansend runtime.goready":       "schedule",
		"main.main runtime.goready.func1 runtime.ready":    "schedule",
		"main.main runtime.ready runtime.wakep":            "wake-sleep",
		"runtime.mcall runtime.park_m runtime.schedule":    "schedule",
		"runtime.mcall runtime.schedule runtime.stealWork": "steal",
		"runtime.findRunnable runtime.stopm runtime.futex": "wake-sleep",
		"runtime.findRunnable runtime.netpoll":             "schedule", // schedule goes on where netpoll is called from
		"runtime.mstart runtime.sysmon runtime.usleep":     "preempt",
		"runtime.mcall": "other",
		"runtime.mstart internal/runtime/atomic.Load":                               "other",
		"main.f runtime.mallocgc":                                                   "alloc",
		"main.f runtime.mallocgcSmallNoscan":                                        "alloc",
		"main.f runtime.mallocgc runtime.gcAssistAlloc":                             "mark",
		"main.f runtime.mallocgc runtime.gcStart":                                   "gc-other",
		"runtime.gcBgMarkWorker runtime.gcDrain":                                    "mark",
		"runtime.gcStart runtime.stopTheWorldWithSema":                              "stop-world",
		"runtime.gcMarkTermination.func4 runtime.forEachP":                          "stop-world",
		"main.f runtime.gcMarkTermination.forEachP.func6":                           "stop-world",
		"runtime.bgsweep runtime.sweepone":                                          "sweep",
		"runtime.bgsweep runtime.sweepone runtime.lock2":                            "sweep-lock",
		"main.f runtime.(*sweepLocked).sweep.func2":                                 "sweep",
		"main.f gcWriteBarrier":                                                     "gc-other",
		"main.f runtime.wbBufFlush":                                                 "gc-other",
		"runtime._ExternalCode ?":                                                   "program",
		"runtime._GC":                                                               "gc-other",
		"runtime.gcBgMarkWorker runtime.gcDrainMarkWorkerIdle runtime.gcDrain":      "idle-mark",
		"runtime.gcBgMarkWorker runtime.gcDrainMarkWorkerDedicated runtime.gcDrain": "mark",
		"main.f stealWork":                                                          "program", // another package's
		"main.f other/runtime.wakep":                                                "program",
		"main.f main.runtime.stopm":                                                 "program",
		"main.f runtime.stopmXyz":                                                   "program",
		"malloc runtime._ExternalCode":                                              "program",
	} {
		var s stackOf
		for _, f := range strings.Fields(stack) {
			s.add(f)
		}
		if got := classes[s.class()].Name; got != want {
			t.Errorf("%s is %s, want %s", stack, got, want)
		}
	}
}

type stackOf struct{ stack }

func (s *stackOf) add(f string) { s.stack = s.stack.add(marksOf(f)) }

// TestNames looks for the names of the table in the runtime that this is built with, so that a new version of Go which
// renames them is noticed.
func TestNames(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("there is no go command to ask for the runtime's source")
	}
	files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/runtime/*.*"))
	var source strings.Builder
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			for line := range strings.Lines(string(data)) {
				if strings.HasPrefix(line, "func ") || strings.HasPrefix(line, "TEXT ") {
					source.WriteString(line)
				}
			}
		}
	}
	if source.Len() == 0 {
		t.Skip("the runtime's source is not here")
	}
	for _, c := range classes {
		for _, name := range append(append([]string{}, c.any...), c.with...) {
			pattern, prefix := strings.CutSuffix(name, "*")
			if method := strings.TrimPrefix(pattern, "(*"); method != pattern {
				receiver, rest, _ := strings.Cut(method, ")")
				pattern = `func \(\w+ \*` + receiver + map[bool]string{true: `\w*\) `, false: `\) `}[rest == "" && prefix && !strings.Contains(method, ")")] + strings.TrimPrefix(rest, ".")
			} else {
				pattern = `(func |TEXT (runtime)?·)` + pattern
			}
			if !prefix {
				pattern += `\b`
			}
			if !regexp.MustCompile(pattern).MatchString(source.String()) {
				t.Errorf("%s: %s is not in the runtime of %s (%s)", c.Name, name, runtime.Version(), pattern)
			}
		}
	}
}

// made is a profile with one sample a stack, root first, of 10 ms each.
func made(stacks ...string) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7, DurationNanos: 1e9, TimeNanos: 1e18,
	}
	functions := map[string]*profile.Location{}
	for _, s := range stacks {
		sample := &profile.Sample{Value: []int64{1, 1e7}}
		for _, name := range strings.Fields(s) {
			l := functions[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(functions) + 1), Name: name}
				l = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				functions[name] = l
				p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			}
			sample.Location = append([]*profile.Location{l}, sample.Location...)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func written(t testing.TB, p *profile.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

func TestInterrupted(t *testing.T) {
	p, err := Read(bytes.NewReader(written(t, made("runtime.main main.f", "runtime.main main.f runtime.asyncPreempt", "runtime.main main.f runtime.asyncPreempt runtime.asyncPreempt2"))))
	if err != nil {
		t.Fatal(err)
	}
	if p.Interrupted != 10*time.Millisecond || p.Work() != 30*time.Millisecond || p.Classes[program].Top[0] != (Function{"main.f", 20 * time.Millisecond}) {
		t.Errorf("%v were interrupted, %v are the program's, %+v", p.Interrupted, p.Work(), p.Classes[program].Top)
	}
	if f := p.Root.Children[0].Children[0]; f.Name != "main.f" || f.CPU != 30*time.Millisecond || len(f.Children) != 1 {
		t.Errorf("the tree has %+v", f)
	}
}

func TestKinds(t *testing.T) {
	of := func(types ...string) []byte {
		p := made("runtime.main")
		p.PeriodType = &profile.ValueType{Type: "space", Unit: "bytes"}
		p.SampleType, p.Sample[0].Value = nil, make([]int64, len(types))
		for _, name := range types {
			p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "count"})
		}
		return written(t, p)
	}
	for name, c := range map[string]struct {
		data []byte
		kind string
	}{
		"heap":      {of("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"), Heap},
		"mutex":     {of("contentions", "delay"), "a profile of contention (block or mutex)"},
		"goroutine": {of("goroutine"), "a profile of goroutines"},
		"threads":   {of("threadcreate"), "a profile of threads"},
		"unknown":   {of("wall", "x"), `a profile of "wall, x"`},
		"trace":     {[]byte("go 1.26 trace\x00\x00\x00..."), Trace},
		"text":      {[]byte("goroutine profile: total 7\n"), Text},
		"page":      {[]byte("<!DOCTYPE html>"), HTML},
		"json":      {[]byte("{\n  \"version\": 1"), JSON},
		"program":   {[]byte("\x7fELF..."), Program},
		"nothing":   {nil, Empty},
		"zipped":    {packed("<html>"), HTML},
		"not Go":    {written(t, made("main foo", "main bar")), NoGo},
	} {
		_, err := Read(bytes.NewReader(c.data))
		var kind *KindError
		if !errors.As(err, &kind) || kind.Kind != c.kind {
			t.Errorf("%s: got %v, want %s", name, err, c.kind)
		}
	}
}

func TestErrors(t *testing.T) {
	slowtest.Plain(t)
	whole := written(t, made("runtime.main"))
	negative := made("runtime.main")
	negative.Sample[0].Value[1] = -1
	huge := made("runtime.main", "runtime.main main.f")
	huge.Sample[0].Value[1], huge.Sample[1].Value[1] = most, most
	lines := made(strings.Repeat("runtime.main ", framesMost/100000+1))
	lines.Location[0].Line = slices.Repeat(lines.Location[0].Line, 100000)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut off":       {whole[:len(whole)-9], "unpacking the profile: cut off"},
		"no values":     {packed("\x12\x00"), "malformed profile"},
		"letters":       {[]byte("a profile? no"), "this is not a profile, or it is damaged"},
		"bad gzip":      {[]byte("\x1f\x8bxxxxxxxxxxxxxxx"), "unpacking the profile"},
		"negative":      {written(t, negative), "a value of -1 can't be CPU time"},
		"overflow":      {written(t, huge), "can't be CPU time"},
		"lines":         {written(t, lines), "more than 2097152 parts"},
		"bomb":          {packed(strings.Repeat("\x00", bytesMost+2)), "reading the profile: more than 64 MiB"},
		"many messages": {packed(strings.Repeat("\x12\x00", partsMost+1)), "more than 2097152 parts"},
		"nested":        {packed("\x12\xc0\x84\x3d" + strings.Repeat("\x08\x00", 500000) + strings.Repeat("\x12\x00", partsMost-400000)), "more than 2097152 parts"},
	} {
		if _, err := Read(bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestOther reads what other profilers write: a count, and how much CPU time it is.
func TestOther(t *testing.T) {
	p := made("runtime.main main.f", "runtime.mcall runtime.schedule")
	p.SampleType = p.SampleType[:1]
	for _, s := range p.Sample {
		s.Value = []int64{3}
	}
	got, err := Read(bytes.NewReader(written(t, p)))
	if err != nil || got.CPU != 60*time.Millisecond || got.Samples != 6 {
		t.Errorf("got %+v, %v", got, err)
	}
	none := made()
	if got, err := Read(bytes.NewReader(written(t, none))); err != nil || got.CPU != 0 || got.Root.Children != nil {
		t.Errorf("without samples: %+v, %v", got, err)
	}
}

func TestPrune(t *testing.T) {
	p, err := Read(bytes.NewReader(written(t, made("runtime.main a b", "runtime.main a b c", "runtime.main a", "runtime.main d", "x.y"))))
	if err != nil {
		t.Fatal(err)
	}
	count := func(f *Frame) (n int) {
		var walk func(*Frame)
		walk = func(f *Frame) {
			n++
			for _, child := range f.Children {
				walk(child)
			}
		}
		walk(f)
		return n
	}
	for _, c := range []struct {
		share float64
		count int
		want  int
	}{{0, 100, 7}, {0.3, 100, 4}, {0, 4, 4}, {0, 5, 4}, {2, 100, 1}} { // c, d and x.y are of one size
		if got := count(p.Prune(c.share, c.count)); got != c.want {
			t.Errorf("Prune(%g, %d) has %d frames, want %d", c.share, c.count, got, c.want)
		}
	}
	if count(p.Root) != 7 {
		t.Error("the tree was changed")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, made("runtime.main main.f", "runtime.mcall runtime.schedule runtime.stealWork")))
	var plain bytes.Buffer
	made("runtime.main main.f runtime.asyncPreempt").WriteUncompressed(&plain)
	f.Add(plain.Bytes())
	f.Add(plain.Bytes()[:plain.Len()/2])
	f.Add([]byte("\x12\x04\x0a\x02\x01\x02"))
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		sameSums(t, p)
		p.Prune(0.01, 10)
	})
}
