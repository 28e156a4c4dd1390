// Package foreign answers: what does a file say that belongs to someone else? In goes a path below a root: that of this system, of a tree
// of saved files, or of another process; out comes a text, a list of names, or an open file, or the reason why not. It is the one way in
// which the library and the command look at other processes, because what is looked at may be made to harm the one that looks:
//
//   - No path leads out of its root, regardless of links on the way. Links that the kernel makes, such as /proc/PID/root, are followed only
//     where the path names them itself, and only on a file system of the kernel's.
//   - Nothing blocks, and nothing but a regular file is opened. It is first looked at through a descriptor that opens nothing: opening a
//     device may start what it is for.
//   - A file of a cgroup is on a file system for cgroups. A process can cover its own with anything it likes.
//   - Every reading has a bound. Beyond it there is an error, never the beginning of a text.
//   - A file system that has stopped answering holds up only the one that asks: see [Each] and [Within]. One that another user's daemon
//     serves is first asked by a process of its own.
//
// It judges nothing and remembers nothing beyond a [Tree].
package foreign

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Bounds on what is read, in bytes. What the kernel writes needs a part of them.
const (
	// Group is that of a cgroup's file: cpu.stat of a current kernel has 600 bytes, and a list of processes is another matter. It also
	// holds /proc/PID/cgroup: 14 paths of 4 KiB.
	Group = 64 << 10
	// Members is that of cgroup.procs, 8 bytes for each of 100,000 processes. A node is made for some thousands.
	Members = 1 << 20
	// Mounts is that of mountinfo: 150 bytes for each of the 100,000 mounts that the kernel lets a namespace have. A node has hundreds.
	Mounts = 16 << 20
	// Record is that of stat, status, schedstat and the like of one process or of one thread, which are below 4 KiB.
	Record = 64 << 10
	// System is that of /proc/stat, /proc/cpuinfo and the like, which grow with the CPUs: 1.5 KiB for each of 2,000.
	System = 4 << 20
	// Arguments is that of a command line or an environment. The kernel accepts at most 6 MiB of both for a new program; later a process
	// may make it show all its memory.
	Arguments = 8 << 20
	// Mappings is that of maps: 120 bytes for each of the 65,530 mappings that the kernel allows by default.
	Mappings = 8 << 20
	// Children is that of the list of a thread's children: 8 bytes for each of 100,000.
	Children = 1 << 20
	// Sockets is that of /proc/net/tcp, which has 150 bytes a socket: 3 million of them.
	Sockets = 512 << 20
	// Config is that of a file of settings that is written by hand.
	Config = 1 << 20
)

// Bounds on the names in a directory.
const (
	// Processes is the kernel's own bound on pids, and some names for what else is in /proc.
	Processes = 1<<22 + 1<<10
	// Threads is how many threads a Go program has at most, unless it asks for more: with 10,000 Go's own default ends it.
	Threads = 10_000
	// Descriptors is how many files a process may have open, unless root has raised the kernel's own bound.
	Descriptors = 1 << 20
	// Files is for a directory of settings.
	Files = 1000
)

var (
	// ErrTooLong is the error of what goes beyond a bound.
	ErrTooLong = errors.New("more than a file of its kind can have")
	// ErrNotRegular is the error of a device, a pipe or a socket where a file should be.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotGroup is the error of a file of a cgroup that is on another file system.
	ErrNotGroup = errors.New("not on a file system for cgroups: something else covers it")
)

func tooLong(most int) error {
	unit, n := "bytes", most
	switch {
	case most >= 1<<20:
		unit, n = "MiB", most>>20
	case most >= 1<<10:
		unit, n = "KiB", most>>10
	}
	return fmt.Errorf("%w: %d %s", ErrTooLong, n, unit)
}

func tooMany(most int) error { return fmt.Errorf("%w: %d names", ErrTooLong, most) }

// Read reads a whole file below root, "" being "/", of no more than most bytes.
func Read(root, path string, most int) ([]byte, error) {
	t := Open(root)
	defer t.Close()
	return t.Read(path, most)
}

// ReadRecord is Read for a file of one record, as most of a process's are: it ends where the kernel gives less than there is room for.
func ReadRecord(root, path string, most int) ([]byte, error) {
	t := Open(root)
	defer t.Close()
	return t.ReadRecord(path, most)
}

// Names are the names in a directory below root, in no order, of which there may be no more than most.
func Names(root, path string, most int) ([]string, error) {
	t := Open(root)
	defer t.Close()
	return t.Names(path, most)
}

// OpenFile opens a file below root to be read in pieces. What is read of it needs a bound, see [Bounded].
func OpenFile(root, path string) (*os.File, error) {
	t := Open(root)
	defer t.Close()
	return t.File(path)
}

// Look looks at a file below root without opening it.
func Look(root, path string) (*File, error) {
	t := Open(root)
	defer t.Close()
	return t.Look(path)
}

// Link is what a link below root says. It is not followed.
func Link(root, path string) (string, error) {
	t := Open(root)
	defer t.Close()
	return t.Link(path)
}

// Bounded reads no more than most bytes of r: for a file that is read in pieces.
func Bounded(r io.Reader, most int) io.Reader { return &bounded{r, most, most} }

type bounded struct {
	r          io.Reader
	left, most int
}

func (b *bounded) Read(buf []byte) (int, error) {
	if len(buf) > b.left+1 {
		buf = buf[:b.left+1] // one more shows whether it ends here
	}
	n, err := b.r.Read(buf)
	if n > b.left {
		return 0, tooLong(b.most)
	}
	b.left -= n
	return n, err
}

// split takes a path apart that begins with the root of a process: "/proc/7/root" and "/sys/fs", or "" and all of it.
func split(path string) (process, rest string) {
	after, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return "", path
	}
	pid, after, _ := strings.Cut(after, "/")
	rest, ok = strings.CutPrefix(after, "root")
	if !ok || !isPID(pid) || rest != "" && rest[0] != '/' {
		return "", path
	}
	return path[:len(path)-len(rest)], rest
}

func isPID(name string) bool {
	return name == "self" || name != "" && strings.Trim(name, "0123456789") == ""
}

// isKernels reports whether a path below /proc is one that the kernel made, and leads to nothing else: opening it does nothing, and a
// process has no way to put something else there.
func isKernels(path string) bool {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok || strings.Contains(path+"/", "/../") {
		return false
	}
	names := strings.Split(rest, "/")
	if !isPID(names[0]) {
		return true
	}
	names = names[1:]
	if len(names) > 2 && names[0] == "task" && isPID(names[1]) {
		names = names[2:]
	}
	if len(names) == 0 {
		return true
	}
	switch names[0] {
	case "root", "cwd", "exe":
		return false
	case "fd", "map_files":
		return len(names) == 1
	}
	return true
}

// below is the rest of a path that is dir or leads below it.
func below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return strings.TrimLeft(rest, "/"), ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(dir, "/"))
}
