package bug

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

// TestCollect: what is collected from a tree gives the same answer as the tree, in any layout.
func TestCollect(t *testing.T) {
	layouts, err := filepath.Glob("../../../../cgroup/testdata/layouts/*.txtar")
	if err != nil || len(layouts) == 0 {
		t.Fatal(err)
	}
	for _, layout := range layouts {
		t.Run(strings.TrimSuffix(filepath.Base(layout), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(layout)
			if err != nil {
				t.Fatal(err)
			}
			tree := fixture.Parse(string(text))
			if strings.Contains(tree.Comment, "unreadable:") {
				t.Skip("a file can't be read")
			}
			root, copied := t.TempDir(), t.TempDir()
			if err := tree.WriteTo(root); err != nil {
				t.Fatal(err)
			}
			files := Collect(root, 0)
			if err := fixture.Parse(Text("A report.\n", files)).WriteTo(copied); err != nil {
				t.Fatal(err)
			}
			was, is := cgroup.Read(cgroup.Source{Root: root}), cgroup.Read(cgroup.Source{Root: copied})
			was.Reason, was.Warnings, is.Reason, is.Warnings = nil, nil, nil, nil
			for _, levels := range [][]cgroup.Level{was.Levels, is.Levels} {
				for i := range levels {
					levels[i].Err = nil
				}
			}
			if !reflect.DeepEqual(was, is) {
				t.Errorf("%+v\nbecame %+v", was, is)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	mounts := cgroupMounts("31 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n40 1 8:1 /clients/acme /data rw - ext4 /dev/sda1 rw\nbroken\n")
	if mounts != "31 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" {
		t.Errorf("%q", mounts)
	}
	env := Environment(map[string]string{"GOMAXPROCS": "4", "PASSWORD": "x", "GODEBUG": ""})
	if env != "GOMAXPROCS=4\nGODEBUG=\n" {
		t.Errorf("%q", env)
	}
}

func TestText(t *testing.T) {
	if got := Text("About.\n", []File{{"a", "no newline"}, {"b", ""}, {"c", "x\n"}}); got != "About.\n-- a --\nno newline\n-- b --\n-- c --\nx\n" {
		t.Errorf("%q", got)
	}
}
