//go:build linux

// Command layouts asks automemlimit and package cgroup for the memory limit in saved layouts of /proc and cgroups, those of
// cgroup/testdata/layouts with memory limits in the place of CPU limits. It starts itself in each, as its root, so it needs root. It
// prints a table in Markdown of those that one of the two gets wrong, and how many each got right.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	theirs "github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fixture"
	ours "github.com/unthrottle/unthrottle/memlimit"
)

// ask is the first argument of the program where a layout is its root.
const ask = "ask"

func main() {
	if len(os.Args) == 2 && os.Args[1] == ask {
		fmt.Println(answer(theirs.FromCgroup()))
		fmt.Println(answer(ours.FromCgroup()))
		return
	}
	dir := flag.String("layouts", "../cgroup/testdata/layouts", "`DIR` of the layouts")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "layouts:", err)
		os.Exit(1)
	}
}

// answer is a limit, "no limit", or "an error".
func answer(limit uint64, err error) string {
	switch {
	case errors.Is(err, theirs.ErrNoLimit), errors.Is(err, ours.ErrNoLimit):
		return "no limit"
	case err != nil:
		return "an error"
	}
	return fmt.Sprintf("%.3g GiB", float64(limit)/(1<<30))
}

func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there are no layouts in %s: name them by -layouts", dir)
	}
	fmt.Println("| layout | the limit | automemlimit | package cgroup |")
	fmt.Println("|---|---|---|---|")
	all, right := 0, [2]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tree := fixture.Parse(string(text))
		memory, ok := tree.Memory()
		if !ok || len(tree.Directives("pid")) > 0 { // about a quota's period, or about another process
			continue
		}
		truth, err := limitOf(tree)
		if err != nil {
			return err
		}
		said, err := inside(memory)
		if err != nil {
			return err
		}
		all++
		wrong := false
		for i, s := range said {
			if s == truth {
				right[i]++
			} else {
				wrong = true
			}
		}
		if wrong {
			fmt.Printf("| %s | %s | %s | %s |\n", strings.TrimSuffix(filepath.Base(file), ".txtar"), truth, said[0], said[1])
		}
	}
	fmt.Printf("| **right, of %d** | | %d | %d |\n", all, right[0], right[1])
	return nil
}

// limitOf is the limit that a tree is about, taken from the same tree with CPU limits, which a test compares with what is written down.
func limitOf(tree fixture.Tree) (string, error) {
	root, err := os.MkdirTemp("", "layouts-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	if err := tree.WriteTo(root); err != nil {
		return "", err
	}
	switch l := cgroup.Read(cgroup.Source{Root: root}); l.State {
	case cgroup.Limited:
		return answer(uint64(fixture.Bytes(l.CPUs)), nil), nil
	case cgroup.Unknown:
		return answer(0, l.Reason), nil
	}
	return answer(0, ours.ErrNoLimit), nil
}

// inside asks both in a tree.
func inside(tree fixture.Tree) (said [2]string, err error) {
	root, err := os.MkdirTemp("", "layouts-")
	if err != nil {
		return said, err
	}
	defer os.RemoveAll(root)
	if err := errors.Join(tree.WriteTo(root), copyTo(filepath.Join(root, "program"))); err != nil {
		return said, err
	}
	cmd := exec.Command("/program", ask)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	out, err := cmd.Output()
	if err != nil {
		return said, fmt.Errorf("started with a layout as its root (that needs root, and a static program: CGO_ENABLED=0): %w", err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(said) {
		return said, fmt.Errorf("the program said %q", out)
	}
	return [2]string{string(lines[0]), string(lines[1])}, nil
}

// copyTo copies this program.
func copyTo(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, self)
	return errors.Join(err, f.Close())
}
