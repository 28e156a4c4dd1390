package program

import (
	"fmt"
	"time"
)

// runChain measures the time of one integer through a row of goroutines that are joined by unbuffered channels.
//
// The row is built once, and the next integer is sent when the last one has arrived. So one goroutine can run at a time:
// there is nothing that a second P could gain, and the figure shows what having one costs.
func runChain(o options) (Result, error) { return measureChain(o, 0) }

// runChainBuf is runChain with buffered channels.
func runChainBuf(o options) (Result, error) { return measureChain(o, 10) }

func measureChain(o options, buffer int) (Result, error) {
	first, last := newChain(o.size, buffer)
	defer close(first)
	if _, err := passAlong(first, last, o.size, warmUp); err != nil {
		return Result{}, err
	}
	m := startMeter()
	ops, err := passAlong(first, last, o.size, o.window)
	if err != nil {
		return Result{}, err
	}
	return m.stop(ops), nil
}

// newChain builds a row of n goroutines, which ends when first is closed. Each adds one to what it passes on.
func newChain(n, buffer int) (first chan<- int, last <-chan int) {
	head := make(chan int, buffer)
	tail := head
	for i := 0; i < n; i++ {
		in, out := tail, make(chan int, buffer)
		go func() {
			defer close(out)
			for v := range in {
				out <- v + 1
			}
		}()
		tail = out
	}
	return head, tail
}

func passAlong(first chan<- int, last <-chan int, n int, window time.Duration) (ops int64, err error) {
	for end := time.Now().Add(window); ops == 0 || time.Now().Before(end); ops++ {
		first <- int(ops)
		if got := <-last; got != int(ops)+n {
			return ops, fmt.Errorf("%d came out of the chain as %d, want %d", ops, got, int(ops)+n)
		}
	}
	return ops, nil
}
