// Command server is the program that is held to a limit. Each request costs a set number of loops and allocates some memory.
// It writes its address and its number to standard output, and ends when its standard input does.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	loops := flag.Int("loops", 0, "work of a request; 0: measure how many loops take -work, print it and end")
	work := flag.Duration("work", 5*time.Millisecond, "")
	alloc := flag.Int("alloc", 0, "bytes that a request allocates")
	flag.Parse()
	if *loops == 0 {
		fmt.Println(calibrate(*work))
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr(), os.Getpid())
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for left := *alloc; left > 0; left -= piece {
			garbage.Store(new([piece]byte))
		}
		fmt.Fprintln(w, burn(*loops))
	}))
	io.Copy(io.Discard, os.Stdin)
}

// piece is what is allocated at once, and garbage keeps the last of it on the heap.
const piece = 1 << 10

var garbage atomic.Pointer[[piece]byte]

// burn reads no clock: the kernel brings its books up to date when one is read, which would make both limits more exact
// than they are.
func burn(loops int) uint64 {
	x := uint64(loops)
	for range loops {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	return x
}

// calibrate takes the fastest of some tries: the others were disturbed.
func calibrate(work time.Duration) int {
	const loops = 1 << 20
	best := time.Hour
	for range 50 {
		begin := time.Now()
		fmt.Fprint(io.Discard, burn(loops)) // so that the compiler does not leave it out
		best = min(best, time.Since(begin))
	}
	return int(float64(loops) * float64(work) / float64(best))
}
