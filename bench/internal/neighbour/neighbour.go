//go:build linux

// Package neighbour is a process that uses the CPUs alongside what is measured, as other programs do on a busy machine.
package neighbour

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Kinds are those of neighbours.
var Kinds = []string{"none", "half", "steal", "pauses", "bursts"}

// spinning is the environment variable by which a program starts itself as a neighbour: its kind and its seed.
const spinning = "BENCH_NEIGHBOUR"

// Become makes this process the neighbour that it was started as, if it was. It is called before anything else.
func Become() {
	runtime.LockOSThread() // what this thread starts ends with it
	if kind := os.Getenv(spinning); kind != "" {
		fmt.Fprintln(os.Stderr, "neighbour:", spin(kind))
		os.Exit(1)
	}
}

// Start starts a neighbour and returns what ends it. With the same seed it does the same again.
func Start(ctx context.Context, kind string, seed uint64) (end func(), err error) {
	if kind == "none" {
		return func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", spinning, kind, seed), "GODEBUG=asyncpreemptoff=1") // a signal would end its sleep
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
	}, nil
}

// spin is the neighbour. It wants a CPU, and lets it go, for times of random length: a neighbour with a beat of its own
// would meet that of the limit, or always miss it.
func spin(as string) error {
	var kind string
	var seed uint64
	if _, err := fmt.Sscan(as, &kind, &seed); err != nil {
		return err
	}
	random := func(thread int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(thread))) }
	switch kind {
	case "half":
		return beat(random(0), 20*time.Millisecond, 20*time.Millisecond, time.Time{})
	case "bursts":
		return bursts(random)
	}
	ended := make(chan error)
	for i := range runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			if err := seize(i); err != nil {
				ended <- fmt.Errorf("real-time priority for the neighbour: %w", err)
				return
			}
			if kind == "pauses" { // one or two a second on each CPU, like a hypervisor's
				ended <- beat(random(i), 25*time.Millisecond, 650*time.Millisecond, time.Time{})
				return
			}
			ended <- beat(random(i), 2*time.Millisecond, 18*time.Millisecond, time.Time{})
		}()
	}
	return <-ended
}

// bursts uses 0.3 to 1.5 CPUs for 2 to 60 s, as a build or a backup does, and then nothing for some 30 s, for ever: what the simulated
// worlds of package search have as well.
func bursts(random func(thread int) *rand.Rand) error {
	r := random(0)
	lasting := func() time.Duration { return time.Duration(2 * math.Pow(30, r.Float64()) * float64(time.Second)) }
	for quiet := r.IntN(2) == 0; ; quiet = !quiet {
		if quiet {
			time.Sleep(time.Duration(30 * r.ExpFloat64() * float64(time.Second)))
			continue
		}
		cpus, end := 0.3+1.2*r.Float64(), time.Now().Add(lasting())
		var threads sync.WaitGroup
		n := int(math.Ceil(cpus))
		for i := range n {
			threads.Go(func() {
				const round = 20 * time.Millisecond
				busy := time.Duration(cpus / float64(n) * float64(round))
				beat(random(i+1), busy, round-busy, end)
			})
		}
		threads.Wait()
	}
}

// beat computes and sleeps, for that long on average, until end, or for ever. It sleeps in the kernel, without telling Go's scheduler,
// which would wake it through a thread that has to wait its turn, and would use CPU time to look after it.
func beat(r *rand.Rand, busy, idle time.Duration, end time.Time) error {
	for end.IsZero() || time.Now().Before(end) {
		for until := time.Now().Add(time.Duration(r.ExpFloat64() * float64(busy))); time.Now().Before(until); {
		}
		pause := syscall.NsecToTimespec(int64(r.ExpFloat64() * float64(idle)))
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
	return nil
}

// seize binds this thread to the CPU with a number, of those that it may use, and lets nothing come before it.
func seize(i int) error {
	var mask, one [128]byte
	n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return errno
	}
	for bit := range 8 * int(n) {
		if mask[bit/8]>>(bit%8)&1 == 1 {
			if i == 0 {
				one[bit/8] = 1 << (bit % 8)
			}
			i--
		}
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, n, uintptr(unsafe.Pointer(&one))); errno != 0 {
		return errno
	}
	const roundRobin = 2
	priority := int32(50) // the generator has 1
	_, _, errno = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, roundRobin, uintptr(unsafe.Pointer(&priority)))
	if errno != 0 {
		return errno
	}
	return nil
}
