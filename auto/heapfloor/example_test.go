package heapfloor_test

import (
	"fmt"
	"os"

	_ "github.com/unthrottle/unthrottle/auto/heapfloor"
	"github.com/unthrottle/unthrottle/heapfloor"
)

// The import does nothing unless UNTHROTTLE_HEAP_FLOOR is set, as in: UNTHROTTLE_HEAP_FLOOR=32MiB ./server
func Example() {
	d, ok := heapfloor.Last()
	if ok {
		fmt.Fprintln(os.Stderr, d)
	}
	fmt.Println("asked for:", ok)
	// Output: asked for: false
}
