package cgroup_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

var update = flag.Bool("update", false, "write what was read into the fixtures' want files")

// TestLayouts reads saved file trees, one per file of testdata/layouts, and compares what is found with the tree's file "want". The comment
// on top of each says what is special about it.
func TestLayouts(t *testing.T) {
	files, err := filepath.Glob("testdata/layouts/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d layouts, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tree := fixture.Parse(string(text))
			if runtime.GOOS == "windows" && strings.ContainsAny(strings.Join(names(tree), ""), ":\t\\") {
				t.Skip("Windows can't have such file names")
			}
			root := t.TempDir()
			if err := tree.WriteTo(root); err != nil {
				t.Fatal(err)
			}
			s := cgroup.Source{Root: root}
			for _, pid := range tree.Directives("pid") {
				s.PID, _ = strconv.Atoi(pid)
			}
			got := strings.ReplaceAll(describe(s), root, "")
			if *update {
				tree.SetFile("want", got)
				if err := os.WriteFile(file, []byte(tree.Format()), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if want := tree.File("want"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestMemoryLayouts replaces the CPU limits in the same trees by memory limits: the same must be found.
func TestMemoryLayouts(t *testing.T) {
	files, _ := filepath.Glob("testdata/layouts/*.txtar")
	tried := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tree := fixture.Parse(string(text))
			memory, ok := tree.Memory()
			if !ok {
				t.Skip("it is about the period of a quota")
			}
			if runtime.GOOS == "windows" && strings.ContainsAny(strings.Join(names(tree), ""), ":\t\\") {
				t.Skip("Windows can't have such file names")
			}
			tried++
			var s cgroup.Source
			for _, pid := range tree.Directives("pid") {
				s.PID, _ = strconv.Atoi(pid)
			}
			read := func(tree fixture.Tree) (cgroup.Limits, cgroup.Memory) {
				s.Root = t.TempDir()
				if err := tree.WriteTo(s.Root); err != nil {
					t.Fatal(err)
				}
				return cgroup.Read(s), cgroup.ReadMemory(s)
			}
			l, _ := read(tree)
			_, m := read(memory)
			want := cgroup.Memory{State: l.State, Bytes: fixture.Bytes(l.CPUs), From: l.From}
			if l.State == cgroup.Hidden {
				want.State = cgroup.None
			}
			if got := m; got.State != want.State || got.Bytes != want.Bytes || got.From != want.From || got.State == cgroup.Unknown && got.Reason == nil {
				t.Errorf("got %+v, want %+v (%v)", got, want, l.Reason)
			}
		})
	}
	if tried < 42 {
		t.Errorf("%d layouts were tried", tried)
	}
}

func names(tree fixture.Tree) []string {
	var names []string
	for _, f := range tree.Files {
		names = append(names, f.Name)
	}
	return names
}

// describe writes down everything that is read, and what the two best known policies make of it.
func describe(s cgroup.Source) string {
	var b strings.Builder
	l := cgroup.Read(s)
	fmt.Fprintf(&b, "state: %s\n", l.State)
	if l.Reason != nil {
		fmt.Fprintf(&b, "reason: %v\n", l.Reason)
	}
	if l.State == cgroup.Limited {
		fmt.Fprintf(&b, "limit: %v CPUs from %s\n", l.CPUs, l.From)
	}
	if l.AtMost > 0 {
		fmt.Fprintf(&b, "at most: %v CPUs\n", l.AtMost)
	}
	fmt.Fprintf(&b, "version: %s", l.Version)
	if l.Hybrid {
		fmt.Fprintf(&b, " hybrid")
	}
	fmt.Fprintf(&b, "\npath: %s\nmount: %s at %s\n", l.Path, l.Mount.Root, l.Mount.Point)
	for _, level := range l.Levels {
		fmt.Fprintf(&b, "level: %s", level.Dir)
		if level.Quota != (cgroup.Quota{}) {
			fmt.Fprintf(&b, " quota %d/%d", level.Quota.QuotaMicros, level.Quota.PeriodMicros)
		}
		if level.BurstMicros > 0 {
			fmt.Fprintf(&b, " burst %d", level.BurstMicros)
		}
		if level.Weight > 0 {
			fmt.Fprintf(&b, " weight %d", level.Weight)
		}
		if level.Cpuset != "" {
			fmt.Fprintf(&b, " cpuset %s", level.Cpuset)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "affinity: %d\n", l.Affinity)
	t := cgroup.ReadThrottling(s, l)
	if t.Own.Known {
		fmt.Fprintf(&b, "throttled: %d of %d periods, %v\n", t.Own.Throttled, t.Own.Periods, t.Own.ThrottledTime)
	}
	if t.Own.CPUKnown {
		fmt.Fprintf(&b, "CPU time: %v", t.Own.CPU)
		if t.Owner.Dir != t.Own.Dir {
			fmt.Fprintf(&b, ", of the limit's level %v", t.Owner.CPU)
		}
		fmt.Fprintln(&b)
	}
	if t.LocalKnown {
		fmt.Fprintf(&b, "throttled by any level: %v\n", t.Local)
	}
	fmt.Fprintf(&b, "procs: go %d, floor %d\n", unthrottle.Decide(l, unthrottle.Go).Procs, unthrottle.Decide(l, unthrottle.Floor).Procs)
	for _, w := range l.Warnings {
		fmt.Fprintf(&b, "warning: %v\n", w)
	}
	return b.String()
}
