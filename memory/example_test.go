package memory_test

import (
	"fmt"
	"log"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

func Example() {
	d, undo := memory.Set(memory.Options{})
	defer undo()
	log.Print(d) // such as: GOMEMLIMIT=460.8 MiB: limit 512 MiB at /sys/fs/cgroup; 90 % of it
	fmt.Println("share:", d.Options.Share)
	// Output: share: 0.9
}

// A program that maps files needs room for their pages besides its heap.
func ExampleDecide() {
	limit := cgroup.Memory{State: cgroup.Limited, Bytes: 512 << 20, From: "/sys/fs/cgroup"}
	fmt.Println(memory.Decide(limit, memory.Options{Reserve: 100 << 20}))
	// Output: GOMEMLIMIT=360.8 MiB: limit 512 MiB at /sys/fs/cgroup; 90 % of it, less 100 MiB
}
