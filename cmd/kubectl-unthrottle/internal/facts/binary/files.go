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
	m.headers = maxHeaders
	var remembered tally
	above := newHidden()
	for i := len(m.layers) - 1; i >= 0; i-- {
		var nowGone, nowOpaque []string
		err := m.walk(i, func(h *tar.Header, _ io.Reader) (bool, error) {
			name := clean(h.Name)
			dir, base := path.Split(name)
			if base == ".wh..wh..opq" {
				nowOpaque = append(nowOpaque, path.Clean(dir))
				return false, above.tally.add(len(name))
			}
			if of, ok := strings.CutPrefix(base, ".wh."); ok {
				if of != "" {
					nowGone = append(nowGone, dir+of)
				}
				return false, above.tally.add(len(name))
			}
			f := file{layer: i, kind: other}
			switch {
			case h.Typeflag == tar.TypeSymlink:
				f.kind, f.link = symlink, strings.Clone(h.Linkname) // it may be a part of a long record
			case h.Typeflag == tar.TypeLink:
				f.kind, f.link = hardlink, clean(h.Linkname)
			case h.Typeflag == tar.TypeReg && !sparse(h):
				f.kind = regular
			}
			if plain := f.kind == other || f.kind == regular && h.Mode&0o111 == 0; plain && i == 0 {
				return false, nil // there is nothing below it to hide
			}
			if upper, shown := m.files[name]; shown && upper.layer != i || above.has(name) {
				return false, nil
			}
			if err := remembered.add(len(name) + len(f.link)); err != nil { // also for one that is there twice: no layer needs that often
				return true, err
			}
			m.files[name] = f
			return false, nil
		})
		if err != nil {
			return err
		}
		for _, name := range nowGone {
			if err := above.add(name, gone); err != nil {
				return err
			}
		}
		for _, name := range nowOpaque {
			if err := above.add(name, opaque); err != nil {
				return err
			}
		}
	}
	return nil
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
	r, err := unpack(until{m.ctx, b})
	if err != nil {
		return err
	}
	defer r.Close()
	tr := tar.NewReader(&budget{until{m.ctx, r}, &m.left})
	for {
		before := m.left
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.headers -= min(before-m.left, maxHeader); m.headers < 0 {
			return errHeaders
		}
		if len(h.Name) > maxName || len(h.Linkname) > maxName {
			continue
		}
		if done, err := see(h, tr); done || err != nil {
			return err
		}
		if !sparse(h) { // the holes of one that is would be read as zeros, without an end
			if _, err := io.Copy(io.Discard, tr); err != nil { // so that what Next reads is headers
				return err
			}
		}
	}
}

// lookup follows a path through the image's links to a file.
func (m *Image) lookup(name string) (real string, f file, ok bool) {
	if len(name) > maxName {
		return "", file{}, false
	}
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
