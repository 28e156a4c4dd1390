//go:build linux

// Command service is a small service with a cache: it sends its requests to itself, at random moments at a set rate. A request
// makes garbage and replaces an entry of the cache, so that as much stays alive. For a while more may be alive, or more and more.
// It prints a line of JSON each second, and one of all. It is built plain, with automemlimit, and with package auto/memory; see
// command memory.
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

func newEntry() (head *entry) {
	for range entryBytes / 488 {
		head = &entry{next: head}
	}
	return head
}

const entryBytes = 16 << 10

// gaveUp is how often the limit was given up, for builds that can report it.
var gaveUp = func() int { return 0 }

// A line is what it prints.
type line struct {
	CPU      float64 `json:"cpu"`      // ms a request
	GC       float64 `json:"gc"`       // the collector's share of the CPU time; only of all
	Requests float64 `json:"requests"` // a second
	Alive    float64 `json:"alive"`    // MB in the end
	GaveUp   int     `json:"gave_up"`  // so far
	All      bool    `json:"all"`
}

func main() {
	alive := flag.Int("alive", 1, "MB that stay alive")
	garbage := flag.Int("garbage", 256<<10, "bytes that a request makes")
	rate := flag.Float64("rate", 500, "requests a second")
	length := flag.Duration("length", 5*time.Second, "")
	more := flag.Int("more", 0, "MB that are alive as well, after -from and until -until")
	leak := flag.Float64("leak", 0, "MB a second that stay alive after -from")
	from := flag.Duration("from", 0, "")
	until := flag.Duration("until", time.Hour, "")
	flag.Parse()
	cache := make([]*entry, max(1, *alive<<20/entryBytes))
	for i := range cache {
		cache[i] = newEntry()
	}
	var besides []*entry // what is alive as well
	out := json.NewEncoder(os.Stdout)
	n, before := 0, usage()
	begin := time.Now()
	second, counted, used := begin.Add(time.Second), 0, before
	for due := begin; due.Sub(begin) < *length; due = due.Add(time.Duration(rand.ExpFloat64() / *rate * 1e9)) {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		for left := *garbage; left > 0; left -= entryBytes {
			newEntry()
		}
		cache[rand.IntN(len(cache))] = newEntry()
		n++
		beside, since := 0, time.Since(begin)
		if since >= *from && since < *until {
			beside = *more<<20 + int(*leak*float64(1<<20)*(since-*from).Seconds())
		}
		for len(besides)*entryBytes < beside {
			besides = append(besides, newEntry())
		}
		if beside == 0 {
			besides = nil
		}
		if now := time.Now(); now.After(second) {
			u := usage()
			out.Encode(line{
				CPU: 1000 * (u - used) / float64(n-counted), Requests: float64(n-counted) / (now.Sub(second).Seconds() + 1),
				Alive: float64((len(cache)+len(besides))*entryBytes) / (1 << 20), GaveUp: gaveUp(),
			})
			second, counted, used = now.Add(time.Second), n, u
		}
	}
	after := usage()
	collected := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(collected)
	gc, user := collected[0].Value.Float64(), collected[1].Value.Float64()
	out.Encode(line{
		CPU: 1000 * (after - before) / float64(max(n, 1)), GC: gc / (gc + user), Requests: float64(n) / time.Since(begin).Seconds(),
		Alive: float64((len(cache)+len(besides))*entryBytes) / (1 << 20), GaveUp: gaveUp(), All: true,
	})
}

func usage() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
