//go:build linux

// Guestinit is the first process of the virtual machine of package vmtest, or a
// service of it where systemd is the first process.
//
// It answers: how does a bare kernel become a place where the guest tests can
// run? It mounts the kernel's file systems, turns on the cgroup controllers,
// runs the test binary, and powers off. Words of the kernel's command line that
// begin with "-test." go to the test binary. What that writes goes to the first
// serial port, between two marks, the last of which carries the exit code. Under
// systemd only the last three of these are left to do.
//
// It is not an init system: no devices are set up, no modules loaded, nothing is
// started but the tests.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

func main() {
	// Whatever happens, PID 1 must not just exit: that is a kernel panic. (The host would see that too, but with less to read.)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guestinit: error:", err) // the console
	}
	powerOff()
}

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	port, err := os.OpenFile("/dev/ttyS0", os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	fmt.Fprintln(port, vmtest.BeginMark)
	code, err := runTests(port)
	if err != nil {
		fmt.Fprintln(port, "guestinit: error:", err)
		code = 125
	}
	fmt.Fprintf(port, "\n%s%d\n", vmtest.EndMark, code)
	return drain(port)
}

// underSystemd says that systemd is the first process. It has mounted everything but a folder that everyone may write to.
var underSystemd = os.Getpid() != 1

var tmp = mount{"tmpfs", "/tmp"}

func prepare() error {
	if underSystemd {
		return tmp.mount()
	}
	for _, m := range []mount{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, tmp, {"cgroup2", cgroupRoot},
	} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	return errors.Join(enableControllers(), loopbackUp())
}

type mount struct{ kind, dir string }

func (m mount) mount() error {
	if err := syscall.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", m.kind, m.dir, err)
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

func enableControllers() error {
	path := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	return os.WriteFile(path, []byte("+cpu +cpuset +memory"), 0)
}

// loopbackUp lets tests use 127.0.0.1.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	defer syscall.Close(fd)
	// struct ifreq: 16 bytes of name, then a union that begins with the flags.
	var req struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("bringing up lo: %w", errno)
	}
	return nil
}

// runTests starts the test binary and waits for it, and meanwhile for every
// process whose parent has died: they become children of PID 1.
func runTests(port *os.File) (code int, err error) {
	// The timeout is shorter than the host's, so that a hang shows where it is.
	argv := []string{vmtest.TestBinary, "-test.v", "-test.timeout=7m"}
	words, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return 0, err
	}
	for _, arg := range strings.Fields(string(words)) {
		if strings.HasPrefix(arg, "-test.") {
			argv = append(argv, arg)
		}
	}
	env := []string{"UNTHROTTLE_GUEST=bare", "HOME=/tmp", "PATH=/"}
	if underSystemd {
		env = []string{"UNTHROTTLE_GUEST=systemd", "HOME=/tmp", "PATH=/usr/bin"}
	}
	// Not os/exec: its Wait would compete with wait4(-1) for the exit code.
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir:   "/tmp",
		Env:   env,
		Files: []uintptr{0, port.Fd(), port.Fd()},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	for {
		var status syscall.WaitStatus
		reaped, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for %s: %w", argv[0], err)
		case reaped == pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case reaped == pid:
			return status.ExitStatus(), nil
		}
	}
}

// drain waits until the port has sent everything. It is tcdrain(3).
func drain(port *os.File) error {
	const tcsbrk = 0x5409
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, port.Fd(), tcsbrk, 1); errno != 0 {
		return fmt.Errorf("draining %s: %w", port.Name(), errno)
	}
	return nil
}

// powerOff does not return. The restart is for a machine without ACPI: the
// emulator ends on that as well.
func powerOff() {
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART)
	select {}
}
