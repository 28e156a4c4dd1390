// Package golive answers: what is a running Go program's GOMAXPROCS? In goes a pid; out comes the value in the program's memory, with the
// proof that it is one. The program needs no preparation, is not stopped and does not notice: its memory is read through /proc/PID/mem and
// process_vm_readv, never with ptrace. It judges nothing, and it does not guess: if the value can't be proven there is an error.
//
// The way to the value: the table of functions (it survives stripping) has the code of runtime.procresize, which begins
// with a load of the variable gomaxprocs and ends with a store to it. Among the other variables it uses is allp, the
// slice of all Ps. When allp has as many elements as gomaxprocs says, and each P holds its own number, both were found.
//
// Known limits: Linux only; programs of Go 1.18 and later, as built by the standard toolchain (not gccgo or TinyGo). A
// program packed by UPX is not seen as one. Code is decoded for amd64 and arm64; elsewhere the symbols or a search of the
// data serve. The scheduler's state needs a 64-bit program of Go 1.21 to 1.27.
package golive

import (
	"errors"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

var (
	// ErrNotGo means that neither the program nor a library in it was built by Go.
	ErrNotGo = errors.New("not a Go program")
	// ErrExited means that there is no such process, or that it ended or became another program.
	ErrExited = errors.New("the process has exited or started another program")
)

// ErrNoSched is returned by Sched where only GOMAXPROCS can be read.
var ErrNoSched = errors.New("the scheduler's layout isn't known for this program")

// errUnproven means that the value and the Ps did not agree: the runtime is starting, or changing GOMAXPROCS.
var errUnproven = errors.New("GOMAXPROCS can't be proven: the Go runtime is starting, is changing it, or is laid out in an unknown way")

// A Value is a program's GOMAXPROCS.
type Value struct {
	Procs int
	How   string // how the variables were found: "decoded" from code, by "symbol", or by a "scan" of the data
}

// Read reads the GOMAXPROCS of a process of this system once. To read it repeatedly, keep a Process.
func Read(pid int) (Value, error) {
	return foreign.Of(pid, func() (Value, error) {
		p, err := Open("", pid)
		if err != nil {
			return Value{}, err
		}
		defer p.Close()
		return p.GOMAXPROCS()
	})
}

// A Sched is what else can be read of the scheduler. The numbers are read while the program runs, so they may be some nanoseconds apart.
type Sched struct {
	Procs int // GOMAXPROCS

	// Ps by state. A running P may have a thread that waits for a CPU or is frozen by a quota.
	Idle, Running, Syscall, GCStop int

	IdleProcs int // the scheduler's own count of idle Ps
	Spinning  int // threads that look for work

	// Custom means that GOMAXPROCS was set by the environment or a call, so that it no longer follows the quota. Before
	// Go 1.25 nothing follows it, and CustomKnown is false.
	Custom, CustomKnown bool

	// Collections counts the garbage collections that were started since the program's start.
	Collections      uint32
	CollectionsKnown bool

	// Waits counts how many times goroutines waited to run since the program's start, one in eight of them, as the runtime does for
	// /sched/latencies:seconds.
	Waits uint64
}
