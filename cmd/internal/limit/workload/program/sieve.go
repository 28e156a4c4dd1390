package program

import "fmt"

// runSieve measures the concurrent prime sieve: a goroutine for every prime takes its multiples out of a stream of
// numbers. There is much that can run at once, in very small pieces. The classic benchmark ran for 20 to 30 seconds; the
// default here takes about one, and --size brings the rest back.
//
// The stream ends at the last prime that is wanted. So the sieve drains, all its goroutines end, and each run does the
// same work; the usual sieve leaves its filters running.
func runSieve(o options) (Result, error) {
	if err := sieve(o.size/10 + 1); err != nil { // warm up
		return Result{}, err
	}
	want := primes(o.size)
	m := startMeter()
	err := sieveTo(want)
	return m.stop(1), err
}

func sieve(n int) error { return sieveTo(primes(n)) }

// sieveTo runs the sieve and compares what it finds with want.
func sieveTo(want []int) error {
	stream := make(chan int)
	go func(out chan<- int) {
		defer close(out)
		for i := 2; i <= want[len(want)-1]; i++ {
			out <- i
		}
	}(stream)
	for i := 0; ; i++ {
		prime, ok := <-stream
		if !ok && i == len(want) {
			return nil
		}
		if !ok || i == len(want) || prime != want[i] {
			return fmt.Errorf("prime number %d is wrong: got %d", i+1, prime)
		}
		rest := make(chan int)
		go func(in <-chan int, out chan<- int) {
			defer close(out)
			for i := range in {
				if i%prime != 0 {
					out <- i
				}
			}
		}(stream, rest)
		stream = rest
	}
}

// primes returns the first n primes, found the plain way.
func primes(n int) []int {
	var found []int
next:
	for i := 2; len(found) < n; i++ {
		for _, p := range found {
			if p*p > i {
				break
			}
			if i%p == 0 {
				continue next
			}
		}
		found = append(found, i)
	}
	return found
}
