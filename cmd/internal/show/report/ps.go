package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// Ps is the document of the verb ps.
type Ps struct {
	Header
	Seconds   float64     `json:"seconds"` // how long the processes were observed; 0: one reading only
	System    PsSystem    `json:"system"`
	Looked    int         `json:"looked_at"`       // processes of all kinds
	Refused   int         `json:"refused"`         // those that this user may not inspect
	Odd       int         `json:"odd,omitempty"`   // those whose file is not one that Go's linker makes: not looked into
	Stuck     int         `json:"stuck,omitempty"` // those about which the kernel says nothing, as where a file system has stopped answering
	Processes []PsProcess `json:"processes"`
}

// PsSystem is the host as a whole.
type PsSystem struct {
	CPUs  int      `json:"cpus"`
	Busy  *float64 `json:"busy_cpus"`   // null: not measured
	Steal *float64 `json:"stolen_cpus"` // taken by the machine's own host
}

// PsProcess is a Go program and how it fares.
type PsProcess struct {
	PID        int          `json:"pid"`
	Name       string       `json:"name"`
	Command    []string     `json:"command"`
	GoVersion  string       `json:"go_version"` // "": not known
	GoLine     string       `json:"go_line"`
	Module     string       `json:"module"`
	GOMAXPROCS PsGOMAXPROCS `json:"gomaxprocs"`
	Limit      Limit        `json:"limit"`
	CPUs       int          `json:"affinity_cpus"` // that the affinity mask allows
	Pod        *PsPod       `json:"pod,omitempty"` // missing: the path of its cgroup names none
	Go         *Go          `json:"go"`            // null: its file can't be read, or isn't a Go program's

	CPU        *float64 `json:"cpus_used"` // CPUs; null: not measured
	Periods    *int64   `json:"periods"`   // of the group whose quota is in force; null: not counted
	Throttled  *int64   `json:"throttled_periods"`
	Share      *float64 `json:"throttled_periods_share"` // null: no periods
	Frozen     *Frozen  `json:"frozen"`                  // null: not known
	Starvation *Starved `json:"starvation"`              // null: not known
	Samples    int      `json:"samples"`                 // of its scheduler
	Spinning   *float64 `json:"spinning_threads"`
	Collected  *float64 `json:"collections_per_second"`
	Switched   *float64 `json:"goroutine_switches_per_second"` // how often a goroutine began to run
	Anonymous  *int64   `json:"anonymous_bytes"`               // memory that belongs to no file, including the heap

	Memory    Memory     `json:"memory"`
	Collector *Collector `json:"collector,omitempty"` // missing: not known

	Verdict  string            `json:"verdict"`
	Severity *finding.Severity `json:"severity"` // null: nothing was found
	Findings []finding.Finding `json:"findings"`
}

// PsGOMAXPROCS is a process's GOMAXPROCS.
type PsGOMAXPROCS struct {
	Value     *int   `json:"value"`  // null: not known
	Proof     string `json:"proof"`  // live or predicted
	Source    string `json:"set_by"` // environment, limit, cpus, automaxprocs, unthrottle, call or ""
	Expected  *int   `json:"expected"`
	Following *bool  `json:"following"` // false: it was set, so the runtime doesn't follow the limit; null: not known
	Why       string `json:"why"`       // it is this number, or why it could not be read from memory
}

// PsPod is what the path of a process's cgroup says of the pod that it is in.
type PsPod struct {
	UID       string `json:"uid"`          // "": the path does not say
	Container string `json:"container_id"` // "": it is in none of its containers
	Runtime   string `json:"runtime"`      // containerd, cri-o, docker; "": the path does not say
}

// Frozen is the share of the time in which the limit made the process's group stand still.
type Frozen struct {
	Share float64 `json:"share"`
	Exact bool    `json:"exact"` // false: it is at least that much
}

// Words write it: 44 %, or at least that.
func (f *Frozen) Words() string {
	if f.Exact {
		return quantity.Share(f.Share)
	}
	return "at least " + quantity.Share(f.Share)
}

// Starved is what the process wanted to run compared with what it got.
type Starved struct {
	Running float64  `json:"running_ps"` // Ps that run something, on average, or threads ready to run
	CPU     float64  `json:"cpus_used"`  // at the same time
	Ratio   *float64 `json:"ratio"`      // null: no CPU was used
	From    string   `json:"counted_by"` // ps (the scheduler's own) or threads (the kernel's run queues)
}

// NewPs makes the document. The header is the caller's to fill in.
func NewPs(r host.Result) *Ps {
	doc := &Ps{Seconds: r.System.Wall.Seconds(), Looked: r.Looked, Refused: r.Refused, Odd: r.Odd, Stuck: r.Stuck, Processes: make([]PsProcess, 0, len(r.Processes))}
	doc.System = PsSystem{r.System.CPUs, known(r.System.Known, r.System.Busy), known(r.System.Known, r.System.Steal)}
	for i := range r.Processes {
		doc.Processes = append(doc.Processes, newPsProcess(&r.Processes[i], r.System))
	}
	return doc
}

// PsVerdict is the answer.
type PsVerdict struct {
	Word  string
	Worst *finding.Severity // of what was found; nil: nothing
	Text  string
	Also  []string
}

// Verdict says of how many programs the number is wrong, and else what was found.
func (d *Ps) Verdict() PsVerdict {
	v, wrong, unknown := PsVerdict{Word: rule.Fine}, 0, 0
	var others []string // verdicts on the programs whose number is not wrong
	for _, p := range d.Processes {
		if p.Verdict == NotKnown {
			unknown++
		}
		if p.Severity == nil {
			continue
		}
		if v.Worst == nil || *p.Severity > *v.Worst {
			v.Worst = p.Severity
		}
		if slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return slices.Contains(rule.OfNumber, f.Rule) }) {
			wrong++
		} else {
			others = append(others, p.Verdict)
		}
	}
	all := quantity.Plural(len(d.Processes), "Go program")
	have := func(n int) string {
		switch {
		case len(d.Processes) == 1:
			return "The one Go program has"
		case n == 1:
			return "1 of " + all + " has"
		}
		return fmt.Sprintf("%d of %s have", n, all)
	}
	named := strings.Join(slices.Compact(slices.Sorted(slices.Values(others))), ", ")
	switch {
	case len(d.Processes) == 0 && d.Refused > 0:
		v.Word, v.Text = "none", "No Go program that this user may look into."
	case len(d.Processes) == 0:
		v.Word, v.Text = "none", "No Go program was found."
	case wrong > 0:
		v.Word, v.Text = "wrong", have(wrong)+" a wrong GOMAXPROCS."
		if len(others) > 0 {
			v.Also = []string{fmt.Sprintf("Of the others %d: %s.", len(others), named)}
		}
	case len(others) > 0:
		v.Word, v.Text = "found", firstFitting(have(len(others))+" a finding: "+named+".", have(len(others))+" a finding.")
	case unknown > 0 && d.Seconds == 0:
		v.Word, v.Text = NotKnown, "No wrong GOMAXPROCS was found; throttling was not measured."
	case unknown > 0:
		v.Word, v.Text = NotKnown, fmt.Sprintf("Nothing wrong was found; %d of %s can't be judged.", unknown, all)
	default:
		v.Text = "Nothing wrong was found with " + all + "."
	}
	return v
}

func newPsProcess(p *host.Process, s host.System) PsProcess {
	l := p.System.Limits
	doc := PsProcess{
		PID: p.PID, Name: p.Name, Command: p.Command, GoVersion: p.Version, GOMAXPROCS: newPsGOMAXPROCS(p),
		Limit: newLimit(l, p.System.Inside), CPUs: l.Affinity, Go: newGo(p.Process),
		Memory: newMemory(p), Collector: newCollector(p),
	}
	if p.Program != nil {
		doc.GoLine, doc.Module = p.Program.GoLine(), p.Program.Module
	}
	if ref, ok := podpath.Parse(l.Path); ok {
		doc.Pod = &PsPod{ref.PodUID, ref.Container, ref.Runtime}
	}
	doc.measure(&p.Usage, l.Affinity)
	doc.Judge(rule.Check(rule.OfProcess(p, s)))
	return doc
}

// measure keeps single numbers of a look, if there was one.
func (p *PsProcess) measure(u *host.Usage, cpus int) {
	if u.Wall <= 0 {
		return
	}
	p.CPU = new(u.CPU.Seconds() / u.Wall.Seconds())
	if u.Owner.Known {
		p.Periods, p.Throttled, p.Share = new(u.Owner.Periods), new(u.Owner.Throttled), share(u.Owner.Throttled, u.Owner.Periods)
	}
	p.Frozen = newFrozen(*u, cpus)
	switch {
	case u.Samples > 0:
		p.Samples, p.Spinning = u.Samples, new(u.Spinning)
		p.Starvation = newStarved(u.Running, *p.CPU, "ps")
	case u.DelayWall > 0:
		wall := u.DelayWall.Seconds()
		p.Starvation = newStarved((u.Delay+u.DelayCPU).Seconds()/wall, u.DelayCPU.Seconds()/wall, "threads")
	}
	if u.GCKnown {
		p.Collected, p.Switched, p.Anonymous = new(u.Collected), new(u.Switched), new(u.AnonMemory)
	}
}

// NotKnown is the verdict where no rule has a finding, and they lacked something.
const NotKnown = "not known"

// Judge sets what was found, what matters most first, and the verdict.
func (p *PsProcess) Judge(found []finding.Finding) {
	p.Findings, p.Verdict, p.Severity = found, rule.Fine, nil
	switch {
	case len(found) > 0:
		p.Verdict, p.Severity = found[0].Verdict, &found[0].Severity
	case p.lacking() != "":
		p.Verdict = NotKnown
	}
}

// lacking is what the rules had not enough of; "": nothing.
func (p *PsProcess) lacking() string { return lacking(p.GOMAXPROCS.Value, p.Limit, p.CPU != nil) }

// newFrozen is the share of the time in which a process stood still that was looked at; nil: it is not known.
func newFrozen(u host.Usage, cpus int) *Frozen {
	share, exact := u.FrozenShare(cpus)
	if !u.Owner.Known || u.Owner.Periods == 0 || !exact && share == 0 {
		return nil
	}
	return &Frozen{share, exact}
}

func newStarved(running, cpu float64, from string) *Starved {
	return &Starved{Running: running, CPU: cpu, Ratio: known(cpu > 0, running/cpu), From: from}
}

func newPsGOMAXPROCS(p *host.Process) PsGOMAXPROCS {
	g := PsGOMAXPROCS{
		Value: positive(p.Procs()), Proof: ProofPredicted, Source: string(p.Source()), Expected: positive(p.Prediction.Procs),
		Following: known(p.CustomKnown, !p.Custom), Why: p.Prediction.Why,
	}
	switch {
	case p.Live > 0:
		g.Proof = ProofLive
		if p.Source() == host.FromCall {
			g.Why = "set by a call in the program"
		}
	case p.LiveErr != nil:
		g.Why = strings.TrimSpace(g.Why + "; predicted, because " + p.LiveErr.Error())
	}
	return g
}
