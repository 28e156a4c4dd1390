package binary

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Limits on what an image may cost. Real ones stay far below them; what goes beyond is an error.
const (
	maxDocument = 8 << 20  // of a JSON document: registries take manifests of 4 MiB
	maxListed   = 10_000   // images in a file, or manifests of an index: real ones have tens
	maxLayers   = 1000     // of an image: container runtimes mount 127, builders make a few hundred
	maxBlobs    = 100_000  // files of a tarball that holds an image
	maxFiles    = 500_000  // of an image that are remembered: large ones have some 100,000
	maxNames    = 64 << 20 // bytes of the names of what is remembered: 500,000 of 130, and real ones have 60 to 80
	maxName     = 4096     // of a file: longer ones can't be opened on Linux
	maxHeaders  = 2 << 30  // of a tarball or an image's layers, without the files' contents: 1.4 million files with extended headers
	maxHeader   = 4 << 20  // of a file, as counted: package tar takes 1 MiB each of records, name, link and holes
	maxProgram  = 1 << 30  // of a program that is read
	maxBytes    = 64 << 30 // of all that is unpacked for one image
	maxTarball  = 32 << 30 // of a compressed tarball, when it is unpacked: the largest images, with models in them, have 10 to 20 GB
	maxScript   = 64 << 10
	maxPath     = 100 // directories of PATH

	// Other users' programs use the same file system. A gigabyte of it is left to them, or a quarter of a small one.
	leftFree  = 1 << 30
	leftShare = 4
)

var (
	errTooLarge = errors.New("larger than any image that is read here")
	errHeaders  = tooLarge("its tar headers have more than %d GiB", maxHeaders>>30)
)

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errTooLarge, fmt.Sprintf(format, args...))
}

// A tally counts what is remembered of an image.
type tally struct{ number, bytes int }

// add counts one more, with that many bytes of names.
func (t *tally) add(bytes int) error {
	if t.number++; t.number > maxFiles {
		return tooLarge("more than %d files", maxFiles)
	}
	return t.grow(bytes)
}

func (t *tally) grow(bytes int) error {
	if t.bytes += bytes; t.bytes > maxNames {
		return tooLarge("the names of its files have more than %d MiB", maxNames>>20)
	}
	return nil
}

// An until is a stream that ends with its context.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// A budget ends a stream with an error when too much came out of it.
type budget struct {
	r    io.Reader
	left *int64
}

func (b *budget) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, tooLarge("it unpacks to more than %d GiB", maxBytes>>30)
	}
	n, err := b.r.Read(p)
	*b.left -= int64(n)
	return n, err
}
