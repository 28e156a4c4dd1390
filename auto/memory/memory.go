// Package memory sets GOMEMLIMIT to fit the memory limit when it is imported, and follows changes:
//
//	import _ "github.com/unthrottle/unthrottle/auto/memory"
//
// It never fails a program and prints nothing; Last of package [github.com/unthrottle/unthrottle/memory] says what it decided and why. The
// environment chooses what it does:
//
//	UNTHROTTLE_MEMORY      on (the default), off, a share of the limit such as 80%, or one less a reserve: 90%-64MiB
//	UNTHROTTLE_MIN_GOGC    the least GOGC that the limit may come down to in effect: 10, or off
//	UNTHROTTLE_HEAP_FLOOR  32MiB, or a number of bytes: a small heap may grow to that before it is collected
//
// A GOMEMLIMIT in the environment wins, and so does UNTHROTTLE=off.
package memory

import "github.com/unthrottle/unthrottle/memory"

func init() { memory.Set(memory.FromEnv()) }
