package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"
)

func (s *Server) isPrime(w http.ResponseWriter, r *http.Request) {
	n, err := s.parseN(r.PathValue("n"))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, struct {
		N     int64 `json:"n"`
		Prime bool  `json:"prime"`
	}{n, isPrime(n)})
}

func (s *Server) parseN(text string) (int64, error) { return whole("n", text, 0, s.o.MaxN) }

// isPrime reports whether n is prime. It tries every number below n, and goes on when it has found a divisor: deliberately bad, so that the
// CPU time is proportional to n, for any n.
func isPrime(n int64) bool {
	divisors := 0
	for i := int64(2); i < n; i++ {
		if n%i == 0 {
			divisors++
		}
	}
	return n >= 2 && divisors == 0
}

// A job is what a request to /work asks for.
type job struct {
	cpu   time.Duration
	alloc int64
}

func (s *Server) parseJob(query string) (job, error) {
	j := job{cpu: 5 * time.Millisecond}
	values, err := url.ParseQuery(query)
	if err != nil {
		return j, err
	}
	for name, v := range values {
		switch {
		case len(v) > 1:
			err = fmt.Errorf("%s: given %d times", name, len(v))
		case name == "cpu":
			j.cpu, err = duration("cpu", v[0], s.o.MaxCPU)
		case name == "alloc":
			j.alloc, err = size("alloc", v[0], s.o.MaxAlloc)
		default:
			err = fmt.Errorf("%q is not known: there are cpu and alloc", name)
		}
		if err != nil {
			return j, err
		}
	}
	return j, nil
}

func (s *Server) work(w http.ResponseWriter, r *http.Request) {
	j, err := s.parseJob(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	garbage := allocate(j.alloc)
	if !burn(r.Context(), j.cpu, s.rounds(), s.watch.beat) {
		return // no one waits for the answer
	}
	runtime.KeepAlive(garbage) // till now, as a request's data is: a collection in between has it to mark
	answer(w, struct {
		CPUSeconds float64 `json:"cpu_seconds"`
		AllocBytes int64   `json:"alloc_bytes"`
	}{j.cpu.Seconds(), j.alloc})
}

// A node is 64 bytes with a pointer, so that the garbage collector has something to follow.
type node struct {
	next *node
	_    [7]uint64
}

func allocate(bytes int64) (list *node) {
	for range (bytes + 63) / 64 {
		list = &node{next: list}
	}
	return list
}

// burn uses CPU time; what allocate takes, the collector and HTTP come on top. It counts rounds and does not look at a
// clock, as clocks go on while the process stands still: then a throttled request would do less than another. It calls
// also in between, and returns false when ctx is done.
func burn(ctx context.Context, cpu time.Duration, perSecond float64, also func()) bool {
	for _, n := range pieces(cpu, perSecond) {
		if ctx.Err() != nil {
			return false
		}
		_ = spin(n)
		also()
	}
	return true
}

// pieces says how many rounds a CPU time is, in pieces of at most 10 ms.
func pieces(cpu time.Duration, perSecond float64) (rounds []int64) {
	const most = 10 * time.Millisecond
	for ; cpu > 0; cpu -= most {
		rounds = append(rounds, int64(min(cpu, most).Seconds()*perSecond))
	}
	return rounds
}

// spin is a chain of operations each of which waits for the one before, so that its time depends on the CPU's clock and
// on little else.
//
//go:noinline
func spin(rounds int64) uint64 {
	x := uint64(rounds) | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// measure finds out how many rounds of spin a second of CPU time is.
func measure() float64 {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	return fastest(threadCPU, func(n int64) { _ = spin(n) })
}

// fastest takes the best of several tries: what disturbs one, be it another process on the same core or a cold cache, only
// ever makes it slower. Standing still disturbs none, as the clock is of CPU time.
func fastest(clock func() time.Duration, spin func(int64)) (perSecond float64) {
	const tries, rounds = 12, 1 << 20
	for range tries {
		before := clock()
		spin(rounds)
		if took := clock() - before; took > 0 {
			perSecond = max(perSecond, rounds/took.Seconds())
		}
	}
	if perSecond == 0 {
		return 1e9 // a clock that does not move; a guess is better than a server that hangs
	}
	return perSecond
}
