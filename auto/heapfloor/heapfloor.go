// Package heapfloor keeps a small heap from being collected too often, when it is imported and the environment asks for it:
//
//	import _ "github.com/unthrottle/unthrottle/auto/heapfloor"
//
//	UNTHROTTLE_HEAP_FLOOR      32MiB, or a number of bytes
//
// Without the variable it does nothing. It is separate from package auto because it is some 23 KB of code that few programs need. Package
// [github.com/unthrottle/unthrottle/heapfloor] is the same in code, and its Last says what was decided and why.
package heapfloor

import (
	"os"

	"github.com/unthrottle/unthrottle/heapfloor"
)

func init() {
	if os.Getenv("UNTHROTTLE_HEAP_FLOOR") != "" {
		heapfloor.Keep(0)
	}
}
