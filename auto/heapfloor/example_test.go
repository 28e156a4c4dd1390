package heapfloor_test

import (
	"fmt"
	"os"

	"github.com/unthrottle/unthrottle"
	_ "github.com/unthrottle/unthrottle/auto/heapfloor"
)

// The import does nothing unless UNTHROTTLE_HEAP_FLOOR is set, as in: UNTHROTTLE_HEAP_FLOOR=32MiB ./server
func Example() {
	d, ok := unthrottle.LastHeapFloor()
	if ok {
		fmt.Fprintln(os.Stderr, d)
	}
	fmt.Println("asked for:", ok)
	// Output: asked for: false
}
