//go:build !linux

package heartbeat

import (
	"io"
	"time"
)

// Beat says that there is no heartbeat here.
func Beat(io.Reader, io.Writer) error { return ErrNotSupported }

// OwnCPU is not known here.
func OwnCPU() time.Duration { return 0 }
