package host

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A known is a program that a survey has seen before. It is the same as long as its memory can be read: after its end, or an exec, it no
// longer can be. What can't change of it is not read again: its file, its command, its environment, its mounts and namespaces.
type known struct {
	facts Process // as they were read at first
	live  *golive.Process
	last  glance

	// What the limit in facts rests on, as it was just before that was read; "" is not known.
	groups string // text of /proc/PID/cgroup
	cpus   string // that it may run on
	quotas string // text of its groups' files

	looks int // since the memory limit was read; not all are in one look
}

// newKnown is what is remembered of a process that was seen for the first time.
func newKnown(p *Process, live *golive.Process) *known {
	return &known{facts: *p, live: live, looks: p.PID % lookAgain}
}

// again begins to look at a process that was seen before, and reports whether it still runs. What it does is seen while it is observed, if
// it is.
func (v *visit) again(l *look) bool {
	k := l.known
	p := k.facts
	if !k.live.Runs() || (v.For <= 0 || !k.last.schedKnown) && p.look(k.live) != nil {
		k.live.Close()
		l.known = nil
		return false
	}
	v.programs.Keep(p.Program)
	v.files.Keep(k.live)
	v.limit(k, &p)
	if k.looks++; k.looks >= lookAgain { // it takes as long as everything else together, and rarely changes
		k.looks = 0
		k.facts.System.Memory = cgroup.ReadMemory(cgroup.Source{Root: v.Root, PID: p.PID})
	}
	p.System.Memory = k.facts.System.Memory
	l.p, l.live = &p, k.live
	return true
}

// An other is a process that was looked at before and isn't a Go program, or has an odd file. It may become one by an exec, or load a Go
// library.
type other struct {
	started time.Time
	file    procs.FileID
	looks   int   // since it was looked at
	err     error // what came of it
}

// lookAgain is after how many looks a process of the same file is looked at again, and the memory limit of a program read.
const lookAgain = 10

// readOther reads which process has a pid now.
func (v *visit) readOther(pid int) other {
	dir := procs.Dir("", pid)
	file, _ := v.tree.Stat(dir + "/exe") // a kernel thread has none
	started, _ := v.clock.ParseStarted(record(v.Root, dir+"/stat"))
	return other{started: started, file: file}
}

// newOther is what is remembered of a process that isn't a Go program. When it is looked at again depends on its number, so that not all
// are at once.
func newOther(pid int, now other, err error) *other {
	now.looks, now.err = pid%lookAgain, err
	return &now
}

// again reports whether a process is still what it was, so that it need not be looked at.
func (o *other) again(now other) bool {
	o.looks++
	return o.looks < lookAgain && !now.started.IsZero() && now.started.Equal(o.started) && now.file == o.file
}

// forget drops the processes that are gone, and files that none of those now running has.
func (s *Survey) forget(pids []int) {
	s.programs.Forget()
	s.files.Forget()
	for pid, k := range s.known {
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			k.live.Close()
			delete(s.known, pid)
		}
	}
	forget(s.others, pids)
	forget(s.stuck, pids)
}

func forget[T any](m map[int]T, pids []int) {
	for pid := range m {
		if _, ok := slices.BinarySearch(pids, pid); !ok {
			delete(m, pid)
		}
	}
}

// limit reads the limit of a process, if what it rests on has changed: the groups that it is in, their quotas, or the CPUs that it may
// run on. What isn't known may be tomorrow.
func (v *visit) limit(k *known, p *Process) {
	groups, cpus := record(v.Root, procs.Dir("", p.PID)+"/cgroup"), allowed(v.Root, p.PID)
	old := k.facts.System.Limits
	quotas := v.quotas(old)
	sure := len(old.Levels) > 0 && (old.State == cgroup.Limited || old.State == cgroup.None)
	if sure && cpus != "" && groups == k.groups && cpus == k.cpus && quotas == k.quotas {
		return
	}
	v.readLimit(p)
	k.facts.System, k.facts.Prediction = p.System, p.Prediction
	k.groups, k.cpus, k.quotas = groups, cpus, ""
	if l := p.System.Limits; l.Version == old.Version && slices.EqualFunc(l.Levels, old.Levels, func(a, b cgroup.Level) bool { return a.Dir == b.Dir }) {
		k.quotas = quotas
	}
}

// quotas are the texts of all files that say what a limit is.
func (v *visit) quotas(l cgroup.Limits) string {
	var all strings.Builder
	if len(l.Levels) > 0 {
		_ = v.tree.Mount(l.Mount.Point) // if it fails, so does what is read below it
	}
	for _, level := range l.Levels {
		file := level.File(l.Version)
		quota := v.text(file)
		all.WriteString(quota)
		if l.Version == cgroup.V1 && !strings.HasPrefix(quota, "-") {
			all.WriteString(v.text(path.Dir(file) + "/cpu.cfs_period_us"))
		}
		all.WriteByte(0)
	}
	return all.String()
}

// text is that of a cgroup's file, which is read once a look; "" if it can't be read.
func (v *visit) text(file string) string {
	t, ok := v.texts[file]
	if !ok {
		data, _ := v.tree.ReadGroup(file, foreign.Group)
		t = string(data)
		v.texts[file] = t
	}
	return t
}

// record is the text of a process's file, "" if it can't be read.
func record(root, file string) string {
	data, _ := foreign.ReadRecord(root, file, foreign.Record)
	return string(data)
}

// allowedLine are the CPUs that a process may run on, as in its status file.
func allowedLine(root string, pid int) string {
	for line := range strings.Lines(record(root, procs.Dir("", pid)+"/status")) {
		if cpus, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.Clone(strings.TrimSpace(cpus)) // the whole text is not kept
		}
	}
	return ""
}
