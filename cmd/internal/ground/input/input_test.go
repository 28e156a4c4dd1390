package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestReadAll(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		name  string
		stdin io.Reader
		most  int64
		err   string
	}{
		"file":            {file, nil, 500_000, ""},
		"too large":       {file, nil, 499_999, "has more than 0 MiB"},
		"endless":         {"/dev/zero", nil, 2 << 20, "/dev/zero has more than 2 MiB"},
		"stdin":           {"-", bytes.NewReader(data), 500_000, ""},
		"stdin, in parts": {"-", iotest.HalfReader(bytes.NewReader(data)), 500_000, ""},
		"broken":          {"-", iotest.TimeoutReader(bytes.NewReader(data)), 500_000, "timeout"},
		"missing":         {file + "s", nil, 1, "no such file"},
		"a directory":     {dir, nil, 1, "is a directory"},
	} {
		got, err := ReadAll(ctx, c.name, c.stdin, c.most)
		switch {
		case c.err == "" && (err != nil || !bytes.Equal(got, data)):
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", name, err, c.err)
		}
	}
}

// TestEnds: reading what has no writer ends with the context.
func TestEnds(t *testing.T) {
	r, w := io.Pipe() // a terminal without input
	defer w.Close()
	for name, c := range map[string]struct {
		name  string
		stdin io.Reader
	}{"a FIFO": {fifo(t), nil}, "stdin": {"-", r}} {
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, end)
		done := make(chan error, 1)
		go func() {
			_, err := ReadAll(ctx, c.name, c.stdin, 1)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it does not end", name)
		}
	}
}

// TestFIFO: a FIFO with a writer is read, as a shell's <(…) is.
func TestFIFO(t *testing.T) {
	name := fifo(t)
	go os.WriteFile(name, []byte("a trace"), 0o600)
	if got, err := ReadAll(t.Context(), name, nil, 100); err != nil || string(got) != "a trace" {
		t.Errorf("%q, %v", got, err)
	}
}
