package heapfloor_test

import (
	"fmt"
	"log"

	"github.com/unthrottle/unthrottle/heapfloor"
)

// A service with a small heap and a lot of garbage: let the heap grow to 32 MiB before it is collected.
func Example() {
	d, undo := heapfloor.Keep(32 << 20)
	defer undo()
	log.Print(d) // such as: heap floor 32 MiB: 32 MiB asked for; GOGC is raised from 100 as far as that needs
	fmt.Println(d.Asked>>20, "MiB asked for")
	// Output: 32 MiB asked for
}
