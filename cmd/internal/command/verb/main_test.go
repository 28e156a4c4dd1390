package verb

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"runtime"
	"syscall"
	"testing"
	"weak"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestForgotten: nothing of a command is kept when it has run.
func TestForgotten(t *testing.T) {
	run := func() (weak.Pointer[cobra.Command], weak.Pointer[pflag.Flag]) {
		verb := New("verb", "help\n{{flags}}", func(l *Flags) func(context.Context, []string) error {
			l.Words["color"] = []string{"never", "always"}
			l.Section("").String("color", "", "when")
			return func(context.Context, []string) error { return nil }
		})
		root := NewRoot("unthrottle", "help", verb)
		if code := Run(t.Context(), IO{Args: []string{"verb", "--color=never"}, Out: io.Discard, Err: io.Discard}, root); code != Done {
			t.Fatal(code)
		}
		return weak.Make(root), weak.Make(verb.Flags().Lookup("color"))
	}
	root, flag := run()
	for range 3 {
		runtime.GC()
	}
	if root.Value() != nil || flag.Value() != nil {
		t.Errorf("kept are the command, %v, and its flag, %v", root.Value() != nil, flag.Value() != nil)
	}
}

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
