package procs

import (
	"io"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// readArea reads a part of a process's memory that the kernel shows as a file, without keeping its text.
func readArea[T any](root, path string, parse func(io.Reader) (T, error)) (v T, err error) {
	f, err := foreign.OpenFile(root, path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	return parse(f)
}
