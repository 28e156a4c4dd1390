package unthrottle_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

func Example() {
	d, undo := unthrottle.Set(unthrottle.Options{Policy: unthrottle.Floor})
	log.Print(d) // such as: GOMAXPROCS=1: limit 1.5 CPUs at /sys/fs/cgroup/app; policy floor: rounded down to 1; …
	undo()
	fmt.Println("as before:", runtime.GOMAXPROCS(0) == d.Before)
	// Output: as before: true
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

// A limit of 4 CPUs is shared with a proxy in the same container, which needs half a CPU.
func ExamplePolicy_headroom() {
	limits := cgroup.Limits{State: cgroup.Limited, CPUs: 4, From: "/sys/fs/cgroup", Affinity: 16}
	policy := unthrottle.Floor
	policy.Headroom = 0.5
	fmt.Println(unthrottle.Decide(limits, policy))
	// Output:
	// GOMAXPROCS=3: limit 4 CPUs at /sys/fs/cgroup; 0.5 CPUs left to side processes: 3.5 CPUs; policy floor: rounded down to 3
}

// A pod with a request of 2 CPUs and no limit, on a node with 64. It may use twice its request. The cgroup does not reveal
// the request; FromEnv reads it from UNTHROTTLE_REQUEST, which Kubernetes can fill in.
func ExamplePolicy_request() {
	limits := cgroup.Limits{State: cgroup.None, Affinity: 64}
	fmt.Println(unthrottle.Decide(limits, unthrottle.Policy{Request: 2, RequestFactor: 2}))
	// Output:
	// GOMAXPROCS=4: no limit; all 64 CPUs that the affinity mask allows; lowered to 4 by the request of 2 CPUs × 2
}

// The environment of package auto, in a program that has a limit of its own choice as well.
func ExampleParsePolicy() {
	environment := map[string]string{"UNTHROTTLE": "ceil", "UNTHROTTLE_HEADROOM": "250m", "UNTHROTTLE_MAX": "many"}
	policy, errs := unthrottle.ParsePolicy(func(name string) string { return environment[name] })
	policy.Max = 8
	fmt.Println(policy.Name, policy.Headroom, errs)
	// Output: ceil 0.25 [UNTHROTTLE_MAX=many: want a whole number above zero]
}

// What the environment asks for, followed and logged.
func ExampleFromEnv() {
	o := unthrottle.FromEnv()
	o.Logf = log.Printf
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a service has a context that lasts
	unthrottle.Watch(ctx, o, nil)
	// Output:
}

func ExampleWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	unthrottle.Watch(ctx, unthrottle.Options{}, func(d unthrottle.Decision) {
		log.Printf("a pool of %d: %v", d.Now, d)
		fmt.Println("resizing the pool")
		cancel() // a service goes on, in a goroutine of its own: go unthrottle.Watch(…)
	})
	// Output: resizing the pool
}
