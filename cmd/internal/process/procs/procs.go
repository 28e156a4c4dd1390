// Package procs answers: what is this process, and if a Go program, how was it built and started? In goes a pid below a
// root; out come facts from /proc and from the executable file. It judges nothing and changes nothing, and it needs no
// cooperation of the process.
package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Process is what can be seen of a process from outside.
type Process struct {
	PID     int
	Name    string
	Command []string // program and arguments; empty for a kernel thread or a dead process

	Env    map[string]string // what Go and this project take from the environment it was started with; nil when that can't be read
	EnvErr error             // why Env is nil

	Program    *Program // nil when its file can't be read or is not a Go program
	ProgramErr error    // why Program is nil; ErrNotGo when the file is not a Go program
}

// Read reads the process pid, 0 meaning the calling process, from the files below root. An error means that there is no
// such process; what can't be read of an existing one is noted in the Process.
func Read(root string, pid int) (Process, error) {
	return foreign.Of(pid, func() (Process, error) { return new(Programs).Read(root, pid) })
}

// Read is Read for one of many processes. It may wait for the kernel for ever.
func (programs *Programs) Read(root string, pid int) (Process, error) {
	dir := Dir("", pid)
	p := Process{PID: pid}
	stat, err := foreign.ReadRecord(root, dir+"/stat", foreign.Record)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && pid != 0 {
			return p, fmt.Errorf("no process %d", pid)
		}
		if pid == 0 {
			return p, fmt.Errorf("reading this process: %w", err)
		}
		return p, fmt.Errorf("reading process %d: %w", pid, err)
	}
	if pid == 0 {
		p.PID, _ = strconv.Atoi(string(bytes.SplitN(stat, []byte(" "), 2)[0]))
	}
	p.Name = name(stat)
	p.Command, _ = readArea(root, dir+"/cmdline", splitCommand)
	p.Env, p.EnvErr = readArea(root, dir+"/environ", parseEnviron)
	p.Program, p.ProgramErr = programs.file(root, dir+"/exe", runtime.GOOS != "linux")
	return p, nil
}

// Self is what the calling process knows about itself, for systems where /proc can't be read.
func Self() Process {
	p := Process{PID: os.Getpid(), Name: filepath.Base(os.Args[0]), Command: os.Args}
	p.Env, p.EnvErr = parseEnviron(strings.NewReader(strings.Join(os.Environ(), "\x00")))
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Program, p.ProgramErr = newProgram(info)
	}
	return p
}

// List returns the pids of the processes below root. Some of them may have ended by the time they are read.
func List(root string) ([]int, error) {
	names, err := foreign.Names(root, "/proc", foreign.Processes)
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// Dir returns the directory of a process below root; pid 0 is the calling process.
func Dir(root string, pid int) string {
	if pid == 0 {
		return strings.TrimSuffix(root, "/") + "/proc/self"
	}
	return strings.TrimSuffix(root, "/") + "/proc/" + strconv.Itoa(pid)
}

// name takes the command's name from the text of /proc/PID/stat, "42 (name) S 1 …". The name may contain anything, even
// brackets and newlines; the last closing bracket ends it.
func name(stat []byte) string {
	i, j := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if i < 0 || j < i {
		return ""
	}
	return string(stat[i+1 : j])
}

// concerns reports whether a variable may say something of a program's CPUs or of its heap.
func concerns(name string) bool {
	switch name {
	case "GOMAXPROCS", "GODEBUG", "GOGC", "GOMEMLIMIT":
		return true
	}
	return name == "UNTHROTTLE" || strings.HasPrefix(name, "UNTHROTTLE_")
}
