package cgroup_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cgroup"
)

// The zero Source is the calling process. Here the files are those of another system: a service without a limit of its own,
// in a slice that has one.
func ExampleRead() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	for name, text := range map[string]string{
		"proc/self/cgroup":                               "0::/system.slice/api.service\n",
		"proc/self/mountinfo":                            "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/system.slice/cpu.max":             "150000 100000\n",
		"sys/fs/cgroup/system.slice/api.service/cpu.max": "max 100000\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			log.Fatal(err)
		}
	}

	l := cgroup.Read(cgroup.Source{Root: root})
	switch l.State {
	case cgroup.Limited:
		fmt.Println(l.CPUs, "CPUs, by", l.From)
	case cgroup.None:
		fmt.Println("no limit")
	default:
		fmt.Println(l.State, l.Reason)
	}
	for _, level := range l.Levels {
		fmt.Println(level.Dir, level.Quota.CPUs())
	}
	// Output:
	// 1.5 CPUs, by /sys/fs/cgroup/system.slice
	// /sys/fs/cgroup/system.slice/api.service 0
	// /sys/fs/cgroup/system.slice 1.5
	// /sys/fs/cgroup 0
}
