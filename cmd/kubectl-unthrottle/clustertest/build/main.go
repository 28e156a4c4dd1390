//go:build linux

// Command build builds the programs of a cluster for tests, once, and says what it built and what it found. In go the names
// of programs (all where there are none), the modules that ../kubernetes/go.mod names, and Go; out come
// programs in the folder that clustertest.Dir names, where package clustertest looks for them. It starts none of them.
//
//	go -C cmd/kubectl-unthrottle run ./clustertest/build                        what clustertest.Start needs
//	go -C cmd/kubectl-unthrottle run ./clustertest/build etcd kube-apiserver    some of it
//
// A program is there whole or not at all, however the command ends. If two commands run at once, one waits for the other.
package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

func main() {
	// The kernel's signal for a dead parent follows the thread that started the child, and the first one stays to the end.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string, out io.Writer) error {
	programs, err := choose(names)
	if err != nil {
		return err
	}
	dir, err := clustertest.Dir()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "clustertest: Kubernetes %s and etcd %s by %s, in %s\n",
		clustertest.KubernetesVersion, clustertest.EtcdVersion, runtime.Version(), dir)
	b := builder{dir: dir, compile: compile, out: out}
	return b.build(ctx, programs)
}

// choose returns the programs with the given names, or all.
func choose(names []string) (programs []clustertest.Program, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(clustertest.Programs, func(p clustertest.Program) bool { return p.Name == name }) {
			return nil, fmt.Errorf("no program is called %q", name)
		}
	}
	for _, p := range clustertest.Programs {
		if slices.Contains(names, p.Name) || len(names) == 0 {
			programs = append(programs, p)
		}
	}
	return programs, nil
}

// A builder fills a folder with programs.
type builder struct {
	dir     string
	compile func(ctx context.Context, p clustertest.Program, path string) (cost, error)
	out     io.Writer
}

// cost is what compiling took.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory of the largest process
}

func (b builder) build(ctx context.Context, programs []clustertest.Program) error {
	if len(b.missing(programs)) > 0 {
		unlock, err := b.lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	// Another command may have built them while this one waited for the lock.
	missing := b.missing(programs)
	for _, p := range programs {
		if !slices.Contains(missing, p) {
			fmt.Fprintf(b.out, "clustertest: %s: found\n", p.Name)
		}
	}
	for _, p := range missing {
		if err := b.one(ctx, p); err != nil {
			return fmt.Errorf("building %s: %w", p.Name, err)
		}
	}
	return nil
}

func (b builder) missing(programs []clustertest.Program) (missing []clustertest.Program) {
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(b.dir, p.Name)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, p)
		}
	}
	return missing
}

// one builds a program aside and moves it to its place when it is whole.
func (b builder) one(ctx context.Context, p clustertest.Program) error {
	fmt.Fprintf(b.out, "clustertest: %s: building %s %s\n", p.Name, p.Package, p.Version)
	part := filepath.Join(b.dir, partPrefix+p.Name)
	defer os.Remove(part)
	cost, err := b.compile(ctx, p, part)
	if err != nil {
		return err
	}
	info, err := os.Stat(part)
	if err != nil {
		return err
	}
	if err := os.Rename(part, filepath.Join(b.dir, p.Name)); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "clustertest: %s: built in %.0f s (%.0f s of CPU time, at most %d MB of memory), %d MB\n",
		p.Name, cost.wall.Seconds(), cost.cpu.Seconds(), cost.peak>>20, info.Size()>>20)
	return nil
}

const partPrefix = "part-"

// lock waits until no other command builds into the folder, and removes what a killed one left there.
func (b builder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(b.out, "clustertest: waiting for another command that builds")
		err = flock(f, syscall.LOCK_EX)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	parts, _ := filepath.Glob(filepath.Join(b.dir, partPrefix+"*"))
	for _, part := range parts {
		os.Remove(part)
	}
	return func() { f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// compile runs go build in the module that requires the programs, with two compilers at a time: one of them can need
// 2 GB, the linker too.
func compile(ctx context.Context, p clustertest.Program, path string) (cost, error) {
	module, err := modules()
	if err != nil {
		return cost{}, err
	}
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-p=2", "-o", path}, clustertest.BuildFlags...), p.Package)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local", "GOFLAGS=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if out, err := cmd.CombinedOutput(); err != nil {
		return cost{}, fmt.Errorf("go build: %w\n%s", err, out)
	}
	took := cost{wall: time.Since(begin), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		took.peak = int64(usage.Maxrss) << 10
	}
	return took, check(p, path)
}

// modules is the folder of the module that requires the programs.
func modules() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("looking for package clustertest: %w: %s", err, out)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "kubernetes"), nil
}

// check compares what the folder's name promises with what a program says about itself.
func check(p clustertest.Program, path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	if info.Main.Version != p.Version || info.GoVersion != runtime.Version() {
		return fmt.Errorf("built as %s by %s, not %s by %s: see kubernetes/go.mod", info.Main.Version, info.GoVersion, p.Version, runtime.Version())
	}
	return nil
}
