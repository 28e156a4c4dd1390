//go:build !linux

package load

// Prompt does nothing here.
func Prompt() {}
