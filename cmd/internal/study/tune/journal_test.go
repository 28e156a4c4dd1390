package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// written is the journal of a study.
func written(t testing.TB, s *Study, w *world) *keeper {
	j := &keeper{}
	var b bytes.Buffer
	if err := lab.WriteJournal(&b, s); err != nil {
		t.Fatal(err)
	}
	j.head = b.Bytes()
	execute := s.Execute
	if s.Plan.AsksLimit() {
		execute = s.ExecuteLimits
	}
	if err := execute(context.Background(), w.lab(j)); err != nil {
		t.Fatal(err)
	}
	return j
}

// small are short journals of each kind.
func small(t testing.TB) (server, job, limits *keeper) {
	w := newWorld()
	w.gc, w.live = 50, 4<<20
	server = written(t, newStudy(Plan{Shares: []float64{0.65, 0.4}, Procs: []int{2}, NoGOGC: true, Blocks: 3, Pairs: 7}), w)
	w = newWorld()
	w.jobTime = w.cpu
	job = written(t, newStudy(Plan{Kind: JobKind, Procs: []int{2}, Blocks: 3}), w)
	s, w := limitsWorld()
	return server, job, written(t, s, w)
}

func TestRead(t *testing.T) {
	server, job, limits := small(t)
	for _, j := range []*keeper{server, job, limits} {
		s, cut, err := Read(j.all())
		if err != nil || cut != 0 {
			t.Fatalf("cut %d, %v", cut, err)
		}
		var b bytes.Buffer
		if err := lab.WriteJournal(&b, s); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), j.head) {
			t.Errorf("the head came back as %s", b.Bytes())
		}
		// The end of the last line was cut off, and nothing else: it would be gone on with in the same line.
		data := bytes.TrimSuffix(j.all(), []byte("\n"))
		last := len(j.lines[len(j.lines)-1]) - 1
		if _, cut, err := Read(data); err != nil || cut != last {
			t.Errorf("without the last newline: cut %d, want %d, %v", cut, last, err)
		}
	}
	for _, text := range []string{"", "\n", "{}", "{}\n", `{"version":2,"verb":"bench","plan":{"kind":"job"}}` + "\n", strings.TrimSpace(string(server.head))} {
		if _, _, err := Read([]byte(text)); !errors.Is(err, ErrNoStudy) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := Read(bytes.Replace(server.head, []byte(`"version":2`), []byte(`"version":9`), 1)); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("another version: %v", err)
	}
}

// A journal that Execute would not have written is refused, and the line is named.
func TestReadRefuses(t *testing.T) {
	server, job, limits := small(t)
	pilotWith := func(change func(*Pilot)) string {
		var r Record
		if err := json.Unmarshal(server.lines[0], &r); err != nil {
			t.Fatal(err)
		}
		change(r.Pilot)
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	text := func(lines ...[]byte) string { return string(bytes.Join(lines, nil)) }
	swapped := func(j *keeper, i, k int) string {
		lines := append([][]byte{}, j.lines...)
		lines[i], lines[k] = lines[k], lines[i]
		return text(lines...)
	}
	window := func(change string, to string) string { return strings.Replace(text(limits.lines[0]), change, to, 1) }
	curve := slices.IndexFunc(limits.lines, func(line []byte) bool { return bytes.Contains(line, []byte(`"phase":"curve"`)) })
	n := len(server.lines)
	second := 1 // line of the first run of the second load
	for !bytes.Contains(server.lines[second], []byte(`"load":1`)) {
		second++
	}
	for _, c := range []struct {
		name string
		of   *keeper
		rest string
		want string
	}{
		{"garbage", server, "garbage\n", "line 2"},
		{"an empty line", server, text(server.lines[0]) + "\n", "line 3"},
		{"nothing in it", server, "{}\n", "want one of a pilot"},
		{"two in one", server, strings.TrimSuffix(text(server.lines[0]), "}\n") + "," + text(server.lines[1])[1:], "want one of a pilot"},
		{"a run before the pilot", server, text(server.lines[1]), "before the pilot"},
		{"a second pilot", server, text(server.lines[0], server.lines[0]), "a second pilot"},
		{"a pilot after a run", server, text(server.lines[0], server.lines[1], server.lines[0]), "line 4"},
		{"a run twice", server, text(server.lines[0], server.lines[1], server.lines[1]), "expected"},
		{"runs in another order", server, swapped(server, 1, n-1), "expected"},
		{"a run after the last", server, text(server.lines...) + text(server.lines[n-1]), "after the last"},
		{"explained too early", server, text(server.lines[0], server.lines[second-1]), "expected"},
		{"explained twice", server, text(server.lines[:second]...) + text(server.lines[second-1]), "after the last"},
		{"another setting explained", server, text(server.lines[:second-1]...) + strings.Replace(text(server.lines[second-1]), `"gomaxprocs":2`, `"gomaxprocs":4`, 1), "expected"},
		{"a run of no load", server, text(server.lines[0]) + strings.Replace(text(server.lines[1]), `"load":0`, `"load":2`, 1), "there are 2"},
		{"a run of another load", job, text(job.lines[0]) + strings.Replace(text(job.lines[1]), `"load":0`, `"load":-1`, 1), "load -1"},
		{"a window of a server", server, text(limits.lines[0]), "several limits"},
		{"a run of limits", limits, text(server.lines[0]), "several limits"},
		{"a limit of its own", limits, window(`"limit_cpus":0.5`, `"limit_cpus":0.6`), "there was to be no window"},
		{"another try", limits, window(`"gomaxprocs":2`, `"gomaxprocs":3`), "there was to be no window"},
		{"a phase of its own", limits, window(`"phase":"hold"`, `"phase":"rest"`), "no phase"},
		{"another rate", limits, strings.Replace(text(limits.lines[curve]), `"rate":100`, `"rate":101`, 1), "expected 100/s"},
		{"held at another rate", limits, window(`"rate":100`, `"rate":101`), "to be held"},
		{"held too often", limits, strings.Repeat(window("", ""), 500), "to be held"},
		{"more beyond the goal than there were", limits, window(`"requests":500`, `"requests":3`), "beyond the SLO's goals"},
		{"less than none beyond it", limits, window(`"beyond":[`, `"beyond":[-`), "beyond the SLO's goals"},
		{"windows after a start in vain", limits, strings.Replace(text(limits.lines[curve]), `"seconds"`, `"no_start":true,"seconds"`, 1) + text(limits.lines[curve+1]), "the search is over"},
		{"less than no time", limits, window(`"seconds":`, `"seconds":-`), "window of"},
		{"no loads", server, pilotWith(func(p *Pilot) { p.Loads = nil }), "0 loads"},
		{"thousands of loads", server, pilotWith(func(p *Pilot) { p.Loads = make([]Load, 5000) }), "5000 loads"},
		{"thousands of settings", server, pilotWith(func(p *Pilot) { p.Candidates = make([]int, 5000) }), "5000 settings"},
		{"no current setting", server, pilotWith(func(p *Pilot) { p.Procs = 0 }), "current setting is 0"},
		{"a bad candidate", server, pilotWith(func(p *Pilot) { p.Candidates[0] = -1 }), "at least 1"},
		{"a bad lever", server, pilotWith(func(p *Pilot) { p.Levers = []int{0} }), "at least 1"},
		{"a bad GOMEMLIMIT", server, pilotWith(func(p *Pilot) { p.GOMEMLIMIT = "1MiB; reboot" }), "GOMEMLIMIT is"},
		{"a negative share", server, pilotWith(func(p *Pilot) { p.Loads[0].Share = -1 }), "bad load"},
		{"more than it can take", server, pilotWith(func(p *Pilot) { p.Loads[0].Closed = -1 }), "bad load"},
		{"less than no room", server, text(server.lines[0]) + strings.Replace(text(server.lines[1]), `"load":0`, `"load":0,"room":-1`, 1), "room for -1"},
		{"a negative window", server, pilotWith(func(p *Pilot) { p.Loads[1].Window = -time.Second }), "bad load"},
		{"no window", server, pilotWith(func(p *Pilot) { p.Loads[0].Window = 0 }), "without a window"},
		{"no connections", server, pilotWith(func(p *Pilot) { p.Loads[0].Rate, p.Conns = 0, 0 }), "without a rate or connections"},
		{"another tail", server, pilotWith(func(p *Pilot) { p.Loads[0].Tail = "p98" }), "bad load"},
		{"a negative rate", server, pilotWith(func(p *Pilot) { p.Loads[0].Rate = -1 }), "bad load"},
	} {
		if _, _, err := Read(append(bytes.Clone(c.of.head), c.rest...)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, change := range [][2]string{
		{`"kind":"server"`, `"kind":"cron"`},
		{`"margin":0.05`, `"margin":0.05,"limits":[1,2]`},
		{`"margin":0.05`, `"margin":0.05,"window_ns":-1`},
		{`"plan":{`, `"go_defaults":[1],"plan":{"limits":[1],"rate":1,"slo":"soon",`},
	} {
		data := bytes.Replace(server.head, []byte(change[0]), []byte(change[1]), 1)
		if _, _, err := Read(data); err == nil || !strings.Contains(err.Error(), "the plan of the runs") {
			t.Errorf("%s: %v", change[1], err)
		}
	}
	// Where the time was short the runs of two loads may take turns.
	turns := text(server.lines[0], server.lines[1], server.lines[second], server.lines[2])
	if s, _, err := Read(append(bytes.Clone(server.head), turns...)); err != nil || len(s.Runs) != 3 {
		t.Errorf("in turns: %v", err)
	}
	// What is said of the pairs is judged with the pilot.
	data := bytes.Replace(server.all(), []byte(`"pairs":7`), []byte(`"pairs":1000000000`), 1)
	if _, _, err := Read(data); err == nil || !strings.Contains(err.Error(), "1000000000 pairs") {
		t.Errorf("huge pairs: %v", err)
	}
}

// Older journals have the highest rates first, and do not say how many requests were slow.
func TestReadOlderLimits(t *testing.T) {
	_, _, limits := small(t)
	count := regexp.MustCompile(`"requests":\d+,"beyond":\[\d+\],`)
	var curves, holds []byte
	for _, line := range limits.lines {
		if bytes.Contains(line, []byte(`"phase":"curve"`)) {
			curves = append(curves, line...)
		} else {
			holds = append(holds, count.ReplaceAll(line, nil)...)
		}
	}
	s, _, err := Read(slices.Concat(limits.head, curves, holds))
	if err != nil {
		t.Fatal(err)
	}
	l := limitsOf(t, s)
	if h := l.Hold(s.Tries()[2]); h.Answer != Open || h.Held != HoldWindows || h.Share.Parts != 0 {
		t.Errorf("%+v", h)
	}
	// It can go on.
	if w, more := l.Next(); !more || w.Phase != HoldPhase || w.CPUs != 0.5 {
		t.Errorf("%+v, %v", w, more)
	}
}

func FuzzRead(f *testing.F) {
	server, job, limits := small(f)
	f.Add(server.first(0))
	f.Add(server.first(6))
	f.Add(server.all())
	f.Add(server.all()[:len(server.all())-5])
	f.Add(job.all())
	f.Add(limits.first(4))
	s, w := memoryWorld()
	f.Add(written(f, s, w).all())
	f.Add(limits.all())
	f.Add([]byte(`{"version":2,"verb":"bench"}`))
	f.Add([]byte(`{"version":2,"verb":"tune","plan":{"kind":"job","pairs":1000,"blocks":100},"environment":{}}` + "\n" +
		`{"pilot":{"gomaxprocs":9007199254740993,"candidates":[1,1,9223372036854775807],"loads":[{"tail":"p99"}]}}` + "\n"))
	f.Add([]byte(`{"version":2,"verb":"tune","plan":{"kind":"server","limits":[1e-300,-0,65536],"rate":1e9},"go_defaults":[1,2,3]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, cut, err := Read(data)
		if err != nil {
			return
		}
		if cut < 0 || cut >= len(data) {
			t.Fatalf("cut %d of %d", cut, len(data))
		}
		// It can be asked for all that it may be asked for, and written, and be read again.
		var b bytes.Buffer
		records := []error{lab.WriteJournal(&b, s)}
		if s.Pilot != nil {
			records = append(records, lab.WriteJournal(&b, Record{Pilot: s.Pilot}))
			for load := range s.Pilot.Loads {
				m, err := s.Search(load)
				if err != nil {
					t.Fatal(err)
				}
				if next, more := s.next(m, load); !more && next.Phase != search.Done {
					t.Errorf("at the end it wants %+v", next)
				}
				fmt.Fprint(&bytes.Buffer{}, m.Verdict(), m.Standings())
			}
		}
		for _, r := range s.Runs {
			records = append(records, lab.WriteJournal(&b, Record{Run: &r}))
		}
		for _, w := range s.Windows {
			records = append(records, lab.WriteJournal(&b, Record{Window: &w}))
		}
		if s.Plan.AsksLimit() {
			l, err := s.Limits()
			if err != nil {
				t.Fatal(err)
			}
			for _, try := range s.Tries() {
				fmt.Fprint(&bytes.Buffer{}, l.Highest(try), l.Hold(try), l.Counts(try.Under))
			}
			l.Next()
		}
		if err := errors.Join(records...); err != nil {
			t.Fatal(err)
		}
		again, cut, err := Read(b.Bytes())
		if err != nil || cut != 0 || len(again.Runs) != len(s.Runs) || len(again.Windows) != len(s.Windows) {
			t.Errorf("written again it is read as %d runs and %d windows, cut %d, %v", len(again.Runs), len(again.Windows), cut, err)
		}
	})
}
