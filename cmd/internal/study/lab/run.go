package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A Run is one run of one setting.
type Run struct {
	Block      int                `json:"block"` // from 1
	Place      int                `json:"place"` // in its block, from 1
	Setting    int                `json:"setting"`
	Start      time.Time          `json:"start"`
	Seconds    float64            `json:"seconds"` // of the whole process
	GOMAXPROCS int                `json:"gomaxprocs,omitempty"`
	Go         string             `json:"go_version,omitempty"`
	LimitKind  string             `json:"limit_kind"`
	Ops        int64              `json:"ops,omitempty"` // operations that it finished; 0: unknown
	Metrics    map[string]float64 `json:"metrics"`
	Activity   [][2]float64       `json:"activity_seconds,omitempty"` // when it ran, from the start of its window
	Marks      []string           `json:"marks,omitempty"`            // what the host did meanwhile
	Others     float64            `json:"others_cpus,omitempty"`      // that others used on average; 0: no more than noise, or not known
	Stolen     float64            `json:"stolen_share,omitempty"`     // of the CPU time, that a hypervisor took; 0 as above
	Kept       float64            `json:"kept_share,omitempty"`       // of the requests, that were due while nothing disturbed them; 0: not known
	Sliced     bool               `json:"sliced,omitempty"`           // the latencies are of these, and others are among what can disturb
	AtOnce     int                `json:"at_once,omitempty"`          // how many were made at the same time, this one included; 0: it was alone
	InTurn     string             `json:"in_turn,omitempty"`          // why those take turns from this one on that might run at the same time
	Error      string             `json:"error,omitempty"`            // why it has no figures
	Why        string             `json:"failure,omitempty"`          // the same in one line, where that has what the program wrote
	Killed     bool               `json:"out_of_memory,omitempty"`    // by the kernel, for lack of memory
}

// Failure is why it has no figures, in one line.
func (r *Run) Failure() string { return cmp.Or(r.Why, r.Error) }

// What marks begin with, for those who count them. The rest of a mark says more.
const (
	MarkSteal   = "the hypervisor took"
	MarkOthers  = "other processes used"
	MarkStood   = "the machine itself stood still"
	MarkKilled  = "it did not end when asked to"
	MarkRetried = "the first attempt failed"
	MarkAgain   = "it was made again, as something else ran beside it"
	MarkUnseen  = "it was made again, as too little of it was seen"
	MarkLoad    = "the load was not as requested"
	MarkNoGo    = "no Go program was seen"
)

// A Runner does one run of one setting in a block, of which 0 is the warm-up. It fails only if going on would be pointless; a
// program that fails is a Run with an Error.
type Runner interface {
	Run(ctx context.Context, s Setting, block int) (Run, error)
}

// Environment is where a lab was.
type Environment struct {
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Kernel    string   `json:"kernel_version"`
	CPU       string   `json:"cpu"`
	CPUs      int      `json:"cpus"` // that may be used
	Memory    int64    `json:"memory_bytes"`
	Go        string   `json:"go_version"` // that built this command
	LimitKind string   `json:"limit_kind"`
	Node      string   `json:"node,omitempty"`  // of a cluster
	Notes     []string `json:"notes,omitempty"` // why the limit is not of a better kind, or what else there is to know
}

// A Study is a plan and the runs that were done of it.
type Study struct {
	Version     int         `json:"version"`
	Verb        string      `json:"verb"`
	MadeBy      string      `json:"made_by"`
	Time        string      `json:"time"`
	Plan        Plan        `json:"plan"`
	Environment Environment `json:"environment"`
	Runs        []Run       `json:"runs,omitempty"`
}

// Progress is reported before each run and after the last.
type Progress struct {
	Setting Setting
	Warmup  bool
	Block   int
	Blocks  int // 0: not yet known
	Done    int // runs, of
	Runs    int // 0: not yet known
	Elapsed time.Duration
	Left    time.Duration // 0: not yet known
	Short   string        // reported once, and alone: what the budget is too short for
}

// String is where the lab is, and the time that is left.
func (p Progress) String() string {
	if p.Warmup {
		return "warming up"
	}
	text := fmt.Sprintf("block %d", p.Block)
	if p.Blocks > 0 {
		text += fmt.Sprintf(" of %d", p.Blocks)
	}
	if p.Left > 0 {
		text += ", " + quantity.Countdown(p.Left) + " left"
	}
	return text
}

// Clock tells the time.
type Clock func() time.Time

// Execute does what is missing of a study, and hands out each run as it finishes. The first runs of all are for warming
// up, one of each setting that differs in more than GOMAXPROCS; they are not kept. It ends early with ctx's error.
func (s *Study) Execute(ctx context.Context, r Runner, clock Clock, record func(Run) error, progress func(Progress)) error {
	if len(s.Plan.Settings) == 0 { // all builds are the same
		return nil
	}
	x := &execution{Study: s, ctx: ctx, runner: r, clock: clock, record: record, progress: progress, begin: clock(), companies: companies(s.Plan, s.Environment.CPUs), warm: map[int]float64{}, dear: map[int]bool{}}
	if err := x.warmUp(); err != nil {
		return err
	}
	first := len(s.Runs)
	x.afford(first)
	x.measured = clock()
	for block := x.goOn(); x.wants(block, first); block++ {
		order := s.Plan.Order(block)
		for place, setting := range order {
			if s.has(block, setting) || x.skips(setting, block) {
				continue
			}
			x.tell(Progress{Setting: s.Plan.Settings[setting], Block: block}, first)
			if err := x.step(order, place, block); err != nil {
				return err
			}
		}
	}
	return nil
}

// step does the run whose turn it is in a block's order, and those that can be made at the same time.
func (x *execution) step(order []int, place, block int) error {
	settings, err := x.beside(order[place:], block)
	if err != nil {
		return err
	}
	runs, err := x.runAll(settings, block)
	if runs == nil && err == nil {
		settings = settings[:1]
		runs, err = x.runAll(settings, block)
	}
	if err != nil {
		return err
	}
	for i, run := range runs {
		run.Block, run.Place, run.Setting = block, slices.Index(order, settings[i])+1, settings[i]
		x.Runs = append(x.Runs, run)
		if err := x.record(run); err != nil {
			return err
		}
		if err := x.hopeless(run.Setting); err != nil {
			return err
		}
	}
	return nil
}

// execution is Execute's state.
type execution struct {
	*Study
	ctx             context.Context
	runner          Runner
	clock           Clock
	record          func(Run) error
	progress        func(Progress)
	begin, measured time.Time

	looked    int             // how often it was looked what is decided
	decided   map[int]bool    // settings that get no further runs
	warm      map[int]float64 // seconds that they took in the warm-up
	dear      map[int]bool    // settings that are run once, see afford
	told      bool            // that the budget is too short
	companies map[int]*company
}

// goOn is the block to begin with. If not all settings of a study have all blocks, the missing ones are not made up for.
func (x *execution) goOn() int {
	if x.Plan.Looks == 0 || len(x.Runs) == 0 {
		return 1
	}
	x.decided = x.decidedAt(x.Plan.Looks)
	return x.Runs[len(x.Runs)-1].Block
}

// look sees what is decided, each time that another part of the budget has gone by.
func (x *execution) look() {
	if x.Plan.Looks == 0 {
		return
	}
	part := int(float64(x.Plan.Looks) * x.clock().Sub(x.begin).Seconds() / time.Duration(x.Plan.Budget).Seconds())
	if part > x.looked && part < x.Plan.Looks {
		x.looked, x.decided = part, x.decidedAt(part)
	}
}

// decidedAt are the settings of groups of builds about which everything is known at a look.
func (s *Study) decidedAt(look int) map[int]bool {
	all := map[int]bool{}
	for _, g := range s.analyse(look).Groups {
		for _, row := range g.Rows {
			all[row.Setting] = g.Claim.Kind == Worse || g.Claim.Kind == Better || g.Claim.Kind == NoWorse
		}
	}
	return all
}

func (x *execution) warmUp() error {
	seen := map[Setting]bool{}
	for i, s := range x.Plan.Settings {
		if key := s.Without(ByProcs); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		x.progress(Progress{Setting: s, Warmup: true, Blocks: x.Plan.Blocks, Elapsed: x.clock().Sub(x.begin)})
		run, err := x.run(s, 0)
		if err != nil {
			return err
		}
		if run.Error != "" {
			name := s.Workload
			if s.Build != "" {
				name += ", " + s.Build
			}
			return fmt.Errorf("%s: in the warm-up: %s", name, run.Error)
		}
		x.companies[i].used(s, run)
		x.warm[i] = run.Seconds
	}
	return nil
}

func (x *execution) run(s Setting, block int) (Run, error) {
	if err := x.ctx.Err(); err != nil {
		return Run{}, err
	}
	run, err := x.runner.Run(x.ctx, s, block)
	if x.ctx.Err() != nil { // it was cut short: its figures are worth nothing
		return Run{}, x.ctx.Err()
	}
	return run, err
}

// wants reports whether to do a block: with a budget, as long as one more is likely to fit in. There is at least one.
func (x *execution) wants(block, first int) bool {
	if x.Plan.Blocks > 0 {
		return block <= x.Plan.Blocks
	}
	if x.hasBlock(block) || len(x.Runs) == first {
		return true
	}
	x.look()
	x.afford(first)
	open, takes := false, 0.0 // whether there are any runs, and how many of the mean length they would be
	for i, weight := range x.weights() {
		if !x.skips(i, block) {
			open, takes = true, takes+weight
		}
	}
	return open && x.clock().Sub(x.begin)+time.Duration(takes*float64(x.perRun(first))) <= time.Duration(x.Plan.Budget)
}

// skips reports whether a setting has no run in a block.
func (x *execution) skips(setting, block int) bool {
	return x.decided[setting] || x.dear[setting] && block > 1
}

// weights are how long a run of each setting takes compared with the mean of all runs.
func (x *execution) weights() []float64 {
	own, n, all := make([]float64, len(x.Plan.Settings)), make([]float64, len(x.Plan.Settings)), 0.0
	for _, r := range x.Runs {
		own[r.Setting] += r.Seconds
		n[r.Setting]++
		all += r.Seconds
	}
	for i := range own {
		if own[i] > 0 {
			own[i] = own[i] / n[i] / (all / float64(len(x.Runs)))
		} else {
			own[i] = 1
		}
	}
	return own
}

// perRun is how long a run takes, 0 before the first.
func (x *execution) perRun(first int) time.Duration {
	n := len(x.Runs) - first
	if n == 0 {
		return 0
	}
	return x.clock().Sub(x.measured) / time.Duration(n)
}

func (x *execution) tell(p Progress, first int) {
	p.Done, p.Elapsed, p.Blocks = len(x.Runs), x.clock().Sub(x.begin), x.Plan.Blocks
	each := x.perRun(first)
	k := len(x.Plan.Settings)
	if x.Plan.Looks > 0 { // how many runs there will be depends on what they say
		p.Left = max(0, time.Duration(x.Plan.Budget)-p.Elapsed)
		x.progress(p)
		return
	}
	if p.Blocks == 0 && each > 0 {
		left := time.Duration(x.Plan.Budget) - p.Elapsed + each*time.Duration((len(x.Runs)-first)%k)
		p.Blocks = p.Block - 1 + max(1, int(left/(each*time.Duration(k))))
	}
	if p.Blocks > 0 {
		p.Runs = p.Blocks * k
		p.Left = each * time.Duration(p.Runs-p.Done)
	}
	x.progress(p)
}

func (s *Study) has(block, setting int) bool {
	for _, r := range s.Runs {
		if r.Block == block && r.Setting == setting {
			return true
		}
	}
	return false
}

func (s *Study) hasBlock(block int) bool {
	for i := range s.Plan.Settings {
		if !s.has(block, i) {
			return false
		}
	}
	return true
}

// hopeless is the error of a setting that has failed three times in a row and never worked.
func (s *Study) hopeless(setting int) error {
	failed := 0
	var last Run
	for _, r := range s.Runs {
		if r.Setting == setting {
			if r.Error == "" {
				return nil
			}
			failed++
			last = r
		}
	}
	if failed < 3 {
		return nil
	}
	return fmt.Errorf("%s failed in all of its %d runs: %s", s.Plan.Name(s.Plan.Settings[setting]), failed, last.Error)
}

// Head is the study without its runs: the head of its journal. Each Run is a record of it.
func (s *Study) Head() Study {
	head := *s
	head.Runs = nil
	return head
}

// ErrNoStudy is the error of a file that is not a lab's journal.
var ErrNoStudy = errors.New("this is not a file of runs")

// ReadStudy reads a journal. A last line that was cut off, as by a full disk, is left out; cut is its length.
func ReadStudy(data []byte) (s *Study, cut int, err error) {
	s = &Study{}
	if cut, err = ReadJournal(data, s.readHead, s.readRun); err != nil {
		return nil, 0, err
	}
	return s, cut, nil
}

func (s *Study) readHead(line []byte) error {
	if err := json.Unmarshal(line, s); err != nil || s.Verb != "bench" || len(s.Plan.Settings) == 0 {
		return ErrNoStudy
	}
	if s.Version != Version {
		return fmt.Errorf("the file is of format %d, and this unthrottle reads format %d", s.Version, Version)
	}
	return nil
}

func (s *Study) readRun(line []byte) error {
	var r Run
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Setting < 0 || r.Setting >= len(s.Plan.Settings) || r.Block < 1 {
		return fmt.Errorf("there is no setting %d, block %d", r.Setting, r.Block)
	}
	s.Runs = append(s.Runs, r)
	return nil
}
