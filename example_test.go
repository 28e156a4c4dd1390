package unthrottle_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

func Example() {
	d, undo := unthrottle.Set(unthrottle.Options{})
	defer undo()
	log.Print(d)
}

func ExampleDecide() {
	limits := cgroup.Limits{State: cgroup.Limited, CPUs: 1.5, From: "/sys/fs/cgroup/app", Affinity: 16}
	fmt.Println(unthrottle.Decide(limits, unthrottle.Go))
	fmt.Println(unthrottle.Decide(limits, unthrottle.Floor))
	limits = cgroup.Limits{State: cgroup.Unknown, Reason: errors.New("open /proc/self/cgroup: permission denied"), Affinity: 16}
	fmt.Println(unthrottle.Decide(limits, unthrottle.Go))
	// Output:
	// GOMAXPROCS=2: limit 1.5 CPUs at /sys/fs/cgroup/app; policy go: rounded up to 2
	// GOMAXPROCS=1: limit 1.5 CPUs at /sys/fs/cgroup/app; policy floor: rounded down to 1
	// GOMAXPROCS unchanged: the limit is unknown: open /proc/self/cgroup: permission denied
}

func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go unthrottle.Watch(ctx, unthrottle.Options{}, func(d unthrottle.Decision) {
		log.Printf("resizing the pool to %d: %v", d.Procs, d)
	})
}
