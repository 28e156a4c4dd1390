//go:build linux

// Command service is a small service that sends its requests to itself: at random moments at a set rate, whether or not it
// keeps up. A request makes 500 small objects and forgets them; about 1 MB stays alive. It prints one line of JSON.
//
// It is written for Go 1.21, so that package heapfloor can build it with old toolchains.
package main

import (
	"encoding/json"
	"flag"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/heapfloor"
)

// object is what requests are made of: a pointer and some bytes, 512 in all.
type object struct {
	next *object
	_    [504]byte
}

var kept [2048]*object // 1 MB

func request() {
	var list *object
	for i := 0; i < 500; i++ {
		list = &object{next: list}
	}
	list.next = nil
	kept[rand.Intn(len(kept))] = list
}

func main() {
	floor := flag.Int64("floor", 0, "heap floor in bytes")
	rate := flag.Float64("rate", 3000, "requests a second")
	length := flag.Duration("length", 6*time.Second, "of the measurement, after a second that doesn't count")
	flag.Parse()
	if *floor > 0 {
		heapfloor.Keep(*floor)
	}
	run(*rate, time.Second)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used := cpu()
	took := run(*rate, *length)
	used = cpu() - used
	runtime.ReadMemStats(&after)
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"cpu": used.Seconds() / length.Seconds(),
		"gc":  float64(after.NumGC-before.NumGC) / length.Seconds(),
		"p50": took[len(took)/2].Seconds() * 1000,
		"p99": took[len(took)*99/100].Seconds() * 1000,
		"rss": float64(maxRSS()) / 1024,
	})
}

// run sends requests and returns the time from the moment at which each was due to its end.
func run(rate float64, length time.Duration) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	begin := time.Now()
	for due := begin; due.Sub(begin) < length; due = due.Add(time.Duration(rand.ExpFloat64() / rate * 1e9)) {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		due := due
		wg.Add(1)
		go func() {
			request()
			d := time.Since(due)
			mu.Lock()
			took = append(took, d)
			mu.Unlock()
			wg.Done()
		}()
	}
	wg.Wait()
	return took
}

func usage() (u syscall.Rusage) {
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u
}

func cpu() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func maxRSS() int64 { return int64(usage().Maxrss) } // KiB
