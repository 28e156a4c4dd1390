//go:build !linux

package neighbours

import (
	"errors"
	"time"
)

func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
