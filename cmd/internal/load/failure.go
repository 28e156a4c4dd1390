package load

import (
	"errors"
	"net"
	"os"
	"strings"
)

// Why a request has no complete answer, where that is our own doing.
var (
	ErrTimeout    = errors.New("timeout")
	ErrUnfinished = errors.New("unfinished at the end")
)

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
