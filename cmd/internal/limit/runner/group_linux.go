package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// group is a cgroup of ours, or one that systemd made for us: on v2 one directory, on v1 one in each hierarchy that we
// need.
type group struct {
	version  cgroup.Version
	cpu      string   // directory with the quota
	usage    string   // directory with the CPU time; on v1 it may be in a hierarchy of its own; "": it isn't counted
	memory   string   // directory with the memory limit; "": none
	origins  []string // v1: the groups that our threads are in
	warnings []error
	limited  bool   // CPU time is
	inForce  string // what the files of the limits held when it was set

	fd   *os.File // v2: the directory, to be born in
	stat counterFiles

	stop chan struct{} // closed: the watch ends
	left chan error    // then what it saw
}

// dirs are the group's directories, each once.
func (g *group) dirs() (dirs []string) {
	for _, d := range []string{g.cpu, g.usage, g.memory} {
		if d != "" && (len(dirs) == 0 || d != dirs[0]) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// prefix begins the names of our groups.
const prefix = "unthrottle-run-"

// sweep removes what killed runners have left in a directory.
func sweep(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if ours.Abandoned(prefix, name) && ownedByUs(filepath.Join(dir, name)) {
			removeGroup(filepath.Join(dir, name))
		}
	}
}

// ownedByUs reports whether a group was made by this user: another's may hold processes that are none of our business.
func ownedByUs(dir string) bool {
	var stat syscall.Stat_t
	return syscall.Lstat(dir, &stat) == nil && stat.Uid == uint32(os.Geteuid())
}

// Sweep removes what killed runners of this user's have left in the groups that this process is in, in all hierarchies, with the
// processes that are still in it.
func Sweep() {
	swept := map[string]bool{}
	for _, controller := range []string{"cpu", "cpuacct", "memory"} {
		dir, version, mount, err := cgroup.Locate(cgroup.Source{}, controller)
		if err != nil {
			continue
		}
		for ; !swept[dir]; dir = filepath.Dir(dir) {
			swept[dir] = true
			sweep(dir)
			if version == cgroup.V1 || len(dir) <= len(mount.Point) { // on v2 it may be in any of those above
				break
			}
		}
	}
}

// managedBySystemd reports whether the groups of cgroup v2 are systemd's.
func managedBySystemd() bool {
	if !exists("/run/systemd/system") {
		return false
	}
	_, version, _, err := cgroup.Locate(cgroup.Source{}, "cpu")
	return err == nil && version == cgroup.V2
}

// placeInCgroup makes a group for a command, at the nearest place where we may.
func placeInCgroup(l Limit) (place, error) {
	dir, version, mount, err := cgroup.Locate(cgroup.Source{}, "cpu")
	if err != nil {
		return nil, err
	}
	g := &group{version: version}
	if version == cgroup.V1 {
		err = g.makeV1(dir, l)
	} else {
		err = g.makeV2(dir, mount.Point, l)
	}
	if err == nil {
		err = g.set(l)
	}
	if err == nil {
		err = g.open()
	}
	if err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// makeV1 makes groups below our own, one in each hierarchy. What the CPU time is counted by may be mounted apart.
func (g *group) makeV1(dir string, l Limit) error {
	name := ours.Name(prefix)
	within := func(dir string) (string, error) {
		sweep(dir)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return "", makeError(err)
		}
		g.origins = append(g.origins, dir)
		return filepath.Join(dir, name), nil
	}
	var err error
	if g.cpu, err = within(dir); err != nil {
		return err
	}
	if exists(filepath.Join(g.cpu, "cpuacct.usage")) {
		g.usage = g.cpu
	} else if dir, _, _, err := cgroup.Locate(cgroup.Source{}, "cpuacct"); err == nil {
		if g.usage, err = within(dir); err != nil {
			g.usage = ""
		}
	}
	if l.countsMemory() {
		dir, _, _, err := cgroup.Locate(cgroup.Source{}, "memory")
		if err == nil {
			g.memory, err = within(dir)
		}
		if err != nil && l.Memory != 0 {
			return err
		}
	}
	return nil
}

func makeError(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("making a cgroup: %w (that takes root, or a group that was delegated to you)", err)
	}
	return fmt.Errorf("making a cgroup: %w", err)
}

// makeV2 makes a group below the nearest group that lets us: one with processes of its own can't have children with
// limits, so that it is rarely our own.
func (g *group) makeV2(own, top string, l Limit) error {
	var first error
	for dir := own; ; dir = filepath.Dir(dir) {
		err := g.makeBelow(dir, l)
		if err == nil {
			g.warnOfEscape(dir)
			return nil
		}
		if first == nil || !errors.Is(err, os.ErrPermission) && errors.Is(first, os.ErrPermission) {
			first = err
		}
		if len(dir) <= len(top) {
			return first
		}
	}
}

func (g *group) makeBelow(dir string, l Limit) error {
	sweep(dir)
	want := []string{"cpu"}
	if l.Memory != 0 {
		want = append(want, "memory")
	}
	for _, controller := range want {
		if err := enable(dir, controller); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, ours.Name(prefix))
	if err := os.Mkdir(path, 0o755); err != nil {
		return makeError(err)
	}
	g.cpu, g.usage = path, path
	if exists(filepath.Join(path, "memory.max")) {
		g.memory = path
	}
	return nil
}

// enable gives the children of a group a controller, if they don't have it. The only groups that we change for that are those that were
// delegated to us: they are ours.
func enable(dir, controller string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.Contains(" "+strings.TrimSpace(string(data))+" ", " "+controller+" ") {
		return nil
	}
	missing := fmt.Errorf("groups below %s have no %s controller: %s does not name it", dir, controller, file)
	if info, err := os.Stat(dir); err != nil || os.Geteuid() == 0 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return missing
	}
	if err := os.WriteFile(file, []byte("+"+controller), 0); err != nil {
		return fmt.Errorf("%w: %w", missing, err)
	}
	return nil
}

// warnOfEscape notes limits of groups that we are in and the command is not.
func (g *group) warnOfEscape(base string) {
	for _, level := range cgroup.Read(cgroup.Source{}).Levels {
		if len(level.Dir) > len(base) && level.Quota.CPUs() > 0 {
			g.warnings = append(g.warnings, fmt.Errorf("the command is not held to the %s of %s, which this shell is in",
				quantity.CPUs(level.Quota.CPUs()), level.Dir))
		}
	}
}

// set writes the limit. The kernel wants the period first, and a burst not above the quota.
func (g *group) set(l Limit) error {
	if l.CPUs != 0 {
		quota, period, burst := micros(l.Quota()), micros(l.PeriodInForce()), micros(l.Burst)
		var err error
		if g.version == cgroup.V1 {
			err = errors.Join(write(g.cpu, "cpu.cfs_period_us", period), write(g.cpu, "cpu.cfs_quota_us", quota))
		} else {
			err = write(g.cpu, "cpu.max", quota+" "+period)
		}
		if err != nil {
			return g.explain(l, err)
		}
		if l.Burst != 0 {
			file := "cpu.max.burst"
			if g.version == cgroup.V1 {
				file = "cpu.cfs_burst_us"
			}
			if err := write(g.cpu, file, burst); err != nil {
				return fmt.Errorf("setting a burst (kernels before 5.14 have none): %w", err)
			}
		}
		g.limited = true
		g.warnOfParents(l)
	}
	if l.Memory != 0 {
		file := "memory.max"
		if g.version == cgroup.V1 {
			file = "memory.limit_in_bytes"
		}
		if err := write(g.memory, file, strconv.FormatInt(l.Memory, 10)); err != nil {
			return err
		}
	}
	g.inForce = g.limits()
	return nil
}

// limits are what the files of the limits hold, as the kernel reports it.
func (g *group) limits() (text string) {
	for _, file := range []string{"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max", "memory.limit_in_bytes", "memory.max"} {
		for _, dir := range g.dirs() {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				text += file + " " + strings.TrimSpace(string(data)) + "; "
			}
		}
	}
	return strings.TrimSuffix(text, "; ")
}

// explain says why the kernel refused a quota: on v1 a group's can't be above that of a group it is in.
func (g *group) explain(l Limit, err error) error {
	if g.version != cgroup.V1 || !errors.Is(err, syscall.EINVAL) {
		return err
	}
	for dir := filepath.Dir(g.cpu); ; dir = filepath.Dir(dir) {
		quota, errQ := readInt(dir, "cpu.cfs_quota_us")
		period, errP := readInt(dir, "cpu.cfs_period_us")
		if errQ != nil || errP != nil || period <= 0 {
			return err
		}
		if parent := float64(quota) / float64(period); quota > 0 && parent < l.CPUs {
			return refused("the kernel refuses %s: on cgroup v1 a group's limit can't be above that of a group it is in, and %s has %s",
				quantity.CPUs(l.CPUs), dir, quantity.CPUs(parent))
		}
	}
}

// warnOfParents notes a limit above ours that is smaller, which v2 allows: then that one is in force.
func (g *group) warnOfParents(l Limit) {
	if g.version == cgroup.V1 {
		return
	}
	for dir := filepath.Dir(g.cpu); ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
		if err != nil {
			return // the root has none
		}
		var quota, period float64
		if n, _ := fmt.Sscan(string(data), &quota, &period); n == 2 && quota/period < l.CPUs {
			g.warnings = append(g.warnings, fmt.Errorf("a smaller limit of a group above is in force: %s has %s", dir, quantity.CPUs(quota/period)))
		}
	}
}

// open opens what is read and used repeatedly while the command runs.
func (g *group) open() (err error) {
	if g.version == cgroup.V2 {
		if g.fd, err = os.Open(g.cpu); err != nil {
			return err
		}
	}
	return g.stat.open(g.version, g.cpu, g.usage)
}

func (g *group) kind() Kind {
	if g.version == cgroup.V1 {
		return V1
	}
	return V2
}

func (g *group) command(c *processConfig) {
	if g.fd != nil {
		c.attr.UseCgroupFD, c.attr.CgroupFD = true, int(g.fd.Fd())
	}
}

// enter moves the calling thread. "0" is the thread itself: the kernel need not wait for others then, which takes
// milliseconds otherwise.
func (g *group) enter() error {
	if g.version == cgroup.V2 {
		return nil
	}
	for _, dir := range g.dirs() {
		if err := write(dir, "tasks", "0"); err != nil {
			g.leave()
			return err
		}
	}
	return nil
}

func (g *group) leave() {
	for _, dir := range g.origins {
		write(dir, "tasks", "0") // if that fails, the thread ends there with the command
	}
}

func (g *group) started(pid int) error {
	g.stop, g.left = make(chan struct{}), make(chan error, 1)
	go func() { g.left <- g.watch(pid) }()
	return nil
}

// watch looks whether the process is where it was put, until it is not or the watch is stopped. It reads one small file each time.
func (g *group) watch(pid int) error {
	tick := time.NewTicker(minRest)
	defer tick.Stop()
	for {
		err := g.outside(pid)
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-g.stop:
			return g.outside(pid)
		}
	}
}

// outside is the error of a process that is no longer in a group of ours. On version 1 a process that ends is in the root.
func (g *group) outside(pid int) error {
	own := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(own + "/cgroup")
	if err != nil {
		return nil
	}
	controller, path := strayed(string(data), g.controllers(), "/"+filepath.Base(g.cpu)+"/")
	if path == "" {
		return nil
	}
	if stat, err := os.ReadFile(own + "/stat"); err != nil || g.version == cgroup.V1 && exiting(string(stat)) {
		return nil
	}
	return fmt.Errorf("the program left its limit: its %s group is %s", controller, path)
}

// controllers are what our groups are for: none on version 2, where one group is for all.
func (g *group) controllers() (all []string) {
	if g.version == cgroup.V2 {
		return nil
	}
	all = append(all, "cpu")
	if g.usage != "" {
		all = append(all, "cpuacct")
	}
	if g.memory != "" {
		all = append(all, "memory")
	}
	return all
}

// strayed finds which controller's group is not below one of ours, in the text of /proc/PID/cgroup.
func strayed(text string, controllers []string, ours string) (controller, path string) {
	for line := range strings.Lines(text) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) < 3 || strings.Contains(part[2]+"/", ours) {
			continue
		}
		if controllers == nil && part[0] == "0" {
			return "control", part[2]
		}
		for _, c := range strings.Split(part[1], ",") {
			if slices.Contains(controllers, c) {
				return c, part[2]
			}
		}
	}
	return "", ""
}

// exiting reports whether a process has begun to end, by the text of its stat.
func exiting(stat string) bool {
	const pfExiting = 0x4
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err != nil || flags&pfExiting != 0
}

func (g *group) counters() cgroup.Counters { return g.stat.read() }

func (g *group) needs() int64 {
	if g.memory == "" {
		return 0
	}
	usage, cached, shared := "memory.current", "file", "shmem"
	if g.version == cgroup.V1 {
		usage, cached, shared = "memory.usage_in_bytes", "total_cache", "total_shmem"
	}
	now, err := readInt(g.memory, usage)
	if err != nil {
		return 0
	}
	data, _ := os.ReadFile(filepath.Join(g.memory, "memory.stat"))
	files, known := stat(data, cached)
	inMemory, _ := stat(data, shared) // counts as cached, though it can't be read from a file again
	if !known {
		return 0
	}
	return max(0, now-files+inMemory)
}

func (g *group) finish(res *Result) {
	if g.version == cgroup.V2 && g.limited && !exists(filepath.Join(g.cpu, "cpu.max")) {
		g.warnings = append(g.warnings, fmt.Errorf("the limit was lost: the cpu controller was taken away from %s meanwhile, as systemd does", g.cpu))
	}
	lost := len(g.warnings) > 0 && g.version == cgroup.V2 && g.limited && !exists(filepath.Join(g.cpu, "cpu.max"))
	if g.stop != nil {
		close(g.stop)
		res.Escaped = <-g.left
	}
	if now := g.limits(); !lost && g.inForce != "" && now != g.inForce {
		res.Escaped = fmt.Errorf("its limit was changed while it ran: %s before, %s now", g.inForce, now)
	}
	res.Warnings = append(res.Warnings, g.warnings...)
	g.readMemory(res)
	res.Left = g.remove()
}

func (g *group) readMemory(res *Result) {
	if g.memory == "" {
		return
	}
	peak, kills := "memory.peak", "memory.events"
	if g.version == cgroup.V1 {
		peak, kills = "memory.max_usage_in_bytes", "memory.oom_control"
	}
	if n, err := readInt(g.memory, peak); err == nil {
		res.PeakMemory, res.PeakOf = n, OfGroup
	}
	data, _ := os.ReadFile(filepath.Join(g.memory, kills))
	res.OOMKills, _ = stat(data, "oom_kill")
}

// remove removes the group, and returns how many processes had to be killed for that.
func (g *group) remove() (left int) {
	g.stat.close()
	if g.fd != nil {
		g.fd.Close()
	}
	for _, dir := range g.dirs() {
		left = max(left, removeGroup(dir))
	}
	return left
}

// removeGroup kills the processes of a group, and of those that a program has made in it, and removes them all. A group that is
// just left may be busy for a moment.
func removeGroup(dir string) (left int) {
	for try := range 500 {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EBUSY) {
			return left
		}
		killed := 0
		for _, group := range slices.Backward(groups(dir)) {
			killed += killAll(group)
			if group != dir {
				syscall.Rmdir(group)
			}
		}
		left = max(left, killed)
		time.Sleep(time.Duration(min(try, 10)) * time.Millisecond)
	}
	return left
}

// groups are a group and those in it, a parent before its children.
func groups(dir string) (all []string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func killAll(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	pids := strings.Fields(string(data))
	for _, text := range pids {
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 && pid != os.Getpid() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return len(pids)
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func readInt(dir, file string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
