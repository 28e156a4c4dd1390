package verb

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"testing"
)

// TestReaderGone: what can't be written to our output is not what can't be written to a server.
func TestReaderGone(t *testing.T) {
	write := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	server := &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	for want, errs := range map[bool][]error{
		true:  {syscall.EPIPE, fmt.Errorf("writing the result: %w", write)},
		false: {fs.ErrNotExist, server, fmt.Errorf("asking: %w", &url.Error{Op: "Post", URL: "http://localhost", Err: server})},
	} {
		for _, err := range errs {
			if readerGone(err) != want {
				t.Errorf("%v: %v", err, !want)
			}
		}
	}
}
