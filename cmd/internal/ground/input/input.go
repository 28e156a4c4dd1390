// Package input answers: how do we read a file that the user named? In go its name, - being stdin, and a context; out comes what it holds,
// and an error soon after the context has ended, regardless of the kind of file. Opening a FIFO without a writer blocks, and so does
// reading a pipe or a terminal; both can be what the user wants, such as a trace of <(curl …), but a signal has to end them. It does not
// read what belongs to other processes, where nothing may block.
package input

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Open opens a file, or stdin for -. What it returns fails when ctx ends.
func Open(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "-" {
		return &reader{ctx: ctx, from: stdin}, nil
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		if ctx.Err() != nil && err == nil {
			f.Close() // the caller no longer waits for it
		}
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return &reader{ctx: ctx, from: o.file, file: o.file}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ReadAll reads a file, or stdin for -, of no more than most bytes.
func ReadAll(ctx context.Context, name string, stdin io.Reader, most int64) ([]byte, error) {
	f, err := Open(ctx, name, stdin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%s has more than %d MiB", name, most>>20)
	}
	return data, nil
}

// A reader reads in a goroutine of its own, which is left behind if it blocks when the context ends: the command ends then, too.
type reader struct {
	ctx  context.Context
	from io.Reader
	file io.Closer // nil: it stays open
	buf  []byte
}

// chunk is how much is read at once.
const chunk = 64 << 10

type result struct {
	n   int
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil || len(p) == 0 {
		return 0, err
	}
	if r.buf == nil {
		r.buf = make([]byte, chunk)
	}
	done, buf := make(chan result, 1), r.buf[:min(len(p), chunk)]
	go func() {
		n, err := r.from.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err() // and what comes now is not looked at
	}
}

func (r *reader) Close() error {
	if r.file == nil || r.ctx.Err() != nil { // a file that is being read can't be closed without waiting for that
		return nil
	}
	return r.file.Close()
}
