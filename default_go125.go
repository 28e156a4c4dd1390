//go:build go1.25

package unthrottle

import "runtime"

// setDefault makes GOMAXPROCS what the runtime itself chooses, with its automatic updates, and returns the number. A
// runtime that can't do that returns 0.
func setDefault() int {
	runtime.SetDefaultGOMAXPROCS()
	return runtime.GOMAXPROCS(0)
}
