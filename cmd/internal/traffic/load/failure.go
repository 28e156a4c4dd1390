package load

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// Why a request has no complete answer, where that is our own doing.
var (
	ErrTimeout    = errors.New("timeout")
	ErrUnfinished = errors.New("unfinished at the end")
)

// exhausted reports whether a request failed because this machine had nothing left to send it with: no descriptor, no port.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errorText names a cause without what differs each time, so that equal causes can be counted: the port that the system
// chose for our end of a connection.
func errorText(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err.Error()
	}
	text := op.Op
	if op.Net != "" {
		text += " " + op.Net
	}
	if op.Addr != nil {
		text += " " + op.Addr.String()
	}
	cause := op.Err
	var sys *os.SyscallError
	if errors.As(cause, &sys) && strings.HasPrefix(sys.Syscall, "connect") {
		cause = sys
	}
	return text + ": " + cause.Error()
}
