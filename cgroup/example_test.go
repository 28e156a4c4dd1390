package cgroup_test

import (
	"fmt"
	"log"

	"github.com/unthrottle/unthrottle/cgroup"
)

// How often did the limit stop this process while it did something?
func ExampleReadThrottling() {
	var self cgroup.Source
	limits := cgroup.Read(self)
	before := cgroup.ReadThrottling(self, limits)
	work()
	d := cgroup.ReadThrottling(self, limits).Since(before)
	if d.Owner.Known {
		log.Printf("throttled in %d of %d periods", d.Owner.Throttled, d.Owner.Periods)
	}
	fmt.Println(d.Owner.Throttled <= d.Owner.Periods)
	// Output: true
}

func work() {}

func ExampleParseStat() {
	before, _ := cgroup.ParseStat("usage_usec 100000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 30000\n")
	after, err := cgroup.ParseStat("usage_usec 600000\nnr_periods 20\nnr_throttled 11\nthrottled_usec 730000\n")
	if err != nil {
		log.Fatal(err)
	}
	d := after.Since(before)
	fmt.Printf("throttled in %d of %d periods, for %v; used %v of CPU time\n", d.Throttled, d.Periods, d.ThrottledTime, d.CPU)
	// Output: throttled in 9 of 10 periods, for 700ms; used 500ms of CPU time
}

func ExampleReadMemory() {
	m := cgroup.ReadMemory(cgroup.Source{})
	if m.State == cgroup.Limited {
		log.Printf("%d MiB, by %s", m.Bytes>>20, m.From)
	}
	fmt.Println(m.Bytes > 0 == (m.State == cgroup.Limited))
	// Output: true
}
