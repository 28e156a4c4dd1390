package trial

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// Builtin are the built-in workloads.
type Builtin struct {
	Self     []string // the command that runs one, as this binary has it
	CacheDir string   // where those that other toolchains build are kept
	For      time.Duration
	Size     int
	Dir      string // private to this lab

	programs map[string]string // toolchain → program
}

// Prepare builds what the settings need. A toolchain that isn't available is an error before anything is run.
func (b *Builtin) Prepare(ctx context.Context, settings []lab.Setting, progress func(string)) error {
	b.programs = map[string]string{}
	prepared := map[lab.Setting]bool{}
	for _, s := range settings {
		w, ok := workload.Find(s.Workload)
		if !ok {
			return fmt.Errorf("no workload %q", s.Workload)
		}
		if _, done := b.programs[s.Go]; s.Go != "" && !done && !w.IsGo() {
			progress("building with " + s.Go)
			path, err := workload.Build(ctx, s.Go, b.CacheDir)
			if err != nil {
				return err
			}
			b.programs[s.Go] = path
		}
		key := lab.Setting{Workload: s.Workload, Go: s.Go}
		if prepared[key] {
			continue
		}
		prepared[key] = true
		if err := w.Prepare(ctx, b.options(s)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builtin) options(s lab.Setting) workload.Options {
	o := workload.Options{Program: b.Self, Go: s.Go, For: b.For, Size: b.Size, Dir: filepath.Join(b.Dir, "go-"+s.Go)}
	if s.Go != "" {
		o.Program = []string{b.programs[s.Go]}
	}
	return o
}

// Program is what runs a setting.
func (b *Builtin) Program(s lab.Setting) (Program, error) {
	w, ok := workload.Find(s.Workload)
	if !ok {
		return Program{}, fmt.Errorf("no workload %q", s.Workload)
	}
	c, err := w.Command(b.options(s))
	if err != nil {
		return Program{}, err
	}
	return Program{Args: c.Args, Env: c.Env, Dir: c.Dir, Read: func(stdout []byte) (Reading, error) {
		res, err := w.Parse(stdout)
		if err != nil {
			return Reading{}, err
		}
		said := Reading{GOMAXPROCS: res.GOMAXPROCS, Go: res.Go, Ops: res.Ops, Metrics: map[string]float64{}}
		for unit, v := range res.Metrics {
			said.Metrics[unit] = v
		}
		for m, v := range map[lab.Measure]*float64{
			lab.GCShare: res.GCCPUShare, lab.WaitP50: res.SchedLatencyP50, lab.WaitP99: res.SchedLatencyP99,
		} {
			if v != nil {
				m.Set(said.Metrics, *v)
			}
		}
		for _, a := range res.Activity {
			said.Activity = append(said.Activity, [2]float64{float64(a[0]) / 1e6, float64(a[1]) / 1e6})
		}
		return said, nil
	}}, nil
}

// Subject is some workloads, by their names.
func (b *Builtin) Subject(names []string) (Subject, error) {
	s := Subject{Workloads: names, Programs: b.Program, Figures: map[string]lab.Metric{}}
	for _, name := range names {
		w, ok := workload.Find(name)
		if !ok {
			return s, hint.Usage("unthrottle bench --list shows them", "no workload %q", name)
		}
		s.Figures[name] = lab.Metric(w.Figure)
		for _, m := range w.More {
			s.Metrics = append(s.Metrics, lab.Metric(m))
		}
	}
	return s, nil
}
