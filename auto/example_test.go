package auto_test

import (
	"fmt"
	"log"

	"github.com/unthrottle/unthrottle"
	_ "github.com/unthrottle/unthrottle/auto"
)

// The import has decided before main begins. It is silent; this is how to ask it.
func Example() {
	d, ok := unthrottle.Last()
	log.Print(d) // such as: GOMAXPROCS=2: limit 1.5 CPUs at /sys/fs/cgroup/system.slice; policy go: rounded up to 2; …
	fmt.Println("decided:", ok)
	// Output: decided: true
}
