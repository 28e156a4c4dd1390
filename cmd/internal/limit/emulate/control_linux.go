package emulate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Controller holds a process and its descendants to a limit.
type Controller struct {
	begin time.Time
	wake  int           // eventfd that ends a wait
	ended chan struct{} // closed when the loop has ended
	once  sync.Once

	mu       sync.Mutex
	tree     *tree
	account  *account
	cpus     int
	stopping bool
	over     bool     // the loop has ended
	final    Counters // as it was then
	failure  error    // why nothing is held any longer
}

// Check returns why no process can be held here, or nil.
func Check() error {
	for _, file := range []string{shell, "/proc/self/stat"} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("holding a process takes %s: %w", file, err)
		}
	}
	return nil
}

// Start begins to hold a process that has just been started, and all that comes of it, to a limit.
func Start(pid int, l Limit) (*Controller, error) {
	if err := errors.Join(l.check(), Check()); err != nil {
		return nil, err
	}
	t, err := newTree(pid)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.close()
		return nil, err
	}
	c := &Controller{
		begin: time.Now(), wake: wake, ended: make(chan struct{}),
		tree: t, account: newAccount(l, looks(), 0), cpus: usableCPUs(pid),
	}
	go c.loop()
	return c, nil
}

// looks says how often to look. Clocks of running processes move with the kernel's tick, 1 to 10 ms: to look more often
// than a few times a tick shows nothing new. The resolution of the coarse clock is the tick.
func looks() steps {
	tick := 4 * time.Millisecond
	var ts unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts) == nil && ts.Nano() > 0 {
		tick = time.Duration(ts.Nano())
	}
	return steps{
		busy: min(max(tick/4, 500*time.Microsecond), time.Millisecond),
		idle: 4 * time.Millisecond,
	}
}

// usableCPUs is on how many CPUs a process may run.
func usableCPUs(pid int) int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil || set.Count() == 0 {
		return runtime.NumCPU()
	}
	return set.Count()
}

// loop has a thread of its own, which ends with it.
func (c *Controller) loop() {
	runtime.LockOSThread()
	defer close(c.ended)
	defer c.end()
	hurry()
	for {
		wait, ok := c.step()
		if !ok {
			return
		}
		c.sleep(wait)
	}
}

// hurry makes the thread wake in time. It needs no privilege: a short slice asks for less CPU time at a stretch in
// return for getting it sooner (Linux 6.12 and later; others ignore it), and timers are not put off to save wake-ups.
func hurry() {
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(100 * time.Microsecond)
		unix.SchedSetAttr(0, attr, 0)
	}
}

// step looks once, and holds or continues the program.
func (c *Controller) step() (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return 0, false
	}
	was := c.account.held
	used := c.tree.look()
	now := time.Since(c.begin)
	d := c.account.step(now, used, c.cpus)
	switch {
	case d.hold && !was:
		c.failure = c.tree.hold()
	case was && !d.hold:
		c.tree.release()
	}
	if c.failure != nil {
		return 0, false
	}
	return now + d.wait - time.Since(c.begin), true
}

// sleep waits, or until the controller is stopped. The kernel's timers keep to some ten microseconds, those of Go to half
// a millisecond.
func (c *Controller) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	ts := unix.NsecToTimespec(d.Nanoseconds())
	unix.Ppoll([]unix.PollFd{{Fd: int32(c.wake), Events: unix.POLLIN}}, &ts, nil)
}

// end continues everything, however the loop ended.
func (c *Controller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree.look()
	c.tree.release()
	c.tree.guard.stop()
	c.account.used = c.tree.ledger.used
	c.final = c.account.at(time.Since(c.begin))
	c.over = true
}

// Counters are what the limit has done so far, with the CPU time as of now. It may be called at any time.
func (c *Controller) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return c.final
	}
	used := c.tree.look()
	counters := c.account.at(time.Since(c.begin))
	counters.CPU = used
	return counters
}

// Stop ends the limit: everything that it has stopped goes on. It may be called again.
func (c *Controller) Stop() Counters {
	c.shut(func() {})
	return c.Counters()
}

// Kill stops as Stop does, ends what is left of the program, and returns how many processes that were. After Stop it
// can do nothing.
func (c *Controller) Kill() (left int) {
	c.shut(func() { left = c.tree.kill() })
	return left
}

// shut ends the loop. Others that call it meanwhile wait.
func (c *Controller) shut(last func()) {
	c.once.Do(func() {
		c.mu.Lock()
		c.stopping = true
		c.mu.Unlock()
		unix.Write(c.wake, binary.NativeEndian.AppendUint64(nil, 1))
		<-c.ended
		unix.Close(c.wake)
		c.mu.Lock()
		defer c.mu.Unlock()
		last()
		c.tree.close()
	})
}

// Warnings tell what could not be done. They are complete when the controller is stopped.
func (c *Controller) Warnings() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return []error{fmt.Errorf("the limit was given up: %w", c.failure)}
	}
	return nil
}
