//go:build !unix

package load

import "time"

// cpuTime is the CPU time that this process has used; 0: not known here.
func cpuTime() time.Duration { return 0 }
