// Package auto sets GOMAXPROCS to fit the CPU limit when it is imported:
//
//	import _ "github.com/unthrottle/unthrottle/auto"
//
// It never fails a program and prints nothing; unthrottle.Last tells what it decided and why. The environment chooses
// what it does:
//
//	UNTHROTTLE                 off, go (the default), floor, ceil or exact
//	UNTHROTTLE_MIN             smallest GOMAXPROCS
//	UNTHROTTLE_MAX             largest GOMAXPROCS
//	UNTHROTTLE_HEADROOM        CPUs left to side processes: 0.5 or 500m
//	UNTHROTTLE_REQUEST         CPUs requested, which cap the answer: 0.5 or 500m
//	UNTHROTTLE_REQUEST_FACTOR  what the request is multiplied by: 2
//
// A GOMAXPROCS in the environment wins. A variable with an invalid value counts as not set and becomes a warning in the
// Decision. To follow changes, call unthrottle.Watch.
package auto

import (
	_ "github.com/unthrottle/unthrottle" // which gives fromenv its function
	"github.com/unthrottle/unthrottle/internal/fromenv"
)

func init() { fromenv.Set() }
