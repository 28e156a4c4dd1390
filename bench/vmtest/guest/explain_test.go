//go:build linux

package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// ---- what explain says

// An explanation is the part of explain's document that these tests look at.
type explanation struct {
	Verb    string `json:"verb"`
	Subject struct {
		PID  int  `json:"pid"`
		Self bool `json:"self"`
	} `json:"subject"`
	Limit struct {
		State  string   `json:"state"`
		CPUs   *float64 `json:"cpus"`
		From   string   `json:"from"`
		Reason string   `json:"reason"`
		Cgroup string   `json:"cgroup_version"`
		Levels []struct {
			Dir     string  `json:"dir"`
			CPUs    float64 `json:"cpus"`
			InForce bool    `json:"in_force"`
		} `json:"levels"`
		Inside *struct {
			State string   `json:"state"`
			CPUs  *float64 `json:"cpus"`
		} `json:"inside"`
	} `json:"limit"`
	Affinity struct {
		CPUs int `json:"cpus"`
	} `json:"affinity"`
	Throttling struct {
		Own   counters `json:"own"`
		Owner counters `json:"owner"`
		Now   *struct {
			Seconds      float64  `json:"seconds"`
			Periods      int64    `json:"periods"`
			Throttled    int64    `json:"throttled_periods"`
			LocalSeconds *float64 `json:"own_throttled_seconds"`
			Active       bool     `json:"throttled"`
		} `json:"now"`
	} `json:"throttling"`
	Go *struct {
		Version      string `json:"go_version"`
		GoLine       string `json:"go_line"`
		Automaxprocs string `json:"automaxprocs"`
		Unthrottle   string `json:"unthrottle"`
	} `json:"go"`
	GOMAXPROCS struct {
		Value     *int   `json:"value"`
		Source    string `json:"set_by"`
		Rule      string `json:"chosen_by"`
		Why       string `json:"why"`
		Predicted bool   `json:"predicted"`
		Proof     string `json:"proof"`
		Expected  *int   `json:"expected"`
	} `json:"gomaxprocs"`
	Choices  []choice `json:"choices"`
	Warnings []string `json:"warnings"`
}

type counters struct {
	Dir       string `json:"dir"`
	Known     bool   `json:"known"`
	Periods   int64  `json:"periods"`
	Throttled int64  `json:"throttled_periods"`
}

type choice struct {
	Rule    string   `json:"chosen_by"`
	Procs   int      `json:"gomaxprocs"`
	Limit   *float64 `json:"limit_cpus"`
	Wrong   bool     `json:"wrong"`
	Why     string   `json:"why"`
	Fix     string   `json:"fix"`
	Applies bool     `json:"applies"`
}

// The rules of explain.
const (
	rule124          = "Go 1.24 and earlier"
	rule125          = "Go 1.25"
	rule126          = "Go 1.26 and later"
	ruleAutomaxprocs = "automaxprocs 1.6"
	ruleDownward     = "downward API"
	ruleUnthrottle   = "unthrottle"
)

// atRoot is where the command is run from outside: the machine's root group.
func atRoot(t *testing.T) place { return place{group: group{t, cgroupRoot}} }

// explain runs the command at p. It must say nothing but the document.
func (p place) explain(t *testing.T, args ...string) explanation {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := p.command(nil, vmtest.Command, append([]string{"explain", "--json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p.start(t, cmd)
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}
	var e explanation
	if err := json.Unmarshal(stdout.Bytes(), &e); err != nil {
		t.Fatalf("reading the document: %v\n%s", err, &stdout)
	}
	return e
}

// ---- what is so

// A subject is a running program.
type subject struct {
	t    *testing.T
	name string
	pid  int
	in   io.Writer
	out  *json.Decoder
	stop func()
}

// A reading is what a subject prints about itself.
type reading struct {
	Procs   int    `json:"gomaxprocs"`
	Version string `json:"version"`
}

// subjects are the names of those that the machine has.
func subjects(t *testing.T) (names []string) {
	t.Helper()
	needVM(t)
	for _, s := range vmtest.Subjects {
		if hasSubject(s.Name) {
			names = append(names, s.Name)
		} else {
			t.Logf("%s is not in the machine; its build says why", s.Name)
		}
	}
	if len(names) == 0 {
		t.Skip("no subject is in the machine")
	}
	return names
}

func hasSubject(name string) bool {
	_, err := os.Stat(subjectPath(name))
	return err == nil
}

func needSubject(t *testing.T, name string) {
	t.Helper()
	needVM(t)
	if !hasSubject(name) {
		t.Skip(name + " is not in the machine; its build says why")
	}
}

func subjectPath(name string) string { return filepath.Join(vmtest.SubjectDir, name) }

// run starts a subject at p. It is ended before the test's groups are removed.
func (p place) run(t *testing.T, name string, env ...string) *subject {
	t.Helper()
	cmd := p.command(env, subjectPath(name))
	cmd.Stderr = nil // automaxprocs logs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start(t, cmd)
	s := &subject{t: t, name: name, pid: cmd.Process.Pid, in: in, out: json.NewDecoder(out)}
	s.stop = sync.OnceFunc(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// read returns the next line that the subject prints, the first at its start.
func (s *subject) read() reading {
	s.t.Helper()
	var r reading
	if err := s.out.Decode(&r); err != nil {
		s.t.Fatalf("reading what %s prints: %v", s.name, err)
	}
	return r
}

// ask sends a line, "" meaning just a question.
func (s *subject) ask(line string) reading {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatalf("asking %s: %v", s.name, err)
	}
	return s.read()
}

// ---- where

// A layout is a place with what has to be known about it.
type layout struct {
	name   string
	limits []string // see makeChain; the last group is the process's
	cpuset string
	mask   uint64
	box    box

	cpus float64 // the limit in force, 0 for none
	from int     // which of the groups sets it

	sees  views
	blind bool // the limit is unknown to the process: the library then leaves it to the runtime
}

// views are the limits that each rule finds, 0 for none.
type views struct{ go125, go126, automaxprocs, downward, unthrottle float64 }

func all(cpus float64) views { return views{cpus, cpus, cpus, cpus, cpus} }

var layouts = []layout{
	{name: "own 1.5", limits: []string{"150000 100000"}, cpus: 1.5, sees: all(1.5)},
	{name: "own 2.5", limits: []string{"250000 100000"}, cpus: 2.5, sees: all(2.5)},
	{name: "own 3", limits: []string{"300000 100000"}, cpus: 3, sees: all(3)},
	{name: "own 64", limits: []string{"6400000 100000"}, cpus: 64, sees: all(64)},
	{name: "no limit", limits: []string{"max"}},
	// The nearest limit upwards passes for the container's own.
	{
		name: "parent 2", limits: []string{"200000 100000", "max"}, cpus: 2,
		sees: views{downward: 2, unthrottle: 2},
	},
	{
		name: "parent 3, own 6", limits: []string{"300000 100000", "600000 100000"}, cpus: 3,
		sees: views{6, 6, 6, 6, 3},
	},
	{
		name: "parent 2.5, own without controller", limits: []string{"250000 100000", "-"}, cpus: 2.5,
		sees: views{downward: 2.5, unthrottle: 2.5},
	},
	{name: "own 8, cpuset of 3", limits: []string{"800000 100000"}, cpuset: "1-3", cpus: 8, sees: all(8)},
	{name: "own 8, affinity of 3", limits: []string{"800000 100000"}, mask: 0b1011, cpus: 8, sees: all(8)},
	{name: "private, own 2.5", box: private, limits: []string{"250000 100000"}, cpus: 2.5, sees: all(2.5)},
	// A long period, so that a start is not throttled: to be throttled without a
	// visible limit is another state.
	{name: "private, parent 2", box: private, limits: []string{"2000000 1000000", "max"}, cpus: 2},
	{
		name: "private, parent 3, own 6", box: private, limits: []string{"300000 100000", "600000 100000"}, cpus: 3,
		sees: all(6),
	},
	{
		name: "nested, root 2.5", box: nested, limits: []string{"250000 100000", "-"}, cpus: 2.5,
		sees: views{downward: 2.5, unthrottle: 2.5},
	},
	// Go 1.25 and automaxprocs put the host's path after the mount point.
	{
		name: "bound, own 2.5", box: bound, limits: []string{"250000 100000"}, cpus: 2.5,
		sees: views{go126: 2.5, downward: 2.5, unthrottle: 2.5},
	},
	// Go takes the first mount whose root fits, and that is the one below.
	{
		name: "covered, own 2.5", box: covered, limits: []string{"250000 100000"}, cpus: 2.5,
		sees: views{downward: 2.5, unthrottle: 2.5},
	},
	// automaxprocs looks at the usual place only.
	{
		name: "elsewhere, own 2.5", box: elsewhere, limits: []string{"250000 100000"}, cpus: 2.5,
		sees: views{2.5, 2.5, 0, 2.5, 2.5},
	},
	// From inside, nothing leads to the own group.
	{name: "unmounted, own 1.5", box: unmounted, limits: []string{"150000 100000"}, cpus: 1.5, blind: true},
	{name: "halfway, own 1.5", box: halfway, limits: []string{"150000 100000"}, cpus: 1.5, blind: true},
}

func (l layout) make(t *testing.T) (p place, groups []group) {
	t.Helper()
	groups = makeChain(t, l.limits)
	own := groups[len(groups)-1]
	if l.cpuset != "" {
		own.write("cpuset.cpus", l.cpuset)
	}
	if l.box == nested {
		own = groups[len(groups)-2]
	}
	return place{group: own, box: l.box, mask: l.mask}, groups
}

// affinity is the number of CPUs that the layout leaves.
func (l layout) affinity() int {
	if l.cpuset != "" || l.mask != 0 {
		return 3
	}
	return runtime.NumCPU()
}

func (l layout) state() string {
	if l.cpus > 0 {
		return "limited"
	}
	return "none"
}

// inside is the view from inside in words, "" where it is the same as from outside.
func (e explanation) inside() string {
	switch in := e.Limit.Inside; {
	case in == nil:
		return ""
	case in.CPUs != nil:
		return strconv.FormatFloat(*in.CPUs, 'f', -1, 64) + " CPUs"
	default:
		return in.State
	}
}

// inside is what explain says about the view from inside where that differs.
func (l layout) inside() string {
	switch seen := l.sees.unthrottle; {
	case l.blind:
		return "unknown"
	case seen == l.cpus:
		return ""
	case seen == 0:
		return "none"
	default:
		return strconv.FormatFloat(seen, 'f', -1, 64) + " CPUs"
	}
}

// An expectation is what explain has to say about a subject, worked out by hand.
type expectation struct {
	procs        int
	source, rule string
}

// expect says what the subject's GOMAXPROCS is without any settings.
func (l layout) expect(t *testing.T, name string) expectation {
	t.Helper()
	cpus := l.affinity()
	ofGo := func(limit float64, rule string) expectation {
		if n := l.rounded(rule, limit); n < cpus {
			return expectation{n, "limit", rule}
		}
		return expectation{cpus, "cpus", rule}
	}
	if runtimes, ok := strings.CutPrefix(name, "unthrottle-"); ok && l.blind {
		name = runtimes
	}
	switch name {
	case "go1.24", "go1.27-line1.24":
		return ofGo(0, rule124)
	case "go1.25":
		return ofGo(l.sees.go125, rule125)
	case "go1.26", "go1.27":
		return ofGo(l.sees.go126, rule126)
	case "automaxprocs-go1.27":
		if v := l.sees.automaxprocs; v > 0 {
			return expectation{l.rounded(ruleAutomaxprocs, v), "automaxprocs", ruleAutomaxprocs}
		}
		return ofGo(l.sees.go126, rule126)
	case "unthrottle-go1.24", "unthrottle-go1.27":
		return expectation{l.rounded(ruleUnthrottle, l.sees.unthrottle), "unthrottle", ruleUnthrottle}
	}
	t.Fatalf("no expectation for %s", name)
	return expectation{}
}

// rounded is the number that a rule turns a limit into.
func (l layout) rounded(rule string, limit float64) int {
	n := int(math.Ceil(limit))
	switch {
	case limit == 0:
		return l.affinity()
	case rule == ruleAutomaxprocs:
		return max(int(limit), 1)
	case rule == ruleDownward:
		return n
	}
	return min(max(n, 2), l.affinity())
}

// ---- the tests

// TestExplain compares what explain says with what programs really do: every layout, every subject.
func TestExplain(t *testing.T) {
	names := subjects(t)
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			p, groups := l.make(t)
			var table []string
			for _, name := range names {
				s := p.run(t, name)
				first := s.read()
				e := atRoot(t).explain(t, "--for", "0", strconv.Itoa(s.pid))
				later := s.ask("")
				if first != later {
					t.Errorf("%s: GOMAXPROCS was %d and is %d", name, first.Procs, later.Procs)
				}
				table = append(table, fmt.Sprintf("%s %d=%d", name, value(e), later.Procs))
				checkExplanation(t, l, name, e, later, l.expect(t, name), groups[l.from].dir)
				checkWarnings(t, name, e, l.warnings(name)...)
				s.stop()
			}
			t.Logf("predicted=real: %s", strings.Join(table, ", "))
		})
	}
}

// value is the GOMAXPROCS of an explanation, which must be what was expected as well as what is.
func value(e explanation) int {
	g := e.GOMAXPROCS
	if g.Value == nil || g.Expected == nil || *g.Value != *g.Expected {
		return 0
	}
	return *g.Value
}

// checkExplanation checks a document against the layout and the program.
func checkExplanation(t *testing.T, l layout, name string, e explanation, real reading, want expectation, from string) {
	t.Helper()
	checkLimit(t, l, name, e, from)
	checkChoices(t, l, name, e)
	g := e.GOMAXPROCS
	if value(e) != real.Procs || g.Source != want.source || g.Rule != want.rule || g.Proof != "live" || g.Why == "" {
		t.Errorf("%s: explain says %s\nreal GOMAXPROCS is %d; want source %q and rule %q",
			name, dump(g), real.Procs, want.source, want.rule)
	}
	if real.Procs != want.procs {
		t.Errorf("%s: real GOMAXPROCS is %d, this test expected %d", name, real.Procs, want.procs)
	}
	applies := 0
	for _, c := range e.Choices {
		if c.Applies {
			applies++
			if c.Procs != real.Procs {
				t.Errorf("%s: the row that applies is %s, real GOMAXPROCS is %d", name, dump(c), real.Procs)
			}
		}
	}
	if rows := min(len(want.rule), 1); applies != rows {
		t.Errorf("%s: %d rows apply, want %d: %s", name, applies, rows, dump(e.Choices))
	}
	if e.Go == nil {
		t.Fatalf("%s: not seen as a Go program", name)
	}
	line, automaxprocs, unthrottle := built(name)
	if e.Go.Version != real.Version || e.Go.GoLine != line || e.Go.Automaxprocs != automaxprocs || e.Go.Unthrottle != unthrottle {
		t.Errorf("%s: explain says it was built so: %s\nwant version %s, go line %s, automaxprocs %q, unthrottle %q",
			name, dump(e.Go), real.Version, line, automaxprocs, unthrottle)
	}
}

// built is what explain must find in a subject's file.
func built(name string) (line, automaxprocs, unthrottle string) {
	i := slices.IndexFunc(vmtest.Subjects, func(s vmtest.Subject) bool { return s.Name == name })
	s := vmtest.Subjects[i]
	line, automaxprocs, unthrottle = s.GoLine, "no", "no"
	if strings.HasPrefix(s.Toolchain, "go"+line+".") {
		line += " or later" // the newest that this Go knows is all that the file says
	}
	switch {
	case strings.Contains(s.Import, "automaxprocs"):
		automaxprocs = "blank import"
	case s.Import != "":
		unthrottle = "blank import"
	}
	return line, automaxprocs, unthrottle
}

func checkLimit(t *testing.T, l layout, name string, e explanation, from string) {
	t.Helper()
	if l.cpus == 0 {
		from = ""
	}
	if e.Limit.State != l.state() || number(e.Limit.CPUs) != l.cpus || e.Limit.From != from ||
		e.Limit.Cgroup != "v2" || e.inside() != l.inside() || e.Affinity.CPUs != l.affinity() {
		t.Errorf("%s: limit is %s, affinity %d\nwant %s, %v CPUs from %q, inside %q, affinity %d",
			name, dump(e.Limit), e.Affinity.CPUs, l.state(), l.cpus, from, l.inside(), l.affinity())
	}
	for _, level := range e.Limit.Levels {
		if level.InForce != (level.Dir == from) {
			t.Errorf("%s: level %s", name, dump(level))
		}
	}
}

// checkChoices checks what every rule is said to find, and what it does with that.
func checkChoices(t *testing.T, l layout, name string, e explanation) {
	t.Helper()
	want := map[string]float64{
		rule124: 0, rule125: l.sees.go125, rule126: l.sees.go126,
		ruleAutomaxprocs: l.sees.automaxprocs, ruleDownward: l.sees.downward, ruleUnthrottle: l.sees.unthrottle,
	}
	for _, c := range e.Choices {
		limit, ok := want[c.Rule]
		delete(want, c.Rule)
		if !ok || number(c.Limit) != limit || c.Procs != l.rounded(c.Rule, limit) {
			t.Errorf("%s: row %s\nwant a limit of %v and GOMAXPROCS=%d", name, dump(c), limit, l.rounded(c.Rule, limit))
		}
		// The library's own row is wrong only where the level that counts is out of sight; then it says so.
		wrong := c.Procs != min(l.rounded(c.Rule, l.cpus), l.affinity())
		if c.Rule != ruleUnthrottle && c.Wrong != wrong || c.Wrong && (c.Why == "" || c.Fix == "") || !c.Wrong && c.Fix != "" {
			t.Errorf("%s: row %s\nwant wrong to be %v, and a reason and a fix if it is", name, dump(c), wrong)
		}
	}
	if len(want) > 0 {
		t.Errorf("%s: no row for %v", name, slices.Sorted(maps.Keys(want)))
	}
}

func number(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// The beginnings of warnings.
const (
	endsUpdates = "automaxprocs ends the runtime's automatic updates"
	goLineOff   = "its go line is 1.24, which turns off"
)

// warnings are those that the subject's program gives rise to.
func (l layout) warnings(name string) []string {
	switch {
	case name == "automaxprocs-go1.27" && l.sees.automaxprocs > 0: // else it sets nothing, and the runtime goes on
		return []string{endsUpdates}
	case name == "go1.27-line1.24" && l.cpus > 0:
		return []string{goLineOff}
	}
	return nil
}

func checkWarnings(t *testing.T, name string, e explanation, want ...string) {
	t.Helper()
	ok := len(e.Warnings) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(e.Warnings[i], want[i])
	}
	if !ok {
		t.Errorf("%s: warnings are %q\nwant %q", name, e.Warnings, want)
	}
}

// TestExplainEnvironment is about what the environment does.
func TestExplainEnvironment(t *testing.T) {
	needVM(t)
	l := layouts[0] // 1.5 CPUs: every rounding gives another number
	n := l.affinity()
	const (
		ignored = `GOMAXPROCS="2500m" in its environment is ignored by the runtime`
		off     = "GODEBUG=containermaxprocs=0"
	)
	p, groups := l.make(t)
	for _, c := range []struct {
		subject, env string
		want         expectation
		warnings     []string
	}{
		{"go1.26", "GOMAXPROCS=3", expectation{3, "environment", ""}, nil},
		{"automaxprocs-go1.27", "GOMAXPROCS=3", expectation{3, "environment", ""}, nil},
		{"unthrottle-go1.27", "GOMAXPROCS=3", expectation{3, "environment", ""}, nil},

		{"go1.24", "GOMAXPROCS=2500m", expectation{n, "cpus", rule124}, []string{ignored}},
		{"go1.26", "GOMAXPROCS=2500m", expectation{2, "limit", rule126}, []string{ignored}},
		// It takes any text for the user's will, and leaves it to the runtime.
		{"automaxprocs-go1.27", "GOMAXPROCS=2500m", expectation{2, "limit", rule126}, []string{ignored}},
		{"automaxprocs-go1.27", "GOMAXPROCS=", expectation{2, "limit", rule126}, nil},
		{"unthrottle-go1.24", "GOMAXPROCS=2500m", expectation{2, "unthrottle", ruleUnthrottle}, []string{ignored}},

		{"go1.25", off, expectation{n, "cpus", rule124}, nil},
		{"go1.27", off, expectation{n, "cpus", rule124}, nil},
		{"automaxprocs-go1.27", off, expectation{1, "automaxprocs", ruleAutomaxprocs}, []string{endsUpdates}},
		{"unthrottle-go1.27", off, expectation{2, "unthrottle", ruleUnthrottle}, nil},
		{"go1.27-line1.24", "GODEBUG=containermaxprocs=1", expectation{2, "limit", rule126}, nil},

		{"unthrottle-go1.27", "UNTHROTTLE=floor", expectation{1, "unthrottle", ruleUnthrottle}, nil},
		{"unthrottle-go1.27", "UNTHROTTLE_MAX=1", expectation{1, "unthrottle", ruleUnthrottle}, nil},
		// The library leaves it to the runtime.
		{"unthrottle-go1.27", "UNTHROTTLE=off", expectation{2, "limit", rule126}, nil},
		{"unthrottle-go1.24", "UNTHROTTLE=off", expectation{n, "cpus", rule124}, nil},
	} {
		t.Run(c.subject+" "+c.env, func(t *testing.T) {
			needSubject(t, c.subject)
			s := p.run(t, c.subject, c.env)
			real := s.read()
			e := atRoot(t).explain(t, "--for", "0", strconv.Itoa(s.pid))
			checkLimit(t, l, c.subject, e, groups[0].dir)
			if value(e) != real.Procs || e.GOMAXPROCS.Source != c.want.source || e.GOMAXPROCS.Rule != c.want.rule {
				t.Errorf("explain says %s\nreal GOMAXPROCS is %d; want source %q and rule %q",
					dump(e.GOMAXPROCS), real.Procs, c.want.source, c.want.rule)
			}
			if real.Procs != c.want.procs {
				t.Errorf("real GOMAXPROCS is %d, this test expected %d", real.Procs, c.want.procs)
			}
			checkWarnings(t, c.subject, e, c.warnings...)
		})
	}
}

// insides are the layouts in which explain runs where the program is.
var insides = []string{"own 2.5", "parent 3, own 6", "private, own 2.5", "private, parent 2", "nested, root 2.5", "bound, own 2.5"}

func insideLayout(t *testing.T, name string) layout {
	t.Helper()
	i := slices.IndexFunc(layouts, func(l layout) bool { return l.name == name })
	l := layouts[i]
	if l.box == open {
		return l
	}
	l.cpus = l.sees.unthrottle // what can be seen inside is all that there is
	return l
}

// fromInside is the directory of the limit as a process at the layout names it. In
// these boxes it is that of the mount.
func (l layout) fromInside(groups []group) string {
	if l.box == open {
		return groups[l.from].dir
	}
	return cgroupRoot
}

// TestExplainInside runs the command where the program runs: about another process
// there, about itself, and about a program that it starts.
func TestExplainInside(t *testing.T) {
	const name = "go1.26"
	needSubject(t, name)
	for _, inside := range insides {
		t.Run(inside, func(t *testing.T) {
			l := insideLayout(t, inside)
			p, groups := l.make(t)
			from := l.fromInside(groups)
			want := l.expect(t, name)

			t.Run("pid", func(t *testing.T) {
				s := p.run(t, name)
				real := s.read()
				e := p.explain(t, "--for", "0", strconv.Itoa(s.pid))
				checkExplanation(t, l, name, e, real, want, from)
				checkWarnings(t, name, e)
			})
			t.Run("itself", func(t *testing.T) {
				e := p.explain(t)
				checkLimit(t, l, name, e, from)
				checkChoices(t, l, name, e)
				if g := e.GOMAXPROCS; !e.Subject.Self || g.Predicted || value(e) != want.procs || g.Source != want.source || g.Rule != want.rule {
					t.Errorf("explain says %s, self %v\nwant %+v", dump(g), e.Subject.Self, want)
				}
				checkWarnings(t, name, e)
			})
			t.Run("command", func(t *testing.T) {
				e, real := p.explainCommand(t, name)
				checkExplanation(t, l, name, e, real, want, from)
				checkWarnings(t, name, e)
			})
		})
	}
}

// explainCommand lets the command start the subject, whose output is then on
// standard error.
func (p place) explainCommand(t *testing.T, name string) (e explanation, real reading) {
	t.Helper()
	cmd := p.command(nil, vmtest.Command, "explain", "--json", "--", subjectPath(name))
	cmd.Stderr = nil
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	p.start(t, cmd)
	defer cmd.Process.Kill()
	if err := json.NewDecoder(stderr).Decode(&real); err != nil {
		t.Fatalf("reading what the started program prints: %v", err)
	}
	if err := json.NewDecoder(stdout).Decode(&e); err != nil {
		t.Fatalf("reading the document: %v", err)
	}
	stdin.Close() // the program ends, and so does explain
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", cmd.Args, err)
	}
	return e, real
}

// watch runs the command with a second of looking until it sees throttling, which may take
// more than the second that it looks for.
func (p place) watch(t *testing.T, pid int) (e explanation) {
	t.Helper()
	poll(func() bool {
		e = p.explain(t, "--for", "1s", strconv.Itoa(pid))
		return e.Throttling.Now != nil && e.Throttling.Now.Active
	})
	return e
}

// TestExplainWatch looks at a program that is being throttled, by its own group's
// limit and by that of the parent.
func TestExplainWatch(t *testing.T) {
	const name = "go1.26"
	needSubject(t, name)
	for _, l := range []layout{
		{name: "own", limits: []string{"50000 100000"}, cpus: 0.5, sees: all(0.5)},
		{name: "parent", limits: []string{"50000 100000", "max"}, cpus: 0.5, sees: views{unthrottle: 0.5}},
	} {
		t.Run(l.name, func(t *testing.T) {
			p, groups := l.make(t)
			s := p.run(t, name)
			s.read()
			idle := atRoot(t).explain(t, "--for", "0", strconv.Itoa(s.pid))
			if idle.Throttling.Now != nil {
				t.Errorf("without a look there is an interval: %s", dump(idle.Throttling))
			}
			s.ask("burn")
			e := atRoot(t).watch(t, s.pid)
			checkLimit(t, l, name, e, groups[0].dir)
			th := e.Throttling
			if th.Now == nil || !th.Now.Active || th.Now.Throttled < 1 || th.Now.Periods < th.Now.Throttled || th.Now.Seconds < 1 {
				t.Errorf("throttling is %s\nwant some throttled periods in a second", dump(th))
			}
			if th.Owner.Dir != groups[0].dir || th.Own.Dir != p.group.dir || !th.Owner.Known || th.Owner.Throttled < idle.Throttling.Owner.Throttled {
				t.Errorf("throttling is %s\nwant the owner to be %s", dump(th), groups[0].dir)
			}
			if local := p.group.has(localFile); th.Now != nil && local != (number(th.Now.LocalSeconds) > 0) {
				t.Errorf("the local time in the interval is %v; the kernel has it: %v", number(th.Now.LocalSeconds), local)
			}
		})
	}
}

// TestExplainWatchIdle: a program that does nothing is not being throttled.
func TestExplainWatchIdle(t *testing.T) {
	const name = "go1.26"
	needSubject(t, name)
	p, _ := layouts[2].make(t)
	s := p.run(t, name)
	s.read()
	if now := atRoot(t).explain(t, "--for", "1s", strconv.Itoa(s.pid)).Throttling.Now; now == nil || now.Active || now.Throttled != 0 {
		t.Errorf("the interval is %s, want one without throttling", dump(now))
	}
}

// TestExplainHidden: a container cannot see the limit above it, but that it is
// throttled.
func TestExplainHidden(t *testing.T) {
	const name = "go1.26"
	needSubject(t, name)
	parent := newGroup(t).child("parent")
	parent.limit("100000 100000")
	p := place{group: parent.child("own"), box: private}
	s := p.run(t, name)
	s.read()
	s.ask("burn")
	e := atRoot(t).watch(t, s.pid)
	if e.Limit.State != "limited" || number(e.Limit.CPUs) != 1 || e.Limit.From != parent.dir || e.Throttling.Now == nil || !e.Throttling.Now.Active {
		t.Errorf("from outside: %s\n%s\nwant 1 CPU of %s, and throttled now", dump(e.Limit), dump(e.Throttling), parent.dir)
	}
	state, reason := "hidden", ""
	if !p.group.has(localFile) {
		state, reason = "none", noLocalFile
	}
	if state == "hidden" {
		e = p.watch(t, s.pid)
	} else {
		e = p.explain(t, "--for", "1s", strconv.Itoa(s.pid))
	}
	if e.Limit.State != state || e.Limit.CPUs != nil || e.Limit.From != "" || (e.Limit.Reason != "") != (state == "hidden") {
		t.Errorf("from inside: %s\nwant %s without a number", dump(e.Limit), state)
	}
	if now := e.Throttling.Now; now == nil || now.Active != (state == "hidden") {
		t.Errorf("from inside: %s", dump(e.Throttling))
	}
	if value(e) != runtime.NumCPU() || e.GOMAXPROCS.Source != "cpus" {
		t.Errorf("from inside: %s\nwant all %d CPUs", dump(e.GOMAXPROCS), runtime.NumCPU())
	}
	if reason != "" {
		t.Skip("all but the state hidden was tested: " + reason)
	}
}
