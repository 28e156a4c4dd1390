//go:build !go1.25

package unthrottle

// setDefault returns 0: before Go 1.25 the runtime had no choice of its own to come back to.
func setDefault() int { return 0 }
