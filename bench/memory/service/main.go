//go:build linux

// Command service is a small service with a cache: it sends its requests to itself, at random moments at a set rate. A request
// makes garbage and replaces an entry of the cache, so that as much stays alive. It prints one line of JSON. It is built plain,
// with automemlimit, and with package auto/memory; see command memory.
package main

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// An entry is what the cache holds: pointers that the collector has to follow, and some bytes.
type entry struct {
	next *entry
	_    [480]byte
}

func list(bytes int) (head *entry) {
	for range bytes / 488 {
		head = &entry{next: head}
	}
	return head
}

const entryBytes = 16 << 10

func main() {
	alive := flag.Int("alive", 1, "MB that stay alive")
	garbage := flag.Int("garbage", 256<<10, "bytes that a request makes")
	rate := flag.Float64("rate", 500, "requests a second")
	length := flag.Duration("length", 5*time.Second, "")
	flag.Parse()
	cache := make([]*entry, max(1, *alive<<20/entryBytes))
	for i := range cache {
		cache[i] = list(entryBytes)
	}
	n, before := 0, usage()
	begin := time.Now()
	for due := begin; due.Sub(begin) < *length; due = due.Add(time.Duration(rand.ExpFloat64() / *rate * 1e9)) {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		for left := *garbage; left > 0; left -= entryBytes {
			list(entryBytes)
		}
		cache[rand.IntN(len(cache))] = list(entryBytes)
		n++
	}
	after := usage()
	collected := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(collected)
	gc, user := collected[0].Value.Float64(), collected[1].Value.Float64()
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"cpu": 1000 * (after - before) / float64(max(n, 1)), "gc": gc / (gc + user), "requests": float64(n) / time.Since(begin).Seconds(),
	})
}

func usage() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
