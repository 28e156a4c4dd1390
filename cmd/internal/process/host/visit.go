package host

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A look is one process that a survey opens, and what it finds there. While the visit lasts, the look and all that it points to belong to
// it alone, since the visit may be left behind.
type look struct {
	pid int

	// What the survey knows of it, before and after: as a Go program, or as something else.
	known *known
	other *other

	p    *Process        // nil: there is an error
	live *golive.Process // nil: its memory can't be read
	err  error           // as attach's
}

// open begins to look at many processes.
func (s *Survey) open(ctx context.Context, o Options, pids []int, r *Result) (watched []*watch, err error) {
	looks := s.looks(o, pids, r)
	err = foreign.Each(ctx, len(looks), patience, foreign.Steps{
		Walk: func(next func() (int, bool)) {
			v := newVisit(s, o)
			defer v.tree.Close()
			for i, ok := next(); ok; i, ok = next() {
				v.open(&looks[i])
			}
		},
		Done: func(i int) {
			if w := s.take(&looks[i], o.Root, r); w != nil {
				watched = append(watched, w)
			}
		},
		Left: func(i int, l *foreign.Left) {
			s.leave(looks[i].pid, l)
			r.Looked, r.Stuck = r.Looked+1, r.Stuck+1
		},
		Late: func(i int) { looks[i].close() },
	})
	return watched, err
}

// looks are the processes to look at. Those that were left behind are not touched again until the kernel has answered. If there are very
// many, one about which nothing is known may be another.
func (s *Survey) looks(o Options, pids []int, r *Result) []look {
	looks := make([]look, 0, len(pids))
	full := foreign.Behind() >= foreign.MostBehind
	for _, pid := range pids {
		if len(o.PIDs) == 0 && pid == os.Getpid() && isHere(o.Root) {
			continue
		}
		if left := s.stuck[pid]; left != nil && left.Back() {
			delete(s.stuck, pid)
		}
		l := look{pid: pid, known: s.known[pid], other: s.others[pid]}
		if s.stuck[pid] != nil || full && l.known == nil && l.other == nil {
			r.Looked, r.Stuck = r.Looked+1, r.Stuck+1
			continue
		}
		looks = append(looks, l)
	}
	return looks
}

// take takes what came of a look: a program to watch, or nil.
func (s *Survey) take(l *look, root string, r *Result) (w *watch) {
	put(&s.known, l.pid, l.known)
	put(&s.others, l.pid, l.other)
	switch {
	case errors.Is(l.err, golive.ErrExited):
		return nil
	case errors.Is(l.err, fs.ErrPermission):
		r.Refused++
	case errors.Is(l.err, executable.ErrOdd):
		r.Odd++
	case errors.Is(l.err, foreign.ErrStuck):
		r.Stuck++
	case l.err == nil:
		w = &watch{p: l.p, live: l.live, root: root}
		if l.known != nil {
			w.last = l.known.last
		}
	}
	r.Looked++
	return w
}

// put keeps what is known of a process, nil for nothing.
func put[T any](m *map[int]*T, pid int, v *T) {
	switch {
	case v == nil:
		delete(*m, pid)
	case *m == nil:
		*m = map[int]*T{pid: v}
	default:
		(*m)[pid] = v
	}
}

// leave notes that a process was left behind. What was known of it belongs to the goroutine that is still in there.
func (s *Survey) leave(pid int, l *foreign.Left) {
	delete(s.known, pid)
	delete(s.others, pid)
	put(&s.stuck, pid, l)
}

// close closes what was left behind.
func (l *look) close() {
	l.live.Close()
	if l.known != nil {
		l.known.live.Close()
	}
}

// A visit goes from process to process. It writes only to the looks that it is given.
type visit struct {
	Options
	programs *procs.Programs
	files    *golive.Files
	clock    procs.Clock
	tree     *foreign.Tree
	texts    map[string]string // of files that were read in this visit: a group holds many processes
}

// newVisit begins a visit. Its tree must be closed.
func newVisit(s *Survey, o Options) *visit {
	return &visit{
		Options: o, programs: &s.programs, files: &s.files, clock: procs.ReadClock(o.Root),
		tree: foreign.Open(o.Root), texts: map[string]string{},
	}
}

// open begins to look at a process. Limits are read last, and of Go programs only.
func (v *visit) open(l *look) {
	if l.known == nil || !v.again(l) {
		now := v.readOther(l.pid)
		if l.other != nil && l.other.again(now) {
			l.err = l.other.err
			return
		}
		l.other = nil
		v.first(l, now)
	}
	if l.err == nil && !v.names(l.p.Process) {
		l.err = golive.ErrNotGo
	}
	if l.err == nil && v.Adjust != nil {
		v.Adjust(l.p)
	}
}

// first begins to look at a process that was not seen before, and remembers it, if it is to look at all.
func (v *visit) first(l *look, now other) {
	all := len(v.PIDs) == 0
	facts, err := v.programs.Read(v.Root, l.pid)
	switch {
	case err != nil:
		l.err = golive.ErrExited
	case !v.names(facts), len(v.Names) == 0 && all && isWrapper(facts):
		l.err = golive.ErrNotGo
	default:
		p := &Process{Process: facts, Started: now.started}
		if l.live, l.err = attach(v.Root, p, v.files); l.err == nil {
			l.p = p
			v.readLimit(p)
		}
	}
	switch {
	case all && l.live != nil:
		l.known = newKnown(l.p, l.live)
	case all && len(v.Names) == 0 && (errors.Is(l.err, golive.ErrNotGo) || errors.Is(l.err, executable.ErrOdd)):
		l.other = newOther(l.pid, now, l.err)
	}
}

// readLimit reads the limit of a process. The texts that it was found in are not kept: a container's list of mounts has some kilobytes.
func (v *visit) readLimit(p *Process) {
	p.readLimit(v.Root, p.PID)
	p.System = p.System.Short()
}

// attach opens a process's memory, which is nil where it can't be read, and reads its GOMAXPROCS. The error is
// golive.ErrNotGo or ErrExited, or that of missing rights where nothing can be seen of the program.
func attach(root string, p *Process, files *golive.Files) (*golive.Process, error) {
	if p.Program != nil {
		p.Version = p.Program.GoVersion
	}
	live, err := files.Open(root, p.PID)
	switch {
	case err == nil:
	case errors.Is(err, golive.ErrExited):
		return nil, err
	case p.Program != nil:
		p.LiveErr = err
		return nil, nil
	case errors.Is(p.ProgramErr, fs.ErrPermission):
		return nil, p.ProgramErr
	default:
		return nil, err
	}
	if p.Version == "" {
		p.Version = live.GoVersion()
	}
	if err := p.look(live); err != nil {
		live.Close()
		if errors.Is(err, golive.ErrExited) {
			return nil, err
		}
		p.LiveErr = err
		return nil, nil
	}
	return live, nil
}

// isWrapper reports whether a process is unthrottle run, which waits for the program that it has put under a limit.
func isWrapper(p procs.Process) bool {
	return p.Program != nil && p.Program.Path == "github.com/unthrottle/unthrottle/cmd/unthrottle" && len(p.Command) > 1 && p.Command[1] == "run"
}
