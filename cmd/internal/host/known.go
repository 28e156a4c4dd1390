package host

import (
	"maps"
	"os"
	"path"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// systems remember what surrounds processes, for a survey that looks again and again. Of a process that was seen before only what
// may have changed is read: the groups that it is in, their quotas, and the CPUs that it may run on. Its mounts and namespaces are
// taken to be those that it had.
type systems struct {
	known map[int]*surroundings
	seen  map[int]*surroundings // in this look
	texts map[string]string     // of files that were read in this look: a group holds many processes
}

// surroundings are those of a process, and what they rest on.
type surroundings struct {
	process procs.Process
	started string // by the kernel's count: another process may have its number now
	groups  string // text of /proc/PID/cgroup
	cpus    string // that it may run on
	quotas  string // text of its groups' files

	system     choice.System
	prediction choice.Prediction
}

// begin begins a look. Processes that are not seen in it are forgotten when it ends.
func (s *systems) begin() {
	if s.seen != nil {
		s.known = s.seen
	}
	s.seen, s.texts = map[int]*surroundings{}, map[string]string{}
}

// limit reads the limit of a process, as far as that has changed.
func (s *systems) limit(root string, p *Process) {
	now := &surroundings{process: p.Process, cpus: allowed(root, p.PID)}
	proc := procs.Dir(root, p.PID)
	now.groups, now.started = text(proc+"/cgroup"), startOf(text(proc+"/stat"))
	if old := s.known[p.PID]; old != nil && old.same(now) && old.quotas == s.quotas(root, old.system.Limits) {
		p.System, p.Prediction = old.system, old.prediction
		s.seen[p.PID] = old
		return
	}
	p.readLimit(root, p.PID)
	now.system, now.prediction = p.System, p.Prediction
	// What can't be read now may be tomorrow, and what is not known to be the whole is not kept.
	if l := p.System.Limits; now.started != "" && now.cpus != "" && len(l.Levels) > 0 && (l.State == cgroup.Limited || l.State == cgroup.None) {
		now.quotas = s.quotas(root, l)
		s.seen[p.PID] = now
	}
}

// same reports whether a process is the one that it was, in the same groups and on the same CPUs.
func (s *surroundings) same(now *surroundings) bool {
	return s.started == now.started && s.groups == now.groups && s.cpus == now.cpus &&
		s.process.Program == now.process.Program && maps.Equal(s.process.Env, now.process.Env)
}

// quotas are the texts of all files that say what a limit is.
func (s *systems) quotas(root string, l cgroup.Limits) string {
	var all strings.Builder
	for _, level := range l.Levels {
		file := level.File(l.Version)
		all.WriteString(s.text(root + file))
		if l.Version == cgroup.V1 {
			all.WriteString(s.text(root + path.Dir(file) + "/cpu.cfs_period_us"))
		}
		all.WriteByte(0)
	}
	return all.String()
}

// text is that of a file, which is read once a look.
func (s *systems) text(file string) string {
	t, ok := s.texts[file]
	if !ok {
		t = text(file)
		s.texts[file] = t
	}
	return t
}

// text is that of a file, "" if it can't be read.
func text(file string) string {
	data, _ := os.ReadFile(file)
	return string(data)
}

// startOf is when a process was started, as the text of its stat file has it: the 22nd field, the 20th after the name.
func startOf(stat string) string {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// allowedLine are the CPUs that a process may run on, as its status file has them.
func allowedLine(root string, pid int) string {
	for line := range strings.Lines(text(procs.Dir(root, pid) + "/status")) {
		if cpus, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(cpus)
		}
	}
	return ""
}
