//go:build !linux

package heartbeat

import "io"

// Beat says that there is no heartbeat here.
func Beat(io.Reader, io.Writer) error { return ErrNotSupported }
