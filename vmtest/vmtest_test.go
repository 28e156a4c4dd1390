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
)

// TestVM boots the machine with few and with many CPUs and runs the guest tests
// in each.
func TestVM(t *testing.T) {
	qemu, kernel := findOrSkip(t)
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	dir := t.TempDir()
	initramfs, err := Build(ctx, dir, buildSubjects(t, ctx, dir))
	if err != nil {
		t.Fatal(err)
	}
	run := os.Getenv("UNTHROTTLE_VM_RUN")
	if forSystemd(run) {
		t.Skipf("%s is for TestSystemd", run)
	}
	skip := ""
	if run == "" {
		skip = "^TestScope"
	}
	if run == "" && olderThanNewest(kernel) {
		skip += "|^TestExplain$"
		t.Log("TestExplain is left out: it is long, and nothing in it depends on the kernel; it runs on the newest one")
	}
	for _, cpus := range []int{4, 16} {
		t.Run(fmt.Sprintf("cpus=%d", cpus), func(t *testing.T) {
			testBoot(t, Machine{
				Qemu: qemu, Kernel: kernel, Initramfs: initramfs, CPUs: cpus, Run: run, Skip: skip,
			})
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		testCancel(t, Machine{Qemu: qemu, Kernel: kernel, Initramfs: initramfs, CPUs: 1})
	})
}

// TestSystemd boots a machine whose first process is Debian's systemd, and runs the
// guest tests of its limits there.
func TestSystemd(t *testing.T) {
	qemu, kernel := findOrSkip(t)
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
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	initramfs, err := BuildSystemd(ctx, t.TempDir(), tree)
	if err != nil {
		t.Fatal(err)
	}
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

// buildSubjects builds all subjects and returns the programs. One that cannot be
// had is not in the machine; the guest tests then go without it. The subtests only
// say so, for -run may leave them out.
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
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	m.Progress = writerFunc(func(b []byte) (int, error) {
		cancel(enough)
		return len(b), nil
	})
	if _, err := Boot(ctx, m); !errors.Is(err, enough) {
		t.Errorf("error is %v, want one that is %q", err, enough)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v %v", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Generous: they are there so that a hang ends, and judge no speed.
const (
	buildTimeout = 10 * time.Minute // of which most is for fetching toolchains
	bootTimeout  = 5 * time.Minute
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
		if result.ExitCode > 1 { // a panic, whose text is no test's
			t.Logf("the guest's output:\n%s", result.Output)
		}
	}
}

func findOrSkip(t *testing.T) (qemu, kernel string) {
	t.Helper()
	qemu, err := FindQemu()
	if err == nil {
		kernel, err = FindKernel()
	}
	if err != nil {
		skipOrFail(t, err)
	}
	return qemu, kernel
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
