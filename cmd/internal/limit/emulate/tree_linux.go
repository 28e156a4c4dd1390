package emulate

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a process and what it has started: their CPU time, and the signals to them.
//
// How a new process is recognised: by its parent, which must be one of ours, or by a tag. The tag is the soft limit RLIMIT_RTTIME of the
// first process, set to a value that no other process has. It is inherited regardless of what happens to the parents, so that daemons are
// found too; it takes no privilege; and as a limit of a hundred thousand years on real-time scheduling it has no effect. Only programs that
// list their limits can see it.
//
// PR_SET_CHILD_SUBREAPER, by which orphans would become children of this process, is not used: it applies to the whole
// process, so that we would get the orphans of all its other children as well, could not tell them from our own, and
// would have to reap them.
//
// When to look for new processes: /proc/loadavg ends in the number that was given last. While that stands, nothing was
// started; when it moves, only the numbers in between are looked at.
type tree struct {
	proc    string // where /proc is
	first   int    // the process that all others come from
	members []*member
	byPID   map[int]*member
	ledger  *ledger
	guard   guard

	tag     uint64 // 0: none could be set
	loadavg int    // open file, or -1
	last    int    // number given last; 0: unknown
	late    []late
	stale   bool // reaped times must be read
	pause   time.Time
	buf     [4096]byte
}

// A member is a process of the tree. Its files name it for good, its number only while it lives.
type member struct {
	pid   int
	start uint64
	pidfd int  // -1: not available
	stat  int  // /proc/PID/stat, open
	held  bool // stopped by us, and by no one else
	told  bool // the guard knows it
}

// late is a number that was given to a process that is not yet there, or gone again.
type late struct{ pid, tries int }

const (
	lateTries = 2    // looks until a number counts as gone: a process appears at once after it got its number
	maxRange  = 4096 // numbers that are tried; if more were given, /proc is read instead
	scanShare = 30   // a search for processes may take one in this many parts of the time
)

func newTree(pid int) (*tree, error) {
	t := &tree{proc: "/proc", first: pid, byPID: map[int]*member{}, ledger: newLedger(), loadavg: -1}
	if pid <= 1 || pid == os.Getpid() {
		return nil, fmt.Errorf("process %d can't be held", pid)
	}
	if fd, err := unix.Open(t.proc+"/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		t.loadavg = fd
	}
	t.setTag(pid)
	if err := t.join(pid); err != nil {
		t.close()
		return nil, fmt.Errorf("holding process %d: %w", pid, err)
	}
	t.scan()
	return t, nil
}

// setTag tags the first process. Values are random from 2⁶¹ on; a hard limit below that, or none for us to see, means
// no tag.
func (t *tree) setTag(pid int) {
	tag := 1<<61 | rand.Uint64N(1<<60)
	var l unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l) != nil || l.Max < tag {
		return
	}
	l.Cur = tag
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, &l, nil) == nil {
		t.tag = tag
	}
}

func (t *tree) tagged(pid int) bool {
	var l unix.Rlimit
	return t.tag != 0 && unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l) == nil && l.Cur == t.tag
}

// cpuTime reads the CPU clock of a process. Threads, and processes that are gone, have none. For clock numbers see
// CPUCLOCK_SCHED in the kernel's posix-timers.h.
func cpuTime(pid int) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// ErrGone is the error of a process that has ended.
var ErrGone = errors.New("there is no such process")

// join takes a process into the tree.
func (t *tree) join(pid int) error {
	if _, err := cpuTime(pid); err != nil {
		return ErrGone
	}
	stat, err := unix.Open(t.proc+"/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	m := &member{pid: pid, stat: stat, pidfd: -1}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		m.pidfd = fd
	}
	// The open file is of the process that had the number then. That it can be read now means the pidfd is its as well.
	s, ok := t.status(m)
	if !ok || m.ended(s) {
		m.close()
		return ErrGone
	}
	m.start = s.start
	if len(t.members) > 0 && t.guard.cmd == nil {
		_ = t.guard.start(t.tag) // the first hold tries again, and says why not
	}
	t.members = append(t.members, m)
	t.byPID[pid] = m
	t.ledger.join(pid, s.parent)
	t.ledger.reaped(pid, s.parent, s.reaped)
	t.stale = true
	return nil
}

// ended reports whether nothing of it runs. A process whose first thread has ended looks like a remnant too.
func (m *member) ended(s status) bool {
	return s.ended() && (m.pidfd < 0 || m.poll(0))
}

// poll waits some milliseconds for the end of a process, and reports whether it came.
func (m *member) poll(millis int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}}, millis)
	return err == nil && n > 0
}

func (m *member) close() {
	unix.Close(m.stat)
	if m.pidfd >= 0 {
		unix.Close(m.pidfd)
	}
}

func (t *tree) close() {
	for _, m := range t.members {
		m.close()
	}
	t.members, t.byPID = nil, map[int]*member{}
	if t.loadavg >= 0 {
		unix.Close(t.loadavg)
		t.loadavg = -1
	}
}

// status reads what the kernel says about a member. It fails when the process is gone.
func (t *tree) status(m *member) (status, bool) {
	n, err := unix.Pread(m.stat, t.buf[:], 0)
	if err != nil || n == 0 {
		return status{}, false
	}
	return parseStat(t.buf[:n])
}

// look brings the CPU time up to date and takes in new processes, unless that was done a moment ago and is expensive.
// When the first process has ended, the caller wants the whole sum.
func (t *tree) look() time.Duration {
	t.clocks()
	if t.changed() && (time.Now().After(t.pause) || t.firstEnded()) {
		t.search()
	}
	return t.ledger.used
}

func (t *tree) firstEnded() bool {
	if len(t.members) == 0 || t.members[0].pid != t.first {
		return true
	}
	s, ok := t.status(t.members[0])
	return !ok || t.members[0].ended(s)
}

// search takes in new processes and reads the time of those that have ended. It reports whether any was new.
func (t *tree) search() (found bool) {
	begin := time.Now()
	found = t.scan()
	for _, m := range t.members {
		if s, ok := t.status(m); ok {
			t.ledger.reaped(m.pid, s.parent, s.reaped)
		}
	}
	t.stale = false
	if found {
		t.clocks()
	}
	now := time.Now()
	t.pause = now.Add(scanShare * now.Sub(begin))
	return found
}

// clocks reads the clocks, and drops the processes that no longer have one.
func (t *tree) clocks() {
	kept := t.members[:0]
	for _, m := range t.members {
		used, err := cpuTime(m.pid)
		// A clock that went back is that of another process with the same number.
		if err != nil || used < t.ledger.clockOf(m.pid) && t.signal(m, 0) != nil {
			t.leave(m)
			continue
		}
		t.ledger.clock(m.pid, used)
		kept = append(kept, m)
	}
	clear(t.members[len(kept):])
	t.members = kept
}

func (t *tree) leave(m *member) {
	t.drop(m)
	t.ledger.gone(m.pid)
	delete(t.byPID, m.pid)
	m.close()
	t.stale = true
}

// changed reports whether processes may have come or gone.
func (t *tree) changed() bool {
	last, ok := t.lastPID()
	return !ok || last != t.last || t.stale || len(t.late) > 0
}

func (t *tree) lastPID() (pid int, ok bool) {
	if t.loadavg < 0 {
		return 0, false
	}
	n, err := unix.Pread(t.loadavg, t.buf[:], 0)
	if err != nil {
		return 0, false
	}
	return parseLastPID(t.buf[:n])
}

// scan takes in all new processes. Parents come before their children, except where numbers wrapped around: so it
// repeats until none is found.
func (t *tree) scan() (found bool) {
	candidates := t.candidates()
	for again := true; again; {
		again = false
		strangers := candidates[:0]
		for _, c := range candidates {
			switch joined, there := t.consider(c.pid); {
			case joined:
				again, found = true, true
			case there:
				strangers = append(strangers, c)
			case c.tries < lateTries:
				t.late = append(t.late, late{c.pid, c.tries + 1})
			}
		}
		candidates = strangers
	}
	return found
}

// candidates are the numbers that may be those of new processes.
func (t *tree) candidates() (list []late) {
	last, ok := t.lastPID()
	known := ok && t.last > 0 && last >= t.last && last-t.last <= maxRange
	if !known {
		t.last, t.late = last, nil // 0 if it can't be read
		return t.all()
	}
	list, t.late = t.late, nil
	for pid := t.last + 1; pid <= last; pid++ {
		list = append(list, late{pid: pid})
	}
	t.last = last
	return list
}

// all are the numbers of all processes. None of them is late.
func (t *tree) all() (list []late) {
	dir, err := os.Open(t.proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, late{pid, lateTries})
		}
	}
	return list
}

// consider takes a process in if it is one of ours.
func (t *tree) consider(pid int) (joined, there bool) {
	if t.byPID[pid] != nil || pid == os.Getpid() {
		return false, true
	}
	if _, err := cpuTime(pid); err != nil {
		return false, false
	}
	if !t.tagged(pid) && t.byPID[t.parent(pid)] == nil {
		return false, true
	}
	return t.join(pid) == nil, true
}

func (t *tree) parent(pid int) int {
	fd, err := unix.Open(t.proc+"/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, t.buf[:])
	s, _ := parseStat(t.buf[:max(n, 0)])
	return s.parent
}

// hold stops all processes, parents first: a parent that runs could see a child that stands. A process that was forked
// while its parent got the signal is there when the signal is sent, so that another search finds it.
func (t *tree) hold() error {
	for {
		parents := t.ledger.parents()
		for _, m := range t.members {
			if err := t.stop(m); err != nil {
				return err
			}
			if m.held && parents[m.pid] {
				t.awaitStop(m)
			}
		}
		if last, ok := t.lastPID(); ok && last == t.last && len(t.late) == 0 || !t.search() {
			return nil
		}
	}
}

// stop stops one process, if no one else has.
func (t *tree) stop(m *member) error {
	if m.held {
		return nil
	}
	s, ok := t.status(m)
	if !ok || m.ended(s) {
		return nil
	}
	if s.stopped() {
		t.drop(m)
		return nil
	}
	if err := t.tell(m); err != nil {
		return err
	}
	m.held = t.signal(m, syscall.SIGSTOP) == nil
	return nil
}

// awaitStop waits until a process stands. One that sleeps in waitpid would look for stopped children once more before it
// takes its own stop. It is given up on those that don't take it soon, as a parent that waits for the end of a vfork.
func (t *tree) awaitStop(m *member) {
	for deadline := time.Now().Add(5 * time.Millisecond); time.Now().Before(deadline); {
		if s, ok := t.status(m); !ok || !moves(s.state) && t.threadsStand(m) {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 30_000}, nil)
	}
}

// moves reports whether a thread in this state has not taken a stop, or may do something before it does.
func moves(state byte) bool { return state == 'R' || state == 'S' }

// threadsStand reports whether all threads of a process have taken its stop: each does so on its own, and any may be the one that sleeps in
// waitpid.
func (t *tree) threadsStand(m *member) bool {
	tasks := t.proc + "/" + strconv.Itoa(m.pid) + "/task"
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return true // it has ended
	}
	for _, e := range entries {
		stat, err := os.ReadFile(tasks + "/" + e.Name() + "/stat")
		if end := bytes.LastIndexByte(stat, ')'); err == nil && end >= 0 && len(stat) > end+2 && moves(stat[end+2]) {
			return false
		}
	}
	return true
}

// tell tells the guard about a process before it is stopped for the first time. A guard that has ended is replaced.
func (t *tree) tell(m *member) error {
	if m.told {
		return nil
	}
	if t.guard.cmd != nil && t.guard.hold(m) != nil {
		t.guard.lost()
	}
	if t.guard.cmd == nil {
		if err := t.guard.start(t.tag); err != nil {
			return err
		}
		for _, other := range t.members {
			if other.told || other == m {
				other.told = t.guard.hold(other) == nil
			}
		}
	}
	m.told = true
	return nil
}

// drop tells the guard that a process is not ours to continue.
func (t *tree) drop(m *member) {
	if m.told {
		t.guard.drop(m)
		m.told = false
	}
}

// Signals as bits.
const (
	stopSignal  = 1 << (syscall.SIGSTOP - 1)
	stopSignals = stopSignal | 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)
)

// release continues what we have stopped, children first.
func (t *tree) release() {
	for i := len(t.members) - 1; i >= 0; i-- {
		if m := t.members[i]; m.held {
			m.held = false
			t.resume(m)
		}
	}
}

// resume continues one process. SIGCONT removes stop signals that others have sent meanwhile: one of them that the program may handle is
// sent again, and one that it can't handle means that it must stay stopped.
func (t *tree) resume(m *member) {
	waiting := t.pending(m) & stopSignals
	if waiting&stopSignal != 0 {
		// Before the process has come to its stop the waiting signal is ours.
		if s, ok := t.status(m); ok && s.stopped() && t.pending(m)&stopSignal != 0 {
			t.drop(m)
			return
		}
	}
	t.signal(m, syscall.SIGCONT)
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if waiting&(1<<(sig-1)) != 0 {
			t.signal(m, sig)
		}
	}
}

func (t *tree) pending(m *member) uint64 {
	fd, err := unix.Open(t.proc+"/"+strconv.Itoa(m.pid)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, t.buf[:])
	set, _ := parsePending(t.buf[:max(n, 0)])
	return set
}

// signal sends a signal to a member, and to no other process that got its number since.
func (t *tree) signal(m *member, sig syscall.Signal) error {
	if m.pidfd >= 0 {
		err := unix.PidfdSendSignal(m.pidfd, sig, nil, 0)
		if err != unix.ENOSYS {
			return err
		}
	}
	if _, ok := t.status(m); !ok {
		return ErrGone
	}
	return unix.Kill(m.pid, sig)
}

// kill ends what is left, and returns how many processes that were.
func (t *tree) kill() (left int) {
	killed := map[*member]bool{}
	for range 100 { // what was forked before its parent was hit
		t.last = 0 // search all of /proc
		t.clocks()
		t.search()
		var fresh []*member
		for _, m := range t.members {
			if s, ok := t.status(m); ok && !m.ended(s) && !killed[m] {
				killed[m] = true
				fresh = append(fresh, m)
				t.signal(m, syscall.SIGKILL)
			}
		}
		if len(fresh) == 0 {
			break
		}
		for _, m := range fresh {
			t.awaitEnd(m)
		}
	}
	return len(killed)
}

// awaitEnd waits until a killed process has ended. That takes no time, unless a disk or a file server is slow.
func (t *tree) awaitEnd(m *member) {
	for range 200 {
		if s, ok := t.status(m); !ok || m.ended(s) {
			return
		}
		if m.pidfd < 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		m.poll(5)
	}
}
