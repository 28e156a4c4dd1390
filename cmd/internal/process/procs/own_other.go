//go:build !unix

package procs

import "time"

// OwnCPU is not known here.
func OwnCPU() time.Duration { return 0 }
