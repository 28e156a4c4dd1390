//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// spinning is the environment variable by which we start ourselves as a neighbour.
const spinning = "BENCH_TUNE_NEIGHBOUR"

// beside starts the neighbour and returns what ends it.
func (b *bench) beside(ctx context.Context) (end func(), err error) {
	if b.neighbour == "none" {
		return func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), spinning+"="+b.neighbour, "GODEBUG=asyncpreemptoff=1") // a signal would end its sleep
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
func spin(kind string) error {
	if kind == "half" {
		return beat(20*time.Millisecond, 20*time.Millisecond)
	}
	ended := make(chan error)
	for i := range runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			if err := seize(i); err != nil {
				ended <- fmt.Errorf("real-time priority for the neighbour: %w", err)
				return
			}
			if kind == "pauses" { // of each CPU one or two a second, which are what a hypervisor's are
				ended <- beat(25*time.Millisecond, 650*time.Millisecond)
				return
			}
			ended <- beat(2*time.Millisecond, 18*time.Millisecond)
		}()
	}
	return <-ended
}

// beat computes and sleeps for ever, for so long on average. It sleeps in the kernel, without a word to Go's scheduler: that
// would wake it by a thread that has to wait its turn, and use CPU time to look after it.
func beat(busy, idle time.Duration) error {
	for {
		for until := time.Now().Add(time.Duration(rand.ExpFloat64() * float64(busy))); time.Now().Before(until); {
		}
		pause := syscall.NsecToTimespec(int64(rand.ExpFloat64() * float64(idle)))
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
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
