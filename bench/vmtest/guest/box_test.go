//go:build linux

package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// A box is what a process sees of the cgroups.
type box string

const (
	// open sees the machine's mount.
	open box = ""
	// private is a modern container: a cgroup namespace of its own, and the cgroups mounted again in it.
	private box = "private"
	// nested is private with the process in a group below its root: Docker in
	// Docker, or systemd in a container.
	nested box = "nested"
	// bound is a container in the host's cgroup namespace, as `docker run
	// --cgroupns=host` makes it: its own group is mounted at the usual place, and
	// /proc names it with the host's path.
	bound box = "bound"
	// covered is bound with the machine's mount below it still.
	covered box = "covered"
	// elsewhere has the cgroups at a place with a space in its name.
	elsewhere box = "elsewhere"
	// unmounted has no cgroups at all, as some sandboxes.
	unmounted box = "unmounted"
	// halfway is a cgroup namespace without a mount that fits it.
	halfway box = "halfway"
)

// nestedGroup is the name of the group in the box nested.
const nestedGroup = "level1"

// A place is where a process runs: a group, a box, and a set of CPUs.
type place struct {
	group group // where it starts; the box nested moves it into its child
	box   box
	mask  uint64 // 0: all CPUs
}

// command makes a command that starts at p. A box has to be there before the
// program's first instruction, because the Go runtime looks for its limit before
// main. So the test binary runs first, makes the box, and becomes the program.
func (p place) command(env []string, path string, args ...string) *exec.Cmd {
	p.group.t.Helper()
	cmd := p.group.command(path, args...)
	cmd.Env = append([]string{"HOME=/tmp", "PATH=/"}, env...)
	if p.box == open {
		return cmd
	}
	inner := p.group.command(os.Args[0], append([]string{path}, args...)...)
	inner.Env = append(cmd.Env, boxEnv+"="+string(p.box))
	inner.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	switch p.box {
	case private, nested, halfway:
		inner.SysProcAttr.Unshareflags |= syscall.CLONE_NEWCGROUP
	}
	return inner
}

// start starts a command of p with p's set of CPUs, which a process inherits from
// the thread that starts it.
func (p place) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if p.mask != 0 {
		setThreadAffinity(t, p.mask)
		defer setThreadAffinity(t, 1<<runtime.NumCPU()-1)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func setThreadAffinity(t *testing.T, mask uint64) {
	t.Helper()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0,
		unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))); errno != 0 {
		t.Fatalf("setting the affinity: %v", errno)
	}
}

// ---- the process's side

// enterBox makes the box around this process, which has its own mounts already, and
// becomes the program. It returns only when that failed.
func enterBox(kind box, argv []string) error {
	if err := kind.mount(); err != nil {
		return err
	}
	os.Unsetenv(boxEnv)
	return syscall.Exec(argv[0], argv, os.Environ())
}

func (b box) mount() error {
	switch b {
	case private:
		return remountCgroups()
	case nested:
		if err := remountCgroups(); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(cgroupRoot, nestedGroup, "cgroup.procs"), []byte("0"), 0)
	case elsewhere:
		const dir = "/tmp/c g"
		return errors.Join(
			os.MkdirAll(dir, 0o755),
			syscall.Mount("cgroup2", dir, "cgroup2", 0, ""),
			syscall.Unmount(cgroupRoot, syscall.MNT_DETACH),
		)
	case unmounted:
		return syscall.Unmount(cgroupRoot, syscall.MNT_DETACH)
	case covered:
		own, err := ownGroup()
		if err != nil {
			return err
		}
		return bindMount(own, cgroupRoot)
	case bound:
		// By way of another place: the machine's mount has to go first.
		const aside = "/sys/kernel/debug"
		own, err := ownGroup()
		if err != nil {
			return err
		}
		return errors.Join(
			bindMount(own, aside),
			syscall.Unmount(cgroupRoot, syscall.MNT_DETACH),
			syscall.Mount(aside, cgroupRoot, "", syscall.MS_MOVE, ""),
		)
	case halfway:
		return nil
	}
	return fmt.Errorf("no box %q", b)
}

func ownGroup() (dir string, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "0::")
	if !ok {
		return "", fmt.Errorf("bad /proc/self/cgroup %q", text)
	}
	return cgroupRoot + path, nil
}

func bindMount(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", from, to, err)
	}
	return nil
}
