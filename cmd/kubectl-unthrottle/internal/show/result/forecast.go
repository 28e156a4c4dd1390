package result

import (
	"context"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Forecast is which GOMAXPROCS the programs in manifests will have.
type Forecast struct {
	report.Header
	Project
	Verdict    string      `json:"verdict"` // one sentence
	Nodes      []int       `json:"nodes"`   // their CPUs; none: not known
	Containers []Container `json:"containers"`
	Problems   []Problem   `json:"problems"`
	Cluster    *Cluster    `json:"cluster,omitempty"` // null: they are files

	nothing string // what had no workload in it
}

// A Container is what will be in one.
type Container struct {
	Workload string            `json:"workload"`
	Name     string            `json:"name"`
	At       workload.Position `json:"position"`
	Limit    string            `json:"limit"`           // in words
	Known    bool              `json:"known"`           // what program it runs
	Other    bool              `json:"other,omitempty"` // no Go program
	Programs []Program         `json:"programs"`        // by kind, or the one that is known
}

// A Program is a kind of program, and what it has on each node.
type Program struct {
	Kind   string `json:"kind"`
	OnNode []Ps   `json:"on_node"` // in the order of the document's nodes; one, if they are not known
}

// Ps is a GOMAXPROCS.
type Ps struct {
	Procs int    `json:"procs,omitempty"` // absent: not known, or all CPUs of a node that is not known
	All   bool   `json:"all,omitempty"`   // all CPUs of the node
	Right int    `json:"right,omitempty"` // absent: not known
	Wrong bool   `json:"wrong"`
	Why   string `json:"why,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// NewForecast asks for each container of what was read. The error is the context's.
func NewForecast(ctx context.Context, set *manifest.Set, known lint.Known) (*Forecast, error) {
	d := &Forecast{Nodes: append([]int{}, known.Nodes...), Containers: []Container{}, Problems: problems(set), nothing: nothing(set)}
	for _, w := range set.Workloads {
		pod := forecast.For(w)
		for i := range w.Pod.Containers {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d.Containers = append(d.Containers, container(pod, w, &w.Pod.Containers[i], known))
		}
	}
	d.Verdict = d.verdict()
	return d, nil
}

// NewClusterForecast asks for each container of the workloads of a cluster. The error is the context's.
func NewClusterForecast(ctx context.Context, found *cluster.Found, known lint.Known) (*Forecast, error) {
	d, err := NewForecast(ctx, &manifest.Set{Workloads: found.Workloads, Problems: found.Problems}, known)
	if err != nil {
		return nil, err
	}
	d.Cluster, d.nothing = clusterOf(found), nothingIn(found, len(found.Workloads))
	return d, nil
}

func container(pod *forecast.Pod, w *workload.Workload, c *workload.Container, known lint.Known) Container {
	b := known.Of(w, c)
	f := pod.Of(c, b, known.Nodes)
	out := Container{
		Workload: w.String(), Name: c.Name, At: w.Made.Place(c.At), Limit: f.Limit.String(), Known: b.Known, Other: b.Known && !b.Go(), Programs: []Program{},
	}
	for _, line := range f.Lines { // all kinds on one node, then all on the next
		ps := Ps{Procs: line.Procs, All: line.All, Right: line.Right, Wrong: line.Wrong, Why: line.Why, Fix: line.Fix}
		at := slices.IndexFunc(out.Programs, func(p Program) bool { return p.Kind == line.Kind })
		if at < 0 {
			out.Programs = append(out.Programs, Program{Kind: line.Kind})
			at = len(out.Programs) - 1
		}
		out.Programs[at].OnNode = append(out.Programs[at].OnNode, ps)
	}
	return out
}

// verdict is the answer in a sentence.
func (d *Forecast) verdict() string {
	all, wrong, open := len(d.Containers), 0, 0
	for _, c := range d.Containers {
		switch {
		case c.wrong():
			wrong++
		case c.Open():
			open++
		}
	}
	in, untold := quantity.Plural(all, "container"), "."
	if open > 0 {
		untold = fmt.Sprintf("; in %d it is not known.", open)
	}
	switch {
	case all == 0:
		return "No workload was found."
	case open == all && all == 1:
		return "What GOMAXPROCS will be in the container is not known."
	case open == all:
		return fmt.Sprintf("What GOMAXPROCS will be is not known for any of %s.", in)
	case wrong == 0 && open == 0:
		return fmt.Sprintf("GOMAXPROCS will be right in %s, as far as it is known.", in)
	case wrong == 0:
		return fmt.Sprintf("GOMAXPROCS will be right in %d of %s, as far as it is known%s", all-open, in, untold)
	case wrong == 1 && all == 1:
		return "GOMAXPROCS will be wrong for some program in the container."
	case wrong == all:
		return fmt.Sprintf("GOMAXPROCS will be wrong for some program in all of %s.", in)
	default:
		return fmt.Sprintf("GOMAXPROCS will be wrong for some program in %d of %s%s", wrong, in, untold)
	}
}

// Unknown reports whether not even where the number comes from is known.
func (p Ps) Unknown() bool { return p.Procs == 0 && !p.All }

// Open reports whether what some program will have is not known.
func (c Container) Open() bool {
	return slices.ContainsFunc(c.Programs, func(p Program) bool { return slices.ContainsFunc(p.OnNode, Ps.Unknown) })
}

func (c Container) wrong() bool {
	return slices.ContainsFunc(c.Programs, func(p Program) bool {
		return slices.ContainsFunc(p.OnNode, func(ps Ps) bool { return ps.Wrong })
	})
}

// Nothing says where no workload was found; "" if there is one.
func (d *Forecast) Nothing() string { return d.nothing }

// Unread is how many problems took something away.
func (d *Forecast) Unread() int { return unread(d.Problems) }
