//go:build record && linux

package choice

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestRecord makes testdata/real.txt again, which TestReal reads. It needs root, for chroot; the Go toolchains and
// automaxprocs, which the go command downloads:
//
//	go test -tags record -run TestRecord ./internal/process/choice
//
// Real programs are started in the saved trees. Their runtimes are changed in one place: the number of CPUs is read from the file /ncpu,
// since a machine with two CPUs could not distinguish the answers.
func TestRecord(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	dir := t.TempDir()
	programs := map[string]string{}
	for _, v := range goVersions {
		programs[v] = build(t, dir, v, "runtime", runtimeProgram)
	}
	programs["automaxprocs"] = build(t, dir, goVersions[0], "automaxprocs", automaxprocsProgram)

	var b strings.Builder
	fmt.Fprintf(&b, "# GOMAXPROCS of real programs in the saved trees, recorded by TestRecord on linux/%s.\n", runtime.GOARCH)
	fmt.Fprintf(&b, "# layout cpus %s automaxprocs-1.6.0\n", strings.Join(goVersions, " "))
	for _, l := range layouts(t) {
		root := l.lay(t)
		l.becomeSelf(t, root)
		for _, cpus := range []int{200, 3} {
			if err := os.WriteFile(filepath.Join(root, "ncpu"), []byte{byte(cpus)}, 0o666); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %d", l.name, cpus)
			for _, v := range goVersions {
				fmt.Fprintf(&b, " %s", run(t, root, programs[v]))
			}
			answer := "-" // millions of Ps would take all memory
			if !strings.HasPrefix(l.name, "v2-huge") {
				answer = run(t, root, programs["automaxprocs"])
			}
			fmt.Fprintf(&b, " %s\n", answer)
		}
	}
	if err := os.WriteFile("testdata/real.txt", []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

const runtimeProgram = `package main

import "runtime"

func main() { println(runtime.GOMAXPROCS(0)) }
`

// automaxprocsProgram prints the number, "none" or "error".
const automaxprocsProgram = `package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"go.uber.org/automaxprocs/maxprocs"
)

func main() {
	said := ""
	_, err := maxprocs.Set(maxprocs.Logger(func(format string, args ...interface{}) { said += fmt.Sprintf(format, args...) }))
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "error")
	case strings.Contains(said, "Leaving"):
		fmt.Fprintln(os.Stderr, "none")
	default:
		fmt.Fprintln(os.Stderr, runtime.GOMAXPROCS(0))
	}
}
`

// build builds a program with a copy of a Go version that reads the number of CPUs from a file.
func build(t *testing.T, dir, version, name, source string) string {
	t.Helper()
	goroot := filepath.Join(dir, version)
	if _, err := os.Stat(goroot); err != nil {
		patch(t, version, goroot)
	}
	module := filepath.Join(dir, name+"-"+version)
	write(t, filepath.Join(module, "main.go"), source)
	write(t, filepath.Join(module, "go.mod"), "module example.com/program\n\ngo 1.21\n")
	bin := filepath.Join(module, "program")
	env := append(os.Environ(), "GOROOT="+goroot, "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	command := func(args ...string) {
		cmd := exec.Command(filepath.Join(goroot, "bin/go"), args...)
		cmd.Dir, cmd.Env = module, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if strings.Contains(source, "automaxprocs") {
		command("get", "go.uber.org/automaxprocs@v1.6.0")
	}
	command("build", "-o", bin, ".")
	return bin
}

// patch makes a Go version at goroot that counts CPUs in another way: links to all that is the same, and a copy of
// package runtime.
func patch(t *testing.T, version, goroot string) {
	t.Helper()
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+version)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e
mkdir -p "$1/src"
for f in "$0"/*; do test "$f" = "$0/src" || ln -s "$f" "$1"/; done
ln -s "$0"/src/* "$1/src"/
rm "$1/src/runtime"
cp -r "$0/src/runtime" "$1/src/runtime"
chmod -R u+w "$1/src/runtime"`
	if out, err := exec.Command("sh", "-c", script, strings.TrimSpace(string(out)), goroot).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(goroot, "src/runtime/os_linux.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const read = `
	if fd := open(&ncpuName[0], 0, 0); fd >= 0 {
		got := read(fd, unsafe.Pointer(&ncpuByte[0]), 1)
		closefd(fd)
		if got == 1 {
			return int32(ncpuByte[0])
		}
	}
`
	const names = `
var ncpuName = [6]byte{'/', 'n', 'c', 'p', 'u', 0}
var ncpuByte [1]byte
`
	count := regexp.MustCompile(`func (getproccount|getCPUCount)\(\) int32 \{\n`)
	if len(count.FindAll(text, -1)) != 1 {
		t.Fatalf("%s: the function that counts CPUs has another name", version)
	}
	text = count.ReplaceAllFunc(text, func(line []byte) []byte { return append(bytes.Clone(line), read...) })
	write(t, file, string(text)+names)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// becomeSelf makes the process that the tree is about the one that /proc/self names, with its own root.
func (l layout) becomeSelf(t *testing.T, root string) {
	t.Helper()
	if l.pid == 0 {
		return
	}
	dir := filepath.Join(root, "proc", strconv.Itoa(l.pid))
	script := `rm -rf "$0/proc/self" && cp -a "$1" "$0/proc/self" && if test -d "$1/root"; then cp -a "$1/root/." "$0"; fi`
	if out, err := exec.Command("sh", "-c", script, root, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// run starts a program with the tree as its root and returns what it prints, "crash" if it dies.
func run(t *testing.T, root, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "program"), text, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/program")
	cmd.Dir = "/"
	cmd.Env = []string{"GODEBUG=containermaxprocs=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	var out bytes.Buffer
	cmd.Stderr = &out
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if !strings.Contains(out.String(), "procresize: invalid arg") {
			t.Errorf("%s: %v\n%s", program, err, out.String())
		}
		return "crash"
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
