// Package auto sets GOMAXPROCS to fit the CPU limit when it is imported:
//
//	import _ "github.com/unthrottle/unthrottle/auto"
//
// By default it decides as Go 1.25 and later do, for every cgroup above the program's own as well: rounded up, and never
// below 2. For one P at a limit of 1 CPU or less set UNTHROTTLE=ceil.
//
// It never fails a program and prints nothing; unthrottle.Last says what it decided and why. The environment chooses what it does:
//
//	UNTHROTTLE                 off, go (the default), floor, ceil or exact
//	UNTHROTTLE_MIN             smallest GOMAXPROCS
//	UNTHROTTLE_MAX             largest GOMAXPROCS
//	UNTHROTTLE_HEADROOM        CPUs left to side processes: 0.5 or 500m
//	UNTHROTTLE_REQUEST         CPUs requested, which cap the answer: 0.5 or 500m
//	UNTHROTTLE_REQUEST_FACTOR  what the request is multiplied by: 2
//
// A GOMAXPROCS in the environment wins. A variable with an invalid value counts as not set and becomes a warning in the Decision. It
// decides once; package auto/watch follows changes. Packages that are initialised before this one, such as those that import nothing, see
// the runtime's GOMAXPROCS: where that matters, set GOMAXPROCS in the environment.
package auto

import (
	_ "github.com/unthrottle/unthrottle" // which gives fromenv its function
	"github.com/unthrottle/unthrottle/internal/fromenv"
)

func init() { fromenv.Set() }
