//go:build !linux

package heartbeat

import (
	"errors"

	"github.com/unthrottle/unthrottle/cgroup"
)

var readOnly = errors.ErrUnsupported

func joinUnmounted(cgroup.Limits, int, []byte) error { return errors.ErrUnsupported }
