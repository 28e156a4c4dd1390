package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// counterFiles are a group's counters, kept open: they are read a hundred times a second.
type counterFiles struct {
	stat  *os.File // cpu.stat
	usage *os.File // cpuacct.usage of v1; nil: not counted
}

func (f *counterFiles) open(v cgroup.Version, cpu, usage string) (err error) {
	if f.stat, err = os.Open(filepath.Join(cpu, "cpu.stat")); err != nil {
		return err
	}
	if v == cgroup.V1 && usage != "" {
		f.usage, err = os.Open(filepath.Join(usage, "cpuacct.usage"))
	}
	return err
}

func (f *counterFiles) close() {
	if f.stat != nil {
		f.stat.Close()
	}
	if f.usage != nil {
		f.usage.Close()
	}
}

// read reads the counters.
func (f *counterFiles) read() cgroup.Counters {
	var buf [2048]byte
	n, _ := f.stat.ReadAt(buf[:], 0)
	c, _ := cgroup.ParseStat(string(buf[:n]))
	if f.usage != nil {
		n, _ := f.usage.ReadAt(buf[:], 0)
		c.CPU, c.CPUKnown = time.Duration(number(buf[:n])), n > 0
	}
	return c
}

// stat finds the number in a line such as "oom_kill 1".
func stat(text []byte, name string) (n int64, ok bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if value, found := bytes.CutPrefix(line, []byte(name+" ")); found {
			return number(value), true
		}
	}
	return 0, false
}

// number reads the digits that text begins with.
func number(text []byte) (n int64) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
