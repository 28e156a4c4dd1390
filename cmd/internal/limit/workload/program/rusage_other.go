//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris)

package program

import "time"

// cpuTime is not known on this system.
func cpuTime() (time.Duration, bool) { return 0, false }
