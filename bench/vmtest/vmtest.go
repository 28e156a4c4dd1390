//go:build linux

package vmtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// KernelDir is where setup.sh puts the kernel that it downloads.
const KernelDir = "/var/cache/unthrottle-vmtest"

const qemuName = "qemu-system-x86_64"

// FindQemu returns the path of the emulator.
func FindQemu() (string, error) {
	path, err := exec.LookPath(qemuName)
	if err != nil {
		return "", fmt.Errorf("finding the emulator: %w", err)
	}
	return path, nil
}

// FindKernels returns each vmlinuz to boot: that of UNTHROTTLE_VM_KERNEL, or for
// "all" there those in KernelDir, the newest first, else the newest in KernelDir,
// else the newest in /boot.
func FindKernels() ([]string, error) {
	path := os.Getenv("UNTHROTTLE_VM_KERNEL")
	if path == "" {
		newest, err := newestKernel()
		return []string{newest}, err
	}
	paths := []string{path}
	if path == "all" {
		paths, _ = filepath.Glob(filepath.Join(KernelDir, kernelPattern))
		if len(paths) == 0 {
			return nil, fmt.Errorf("finding kernels: no %s in %s", kernelPattern, KernelDir)
		}
		slices.SortFunc(paths, func(a, b string) int {
			if versionLess(b, a) {
				return -1
			}
			return 1
		})
	}
	for _, path := range paths {
		if err := readable(path); err != nil {
			return nil, fmt.Errorf("finding the kernel of UNTHROTTLE_VM_KERNEL: %w", err)
		}
	}
	return paths, nil
}

const kernelPattern = "vmlinuz-*"

// newestKernel is the kernel without a word in the environment.
func newestKernel() (string, error) {
	var refused error
	for _, dir := range []string{KernelDir, "/boot"} {
		paths, err := filepath.Glob(filepath.Join(dir, kernelPattern))
		if err != nil {
			return "", fmt.Errorf("finding a kernel in %s: %w", dir, err)
		}
		newest := ""
		for _, path := range paths {
			// Ubuntu's /boot has kernels that only root can read.
			if err := readable(path); err != nil {
				refused = err
			} else if newest == "" || versionLess(newest, path) {
				newest = path
			}
		}
		if newest != "" {
			return newest, nil
		}
	}
	if refused != nil {
		return "", fmt.Errorf("finding a kernel: %w", refused)
	}
	return "", fmt.Errorf("finding a kernel: no %s in %s or /boot", kernelPattern, KernelDir)
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// versionLess reports whether one kernel path comes before another, such as 6.1
// before 6.12: runs of digits count as numbers, everything else as text.
func versionLess(a, b string) bool {
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			x, _ := strconv.Atoi(a[:i])
			y, _ := strconv.Atoi(b[:j])
			if x != y {
				return x < y
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// Where the programs are in the machine.
const (
	TestBinary     = "/guest.test"
	Command        = "/unthrottle"
	ClusterCommand = "/kubectl-unthrottle" // not in the machine with systemd
	SubjectDir     = "/subject"
)

const module = "github.com/unthrottle/unthrottle/bench/vmtest"

// Build compiles the guest's programs and the commands, and writes an initramfs with them and the subjects, which Subject.Build has made,
// into dir. It runs the go command in the current directory, which must be inside this module, in the workspace: the commands are in
// modules that this one does not require. A shell comes from the tree that FindSystemd finds; without a tree there is no shell.
func Build(ctx context.Context, dir string, subjects []string) (initramfs string, err error) {
	programs, err := buildPrograms(ctx, dir)
	if err != nil {
		return "", err
	}
	if programs[ClusterCommand], err = buildClusterCommand(ctx, dir); err != nil {
		return "", err
	}
	for _, file := range subjects {
		programs[SubjectDir+"/"+filepath.Base(file)] = file
	}
	initramfs = filepath.Join(dir, "initramfs.cpio")
	err = writeArchive(initramfs, func(c *cpioWriter) error {
		if tree, err := FindSystemd(); err == nil {
			if err := c.tree(tree, shellFiles); err != nil {
				return err
			}
		}
		return c.programs(programs)
	})
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", initramfs, err)
	}
	return initramfs, nil
}

// buildPrograms compiles what every machine has, and returns the files by their
// paths in the machine.
func buildPrograms(ctx context.Context, dir string) (programs map[string]string, err error) {
	files := []struct {
		inside string // path in the machine
		build  []string
	}{
		{"/init", []string{"build", module + "/guestinit"}},
		{TestBinary, []string{"test", "-c", module + "/guest"}},
		{Command, []string{"build", library + "/cmd/unthrottle"}},
	}
	programs = map[string]string{}
	for _, f := range files {
		out := filepath.Join(dir, filepath.Base(f.inside))
		last := len(f.build) - 1
		args := append(append([]string{}, f.build[:last]...), "-ldflags=-s -w", "-o", out, f.build[last])
		if _, err := runGo(ctx, "", nil, args...); err != nil {
			return nil, err
		}
		programs[f.inside] = out
	}
	return programs, nil
}

// buildClusterCommand compiles the command for clusters, whose module has a workspace
// of its own.
func buildClusterCommand(ctx context.Context, dir string) (file string, err error) {
	root, err := runGo(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}", library)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, filepath.Base(ClusterCommand))
	_, err = runGo(ctx, filepath.Join(root, "cmd/kubectl-unthrottle"), nil, "build", "-ldflags=-s -w", "-o", file, ".")
	return file, err
}

// writeArchive writes an initramfs with the folders that are mounted on, what fill
// adds, and the two devices that exist before anything is mounted: the console,
// which the kernel opens for the first process, and null, without which a Go
// program whose standard files are closed does not start.
func writeArchive(path string, fill func(*cpioWriter) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	c := &cpioWriter{w: f}
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run", strings.TrimPrefix(SubjectDir, "/")} {
		c.dir(dir)
	}
	c.char("dev/console", 5, 1)
	c.char("dev/null", 1, 3)
	err = fill(c)
	return errors.Join(err, c.close(), f.Close())
}

// programs adds programs, from their paths in the machine to their files here.
func (c *cpioWriter) programs(files map[string]string) error {
	for _, inside := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[inside])
		if err != nil {
			return err
		}
		c.program(strings.TrimPrefix(inside, "/"), content)
	}
	return nil
}

// A Machine says what to boot.
type Machine struct {
	Qemu, Kernel, Initramfs string
	CPUs                    int
	Systemd                 bool      // the initramfs is one of BuildSystemd
	Run, Skip               string    // -test.run and -test.skip for the guest; may be ""
	Dir                     string    // where Boot makes a folder of its own; "": os.TempDir
	Progress                io.Writer // gets the guest's output as it comes; may be nil
}

// memoryMiB is enough for the kernel's structures for 16 CPUs, the initramfs
// and some Go processes.
const memoryMiB = 768

// Boot starts the machine and returns what it found. It ends when the machine
// powers off, or when ctx is done: then it kills the machine and returns what
// has come so far with an error. An error carries the end of the kernel's log.
func Boot(ctx context.Context, m Machine) (Result, error) {
	// A folder of its own: two boots may run at the same time.
	dir, err := os.MkdirTemp(m.Dir, "unthrottle-vmtest-")
	if err != nil {
		return Result{}, fmt.Errorf("booting: %w", err)
	}
	defer os.RemoveAll(dir)
	console := filepath.Join(dir, "console")

	var serial bytes.Buffer
	stdout := io.Writer(&serial)
	if m.Progress != nil {
		stdout = io.MultiWriter(&serial, m.Progress)
	}
	runErr := runQemu(ctx, m, console, stdout)
	if runErr != nil && ctx.Err() != nil {
		runErr = context.Cause(ctx) // says more than "signal: killed"
	}
	result, err := parseResult(serial.String())
	if err := errors.Join(runErr, err); err != nil {
		return result, fmt.Errorf("booting %s with %d CPUs: %w\nend of the kernel's log:\n%s",
			m.Kernel, m.CPUs, err, tail(console, 100))
	}
	return result, nil
}

func runQemu(ctx context.Context, m Machine, console string, stdout io.Writer) error {
	// The kernel's signal for a dead parent follows the thread that started the
	// child, so the thread has to stay: without it, a test binary that is killed
	// would leave an emulator behind that uses all CPUs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, m.Qemu, qemuArgs(m, console)...)
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", qemuName, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// Two detours around qemu 7.2, which Debian 12 has. Both were found by booting
// many times; the kernels ran into random faults without them.
const (
	// cmpxchg16b, which the kernel's memory allocator uses all the time, leaves
	// an address in the flags register. Most boots with 4 CPUs or more ended in a
	// double fault. A kernel without the CPU's feature does it in another way.
	cpuModel = "max,-cx16"

	// With a thread for each CPU, code that the kernel patches at run time, as it
	// does when the first quota is set, is at times run half patched ("Oops: int3").
	// One thread for all is no slower where the host has two CPUs.
	accelerator = "tcg,thread=single"
)

func qemuArgs(m Machine, console string) []string {
	// panic=-1 restarts at once and -no-reboot turns that into the end. oops=panic is there because a kernel that lost a thread may hang
	// until the timeout. The watchdogs measure wall-clock time, and an emulated machine on a busy host is slow enough to alarm them.
	kernelArgs := "console=ttyS1 quiet panic=-1 oops=panic nokaslr mitigations=off nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
	if m.Systemd {
		kernelArgs += " rdinit=/" + systemdProgram + " systemd.unit=vmtest.service systemd.log_target=console systemd.show_status=0"
	}
	// The kernel ignores these two, since they look like settings of a module; guestinit reads them in /proc/cmdline.
	if m.Run != "" {
		kernelArgs += " -test.run=" + m.Run
	}
	if m.Skip != "" {
		kernelArgs += " -test.skip=" + m.Skip
	}
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-accel", accelerator, "-cpu", cpuModel,
		"-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(memoryMiB) + "M",
		"-kernel", m.Kernel, "-initrd", m.Initramfs, "-append", kernelArgs,
		"-chardev", "stdio,id=results,signal=off", "-serial", "chardev:results",
		"-serial", "file:" + console,
	}
}

// tail returns the last lines of a file that may not exist.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return "(none: " + err.Error() + ")"
	}
	defer f.Close()
	var last []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		last = append(last, strings.TrimRight(s.Text(), "\r"))
		last = last[max(0, len(last)-lines):]
	}
	return strings.Join(last, "\n")
}
