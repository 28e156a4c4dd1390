//go:build !linux

package load

import "time"

const mostDoze = 0 // nothing dozes

func doze(time.Duration) {}

func dozing() (undo func()) { return func() {} }
