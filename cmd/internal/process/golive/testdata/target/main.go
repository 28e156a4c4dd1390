// This program sets GOMAXPROCS to PROCS, says so, and sets it to NEXT at each SIGUSR1. It ends with its input.
package main

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

func main() {
	set("PROCS")
	var done sync.WaitGroup
	for i := 0; i < 200; i++ { // for the histogram of waits
		done.Add(1)
		go func() {
			for j := 0; j < 20; j++ {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	done.Wait()
	for i := 0; i < 3; i++ { // the only ones: so little is allocated
		runtime.GC()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			set("NEXT")
			os.Stdout.WriteString("changed\n")
		}
	}()
	os.Stdout.WriteString("ready\n")
	io.Copy(io.Discard, os.Stdin)
}

func set(name string) {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		runtime.GOMAXPROCS(n)
	}
}
