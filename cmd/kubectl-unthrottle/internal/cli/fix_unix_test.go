//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// zeros never end. They count what is read of them, and end where no reader should get.
type zeros struct {
	t    *testing.T
	read int
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.read += len(p); z.read > 300<<20 {
		z.t.Errorf("%d MiB were read", z.read>>20)
		return 0, io.ErrUnexpectedEOF
	}
	clear(p)
	return len(p), nil
}

// TestFixStream: fix --stdout reads its one file once, as lint does. It waits for no pipe that it finds, opens no device, and has an end.
func TestFixStream(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe.yaml"), filepath.Join(dir, "link.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	run := func(in io.Reader, args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		done := make(chan int, 1)
		go func() { done <- Main(t.Context(), args, func(string) string { return "" }, in, &out, &errs) }()
		select {
		case code = <-done:
			return code, out.String(), errs.String()
		case <-time.After(time.Minute):
			t.Fatalf("%q does not end", args)
			return 0, "", ""
		}
	}
	for _, c := range []struct {
		name, want string
		in         io.Reader
	}{
		{pipe, "it is a named pipe", nil},
		{link, "it is a device", nil},
		{"-", "more than 256 MiB", &zeros{t: t}},
	} {
		if code, out, errs := run(c.in, "fix", "--stdout", c.name); code != 1 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %d bytes, %s", c.name, code, len(out), errs)
		}
	}
	if code, _, errs := run(&zeros{t: t}, "fix", "-"); code != 1 {
		t.Errorf("%d, %s", code, errs)
	}
	// A shell's <(helm template chart) can be read once only.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	io.WriteString(w, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: app, env: [{name: GOMAXPROCS, value: \"64\"}], resources: {limits: {cpu: \"2\"}}}]}\n")
	w.Close()
	if code, out, errs := run(nil, "fix", "--stdout", "/dev/fd/"+strconv.Itoa(int(r.Fd()))); code != 0 || !strings.Contains(out, "limits.cpu") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
}

// TestNamedPipes: a pipe may be named by a flag, as by a shell's <(…), and a signal ends the waiting for it.
func TestNamedPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for _, flag := range []string{"--baseline", "--inventory"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		done := make(chan int, 1)
		go func() {
			done <- Main(ctx, []string{"lint", flag, pipe, "-"}, func(string) string { return "" }, strings.NewReader(""), io.Discard, io.Discard)
		}()
		select {
		case code := <-done:
			if code == 0 {
				t.Errorf("%s: nothing was read, and that is fine", flag)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s waits for ever", flag)
		}
		cancel()
	}
}
