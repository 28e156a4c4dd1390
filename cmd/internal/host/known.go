package host

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A known is a program that a survey has seen before. It is the same as long as its memory can be read: after its end, or an exec,
// that is no more. What can't change of it is not read again: its file, its command, its environment, its mounts and namespaces.
type known struct {
	facts Process // as they were read at first
	live  *golive.Process
	sched bool // the state of its scheduler can be read, and tells GOMAXPROCS too
	last  reading

	// What the limit in facts rests on, as it was just before that was read; "" is not known.
	groups string // text of /proc/PID/cgroup
	cpus   string // that it may run on
	quotas string // text of its groups' files
}

// again begins to look at a process that was seen before, if it still runs. What it does is seen while it is observed, if it is.
func (s *Survey) again(o Options, pid int) (*Process, *golive.Process) {
	k := s.known[pid]
	if k == nil {
		return nil, nil
	}
	p := k.facts
	if !k.live.Runs() || (o.For <= 0 || !k.sched) && p.look(k.live) != nil {
		s.drop(pid)
		return nil, nil
	}
	s.programs.Keep(p.Program)
	s.files.Keep(k.live)
	s.limit(o.Root, k, &p)
	return &p, k.live
}

// keep remembers a process that was seen for the first time.
func (s *Survey) keep(p *Process, live *golive.Process) {
	if s.known == nil {
		s.known = map[int]*known{}
	}
	_, err := live.Sched()
	s.known[p.PID] = &known{facts: *p, live: live, sched: err == nil}
}

// An other is a process that was looked at before and is no Go program, or has an odd file. It may become one by an exec, or load a Go
// library.
type other struct {
	started time.Time
	file    procs.FileID
	looks   int   // since it was looked at
	err     error // what came of it
}

// lookAgain is after how many looks a process of the same file is looked at again.
const lookAgain = 10

// readOther tells which process has a number now.
func (s *Survey) readOther(root string, pid int) other {
	dir := procs.Dir("", pid)
	file, _ := s.tree.Stat(dir + "/exe") // a kernel thread has none
	started, _ := s.clock.ParseStarted(record(root, dir+"/stat"))
	return other{started: started, file: file}
}

// keepOther remembers a process that is no Go program. When it is looked at again depends on its number, so that not all are at once.
func (s *Survey) keepOther(pid int, now other) {
	if s.others == nil {
		s.others = map[int]*other{}
	}
	now.looks = pid % lookAgain
	s.others[pid] = &now
}

// isOther returns what is remembered of a process that was looked at before and is no Go program; nil: it is to be looked at.
func (s *Survey) isOther(pid int, now other) *other {
	o := s.others[pid]
	if o == nil {
		return nil
	}
	o.looks++
	if o.looks < lookAgain && !now.started.IsZero() && now.started.Equal(o.started) && now.file == o.file {
		return o
	}
	delete(s.others, pid)
	return nil
}

// forget lets go of the processes that are no more, and of files that none of those now running has.
func (s *Survey) forget(pids []int) {
	s.programs.Forget()
	s.files.Forget()
	for pid := range s.known {
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			s.drop(pid)
		}
	}
	for pid := range s.others {
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			delete(s.others, pid)
		}
	}
}

func (s *Survey) drop(pid int) {
	s.known[pid].live.Close()
	delete(s.known, pid)
}

// limit reads the limit of a process, if what it rests on has changed: the groups that it is in, their quotas, or the CPUs that it may
// run on. What isn't known may be tomorrow.
func (s *Survey) limit(root string, k *known, p *Process) {
	groups, cpus := record(root, procs.Dir("", p.PID)+"/cgroup"), allowed(root, p.PID)
	old := k.facts.System.Limits
	quotas := s.quotas(old)
	sure := len(old.Levels) > 0 && (old.State == cgroup.Limited || old.State == cgroup.None)
	if sure && cpus != "" && groups == k.groups && cpus == k.cpus && quotas == k.quotas {
		return
	}
	p.readLimit(root, p.PID)
	k.facts.System, k.facts.Prediction = p.System, p.Prediction
	k.groups, k.cpus, k.quotas = groups, cpus, ""
	if l := p.System.Limits; l.Version == old.Version && slices.EqualFunc(l.Levels, old.Levels, func(a, b cgroup.Level) bool { return a.Dir == b.Dir }) {
		k.quotas = quotas
	}
}

// quotas are the texts of all files that say what a limit is.
func (s *Survey) quotas(l cgroup.Limits) string {
	var all strings.Builder
	if len(l.Levels) > 0 {
		_ = s.tree.Mount(l.Mount.Point) // if it fails, so does what is read below it
	}
	for _, level := range l.Levels {
		file := level.File(l.Version)
		quota := s.text(file)
		all.WriteString(quota)
		if l.Version == cgroup.V1 && !strings.HasPrefix(quota, "-") {
			all.WriteString(s.text(path.Dir(file) + "/cpu.cfs_period_us"))
		}
		all.WriteByte(0)
	}
	return all.String()
}

// text is that of a cgroup's file, which is read once a look; "" if it can't be read.
func (s *Survey) text(file string) string {
	t, ok := s.texts[file]
	if !ok {
		data, _ := s.tree.ReadGroup(file, foreign.Group)
		t = string(data)
		s.texts[file] = t
	}
	return t
}

// record is the text of a process's file, "" if it can't be read.
func record(root, file string) string {
	data, _ := foreign.ReadRecord(root, file, foreign.Record)
	return string(data)
}

// allowedLine are the CPUs that a process may run on, as its status file has them.
func allowedLine(root string, pid int) string {
	for line := range strings.Lines(record(root, procs.Dir("", pid)+"/status")) {
		if cpus, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(cpus)
		}
	}
	return ""
}
