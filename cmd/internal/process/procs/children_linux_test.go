package procs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestStartsGo: the descendants are found, those that have ended meanwhile are passed over, and what can't be seen is reported.
func TestStartsGo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		exe      string // "": none
		children string
		noList   bool
	}
	for name, c := range map[string]struct {
		processes    map[int]process
		found, blind bool
	}{
		"one":                 {map[int]process{1: {exe: self}}, true, false},
		"another":             {map[int]process{1: {exe: "/bin/sh"}}, false, false},
		"a child":             {map[int]process{1: {exe: "/bin/sh", children: "2 3 "}, 2: {exe: "/bin/sh"}, 3: {exe: self}}, true, false},
		"a grandchild":        {map[int]process{1: {exe: "/bin/sh", children: "2"}, 2: {exe: "/bin/sh", children: "9"}, 9: {exe: self}}, true, false},
		"a child that ended":  {map[int]process{1: {exe: "/bin/sh", children: "2 x"}}, false, false},
		"a zombie":            {map[int]process{1: {}}, false, false},
		"no such process":     {nil, false, false},
		"no lists":            {map[int]process{1: {exe: "/bin/sh", noList: true}}, false, true},
		"no lists, but it is": {map[int]process{1: {exe: self, noList: true}}, true, false},
		"its own child":       {map[int]process{1: {exe: "/bin/sh", children: "1"}}, false, true},
	} {
		root := t.TempDir()
		for pid, p := range c.processes {
			task := filepath.Join(Dir(root, pid), "task", strconv.Itoa(pid))
			if err := os.MkdirAll(task, 0o755); err != nil {
				t.Fatal(err)
			}
			if p.exe != "" {
				data, err := os.ReadFile(p.exe) // no link: it would lead out of the tree
				if err != nil {
					t.Fatal(err)
				}
				write(t, Dir(root, pid)+"/exe", string(data))
			}
			if !p.noList {
				write(t, task+"/children", p.children)
			}
		}
		if found, blind := new(Programs).StartsGo(root, 1); found != c.found || blind != c.blind {
			t.Errorf("%s: found %v, blind %v", name, found, blind)
		}
	}
	if found, _ := new(Programs).StartsGo("", os.Getpid()); !found {
		t.Error("this test is not found")
	}
}
