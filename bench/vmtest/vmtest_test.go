//go:build linux

package vmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestVM boots the machine with few and with many CPUs, on each kernel, and runs the
// guest tests in each.
func TestVM(t *testing.T) {
	t.Parallel()
	qemu, kernels := findOrSkip(t)
	run := os.Getenv("UNTHROTTLE_VM_RUN")
	if forSystemd(run) {
		t.Skipf("%s is for TestSystemd", run)
	}
	initramfs := build(t, func(ctx context.Context, dir string) (string, error) {
		return Build(ctx, dir, buildSubjects(t, ctx, dir))
	})
	for _, m := range machines(t, kernels, run) {
		m.Qemu, m.Initramfs = qemu, initramfs
		t.Run(fmt.Sprintf("cpus=%d,%s", m.CPUs, filepath.Base(m.Kernel)), func(t *testing.T) {
			t.Parallel() // one uses a single CPU of the host
			testBoot(t, m)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		testCancel(t, Machine{Qemu: qemu, Kernel: kernels[0], Initramfs: initramfs, CPUs: 1})
	})
}

// machines says what to boot, the longest first, so that none of them is alone at the end: each kernel with few and with many CPUs; if
// there are several, the newest with many and the older ones with few, since nothing depends on both.
func machines(t *testing.T, kernels []string, run string) (all []Machine) {
	for _, cpus := range []int{16, 4} {
		for _, kernel := range kernels {
			m := Machine{Kernel: kernel, CPUs: cpus, Run: run}
			older := run == "" && olderThanNewest(kernel)
			if run == "" {
				m.Skip = "^TestScope"
			}
			if older {
				m.Skip += "|^TestExplain$"
				t.Logf("%s: TestExplain is left out: it is long, and nothing in it depends on the kernel; it runs on the newest one", kernel)
			}
			if run == "" && len(kernels) > 1 && older == (cpus > 4) {
				t.Logf("%s: not booted with %d CPUs: another kernel is, and nothing depends on both", kernel, cpus)
				continue
			}
			all = append(all, m)
		}
	}
	return all
}

// build makes an initramfs, which lasts as long as the test.
func build(t *testing.T, build func(ctx context.Context, dir string) (initramfs string, err error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	initramfs, err := build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return initramfs
}

// TestSystemd boots a machine whose first process is Debian's systemd, and runs the
// guest tests of its limits there.
func TestSystemd(t *testing.T) {
	t.Parallel()
	qemu, kernels := findOrSkip(t)
	kernel := kernels[0]
	run := os.Getenv("UNTHROTTLE_VM_RUN")
	switch {
	case run == "" && olderThanNewest(kernel):
		t.Skip("nothing in it depends on the kernel; it runs on the newest one")
	case run == "":
		run = systemdTests
	case !forSystemd(run):
		t.Skipf("%s is for TestVM", run)
	}
	tree, err := FindSystemd()
	if err != nil {
		skipOrFail(t, err)
	}
	initramfs := build(t, func(ctx context.Context, dir string) (string, error) {
		return BuildSystemd(ctx, dir, tree)
	})
	testBoot(t, Machine{Qemu: qemu, Kernel: kernel, Initramfs: initramfs, CPUs: 2, Systemd: true, Run: run})
}

const systemdTests = "^TestScope"

// forSystemd reports whether a pattern names tests of the machine with systemd.
func forSystemd(run string) bool {
	return strings.HasPrefix(strings.TrimPrefix(run, "^"), strings.TrimPrefix(systemdTests, "^"))
}

// olderThanNewest reports whether a newer kernel is here.
func olderThanNewest(kernel string) bool {
	newest, err := newestKernel()
	return err == nil && versionLess(filepath.Base(kernel), filepath.Base(newest))
}

// buildSubjects builds all subjects and returns the programs. One that cannot be had is not in the machine; the guest tests then go without
// it. The subtests only say so, since -run may leave them out.
func buildSubjects(t *testing.T, ctx context.Context, dir string) (files []string) {
	dir = filepath.Join(dir, "subject")
	for _, s := range Subjects {
		file, err := s.Build(ctx, dir)
		switch {
		case err == nil:
			files = append(files, file)
		case errors.Is(err, ErrNotFetched) && os.Getenv("UNTHROTTLE_REQUIRE_VM") != "1":
			t.Log(err)
		default:
			t.Fatal(err)
		}
		t.Run("subject="+s.Name, func(t *testing.T) {
			if err != nil {
				t.Skip(err)
			}
		})
	}
	return files
}

// testCancel ends the machine at its first sign of life. Boot must say why, and
// leave nothing behind.
func testCancel(t *testing.T, m Machine) {
	m.Dir = t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	m.Progress = writerFunc(func(b []byte) (int, error) {
		cancel(enough)
		return len(b), nil
	})
	if _, err := Boot(ctx, m); !errors.Is(err, enough) {
		t.Errorf("error is %v, want one that is %q", err, enough)
	}
	left, err := os.ReadDir(m.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v %v", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Generous: they are there so that a hang ends, and judge no speed.
const (
	buildTimeout = 10 * time.Minute // most of it for fetching toolchains
	bootTimeout  = 8 * time.Minute  // two at a time
)

func testBoot(t *testing.T, m Machine) {
	t.Logf("booting %s with %d CPUs", m.Kernel, m.CPUs)
	ctx, cancel := context.WithTimeoutCause(t.Context(), bootTimeout,
		fmt.Errorf("the guest did not end within %v", bootTimeout))
	defer cancel()
	result, bootErr := Boot(ctx, m)
	for _, test := range result.Tests {
		t.Run(test.Name, func(t *testing.T) {
			if output := strings.TrimRight(test.Output, "\n"); output != "" {
				t.Log("\n" + output)
			}
			switch test.Status {
			case Fail:
				t.Fail()
			case Skip:
				t.SkipNow()
			}
		})
	}
	if bootErr != nil {
		t.Errorf("%v\nthe guest's output:\n%s", bootErr, result.Output)
	} else if err := result.Err(); err != nil {
		t.Error(err)
		if result.ExitCode > 1 { // a panic, whose text isn't a test's
			t.Logf("the guest's output:\n%s", result.Output)
		}
	}
}

// findOrSkip returns the emulator and the kernels, the newest first.
func findOrSkip(t *testing.T) (qemu string, kernels []string) {
	slowtest.Skip(t)
	t.Helper()
	qemu, err := FindQemu()
	if err == nil {
		kernels, err = FindKernels()
	}
	if err != nil {
		skipOrFail(t, err)
	}
	return qemu, kernels
}

// skipOrFail ends a test that lacks something which setup.sh would install.
func skipOrFail(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_VM") == "1" {
		t.Fatalf("%v; run setup.sh as root", err)
	}
	t.Skipf("%v; run setup.sh as root", err)
}

func TestVersionLess(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/boot/vmlinuz-6.1.0-9-amd64", "/boot/vmlinuz-6.1.0-10-amd64", true},
		{"/boot/vmlinuz-6.12.1", "/boot/vmlinuz-6.2.1", false},
		{"/boot/vmlinuz-6.1", "/boot/vmlinuz-6.1.1", true},
		{"/boot/vmlinuz-6.1-a", "/boot/vmlinuz-6.1-b", true},
		{"/boot/vmlinuz-6.1", "/boot/vmlinuz-6.1", false},
	} {
		if got := versionLess(c.a, c.b); got != c.want {
			t.Errorf("versionLess(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
