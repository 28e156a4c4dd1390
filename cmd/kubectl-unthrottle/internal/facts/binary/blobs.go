package binary

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/klauspost/compress/zstd"
)

// blobs are the files that an image is made of.
type blobs interface {
	open(name string) (io.ReadCloser, error)
	Close() error
}

func openBlobs(ctx context.Context, file string) (blobs, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(file)
		if err != nil {
			return nil, err
		}
		return directory{root}, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	t, err := openTarball(ctx, f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading image %s: %w", file, err)
	}
	return t, nil
}

// A directory is an OCI layout. Nothing outside of it can be opened, no matter what links it has.
type directory struct{ root *os.Root }

func (d directory) Close() error { return d.root.Close() }

func (d directory) open(name string) (io.ReadCloser, error) {
	name = path.Clean("/" + name)[1:]
	info, err := d.root.Stat(name) // before it is opened: a pipe would wait forever
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return d.root.Open(name)
}

// A tarball holds the files of an image one after the other; its map says where.
type tarball struct {
	f     *os.File
	where map[string]span
}

type span struct{ at, size int64 }

func (t *tarball) Close() error { return t.f.Close() }

func (t *tarball) open(name string) (io.ReadCloser, error) {
	s, ok := t.where[clean(name)]
	if !ok {
		return nil, fmt.Errorf("%.80q: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(t.f, s.at, s.size)), nil
}

// openTarball lists a tarball. One that is compressed is unpacked into a file without a name first. On success it owns f.
func openTarball(ctx context.Context, f *os.File) (*tarball, error) {
	r, err := unpack(until{ctx, f})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if !r.plain {
		whole, err := temporary()
		if err != nil {
			return nil, err
		}
		if err := fill(ctx, whole, r, maxTarball); err != nil {
			whole.Close()
			return nil, err
		}
		f.Close()
		f = whole
	}
	t := &tarball{f: f, where: map[string]span{}}
	if err := t.list(ctx); err != nil {
		if !r.plain {
			f.Close()
		}
		return nil, err
	}
	return t, nil
}

func (t *tarball) list(ctx context.Context) error {
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	links := map[string]string{}
	var names tally
	tr := tar.NewReader(&headers{t.f, ctx, maxHeaders}) // which reads blocks, nothing ahead, and skips by seeking
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n > maxBlobs {
			return tooLarge("more than %d files are in it", maxBlobs)
		}
		if len(h.Name) > maxName || len(h.Linkname) > maxName {
			return tooLarge("a name of more than %d bytes", maxName)
		}
		if err := names.add(len(h.Name) + len(h.Linkname)); err != nil {
			return err
		}
		switch {
		case h.Typeflag == tar.TypeReg && !sparse(h):
			at, err := t.f.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			t.where[clean(h.Name)] = span{at, h.Size}
		case h.Typeflag == tar.TypeSymlink: // docker save once linked layers that are the same
			links[clean(h.Name)] = clean(path.Join(path.Dir(clean(h.Name)), h.Linkname))
		case h.Typeflag == tar.TypeLink:
			links[clean(h.Name)] = clean(h.Linkname)
		}
	}
	for name, to := range links {
		if s, ok := t.where[to]; ok {
			t.where[name] = s
		}
	}
	return nil
}

// headers are what is read of a tarball whose contents are skipped.
type headers struct {
	*os.File
	ctx  context.Context
	left int64
}

func (r *headers) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		return 0, errHeaders
	}
	n, err := r.File.Read(p)
	r.left -= int64(n)
	return n, err
}

func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if len(key) > 10 && key[:11] == "GNU.sparse." {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// clean is a name as the root's: no ".." leads out of it.
func clean(name string) string { return path.Clean("/" + name) }

// temporary is a file that no longer has a name.
func temporary() (*os.File, error) {
	f, err := os.CreateTemp("", "unthrottle-image-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fill writes a stream to a file, as long as it has at most that many bytes and its file system has room for them and for other programs'
// files.
func fill(ctx context.Context, f *os.File, r io.Reader, most int64) error {
	const step = 16 << 20
	r = until{ctx, r}
	leave := min(leftFree, room(f)/leftShare)
	for written := int64(0); ; {
		if room(f)-step < leave {
			return fmt.Errorf("no room to unpack it in %s after %d MiB", os.TempDir(), written>>20)
		}
		n, err := io.CopyN(f, r, min(step, most-written+1))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if written += n; written > most {
			return tooLarge("it unpacks to more than %d GiB", most>>30)
		}
	}
}

// An unpacked stream is what gzip or zstd had packed, or what was not packed.
type unpacked struct {
	io.Reader
	plain bool
	close func()
}

func (u unpacked) Close() { u.close() }

// unpack detects from the first bytes how a stream is packed: the media type is not always right.
func unpack(r io.Reader) (unpacked, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	switch head, _ := b.Peek(4); {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return unpacked{}, err
		}
		return unpacked{z, false, func() {}}, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(32<<20))
		if err != nil {
			return unpacked{}, err
		}
		return unpacked{z, false, z.Close}, nil
	}
	return unpacked{b, true, func() {}}, nil
}
