package binary

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// A file of an image, as its layers together show it.
type file struct {
	layer int
	kind  kind
	link  string // where a link leads to
}

type kind uint8

const (
	regular kind = iota
	symlink
	hardlink // to a file of the same layer
	other    // it hides what is below it
)

// list finds out which files the layers show: the upper ones first, because they hide what is in the lower ones.
func (m *Image) list() error {
	m.files = map[string]file{}
	gone := map[string]bool{}   // with all that is below them
	opaque := map[string]bool{} // directories that show nothing of lower layers
	for i := len(m.layers) - 1; i >= 0; i-- {
		var nowGone, nowOpaque []string
		mine := map[string]bool{}
		err := m.walk(i, func(h *tar.Header, _ io.Reader) (bool, error) {
			name := clean(h.Name)
			dir, base := path.Split(name)
			switch {
			case base == ".wh..wh..opq":
				nowOpaque = append(nowOpaque, path.Clean(dir))
				return len(nowOpaque) > maxFiles, nil
			case strings.HasPrefix(base, ".wh."):
				nowGone = append(nowGone, dir+strings.TrimPrefix(base, ".wh."))
				return len(nowGone) > maxFiles, nil
			}
			f := file{layer: i, kind: other}
			switch {
			case h.Typeflag == tar.TypeSymlink:
				f.kind, f.link = symlink, h.Linkname
			case h.Typeflag == tar.TypeLink:
				f.kind, f.link = hardlink, clean(h.Linkname)
			case h.Typeflag == tar.TypeReg && !sparse(h):
				f.kind = regular
			}
			if plain := f.kind == other || f.kind == regular && h.Mode&0o111 == 0; plain && i == 0 {
				return false, nil // there is nothing below it to hide
			}
			if _, shown := m.files[name]; shown && !mine[name] || hidden(name, gone, opaque) {
				return false, nil
			}
			if len(m.files) >= maxFiles {
				return true, errTooLarge
			}
			m.files[name], mine[name] = f, true
			return false, nil
		})
		if err != nil {
			return err
		}
		for _, name := range nowGone {
			gone[name] = true
		}
		for _, name := range nowOpaque {
			opaque[name] = true
		}
	}
	return nil
}

// hidden reports whether an upper layer has taken a file away.
func hidden(name string, gone, opaque map[string]bool) bool {
	if gone[name] {
		return true
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if gone[dir] || opaque[dir] {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}

// walk calls see for each file of a layer, until it says that it is done.
func (m *Image) walk(layer int, see func(*tar.Header, io.Reader) (done bool, err error)) error {
	err := m.walkBlob(m.layers[layer], see)
	if err != nil {
		return fmt.Errorf("layer %d: %w", layer+1, err)
	}
	return nil
}

func (m *Image) walkBlob(blob string, see func(*tar.Header, io.Reader) (done bool, err error)) error {
	b, err := m.blobs.open(blob)
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := unpack(b)
	if err != nil {
		return err
	}
	defer r.Close()
	tr := tar.NewReader(&budget{r, &m.left})
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(h.Name) > maxName || len(h.Linkname) > maxName {
			continue
		}
		if done, err := see(h, tr); done || err != nil {
			return err
		}
	}
}

// A budget ends a stream with an error when too much came out of it.
type budget struct {
	r    io.Reader
	left *int64
}

func (b *budget) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p)
	*b.left -= int64(n)
	return n, err
}

// lookup follows a path through the image's links to a file.
func (m *Image) lookup(name string) (real string, f file, ok bool) {
	rest := strings.Split(clean(name)[1:], "/")
	at := "/"
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		at = path.Join(at, part) // ".." of the root is the root
		f, ok = m.files[at]
		if !ok || f.kind != symlink {
			continue
		}
		if links++; links > 40 || len(rest) > maxName {
			return "", file{}, false
		}
		dir := path.Dir(at)
		if path.IsAbs(f.link) {
			dir = "/"
		}
		at, ok = dir, false
		rest = append(strings.Split(f.link, "/"), rest...)
	}
	return at, f, ok && (f.kind == regular || f.kind == hardlink)
}
