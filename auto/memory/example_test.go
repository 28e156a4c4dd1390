package memory_test

import (
	"fmt"
	"log"

	_ "github.com/unthrottle/unthrottle/auto/memory"
	"github.com/unthrottle/unthrottle/memory"
)

// The import has decided before main begins. It is silent; this is how to ask it.
func Example() {
	d, ok := memory.Last()
	log.Print(d) // such as: GOMEMLIMIT=460.8 MiB: limit 512 MiB at /sys/fs/cgroup; 90 % of it
	fmt.Println("decided:", ok)
	// Output: decided: true
}
