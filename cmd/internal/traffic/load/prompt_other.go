//go:build !linux

package load

// Prompt can't do it here.
func Prompt() bool { return false }
