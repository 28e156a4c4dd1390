//go:build !linux

package h2

import "net"

// An attempt writes nothing: all is left to a goroutine, which may wait.
type attempt struct{}

func (*attempt) of(net.Conn) {}

func (*attempt) write([]byte) int { return 0 }
