package load

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestUnreachable: what a dial says shows why nothing can be sent.
func TestUnreachable(t *testing.T) {
	dial := func(err error) error {
		return fmt.Errorf("sending: %w", &net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for _, c := range []struct {
		err             error
		refused, noHost bool
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), true, false},
		{dial(os.NewSyscallError("connect", syscall.ENOENT)), true, false},
		{dial(&net.DNSError{Err: "no such host", IsNotFound: true}), false, true},
		{dial(&net.DNSError{Err: "timeout", IsTimeout: true}), false, false},
		{ErrTimeout, false, false},
	} {
		if refused(c.err) != c.refused || noHost(c.err) != c.noHost {
			t.Errorf("%v: refused %v, no host %v", c.err, refused(c.err), noHost(c.err))
		}
	}
	r := recorder{res: Result{Requests: 3, NoHost: 3}}
	if got := r.hopeless(); got != NoHost {
		t.Errorf("%q, want %q", got, NoHost)
	}
}
