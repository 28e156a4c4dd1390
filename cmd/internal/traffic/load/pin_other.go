//go:build !linux

package load

import "errors"

// Pin can't bind threads here.
func Pin([]int) error { return errors.New("binding threads to CPUs is known for Linux only") }
