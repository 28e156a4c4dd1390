package executable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"runtime/debug"
)

// ErrNotGo means that the file has no build information, so that it isn't a Go program, or is one whose information was removed.
var ErrNotGo = errors.New("not a Go program")

// Bounds on build information.
const (
	maxVersion = 1 << 10  // bytes of Go's version; with all its experiments it has some 100
	maxModules = 1 << 20  // bytes of the list of modules; a program of 400 modules has 45 KB
	maxSearch  = 16 << 20 // bytes of a data segment in which it is looked for; it is near its beginning
)

// infoMagic begins the build information. It is, since Go 1.18 (flag 2),
//
//	"\xff Go buildinf:" · size of a pointer · flags · 16 bytes · length · version · length · modules
//
// with the lengths as varints. Before that two pointers follow the flags, to strings that are a pointer and a length each, in the byte
// order that flag 1 gives.
const infoMagic = "\xff Go buildinf:"

const infoHeader = 32

// BuildInfo reads what Go's linker wrote about the program's modules and settings. It is debug/buildinfo's Read, with bounds.
func (f *File) BuildInfo() (*debug.BuildInfo, error) {
	version, modules, err := f.rawInfo()
	if err != nil {
		return nil, err
	}
	info, err := debug.ParseBuildInfo(modules)
	if err != nil {
		return nil, ErrNotGo
	}
	info.GoVersion = version
	return info, nil
}

// Version returns the version of Go such as "go1.26.8" where build information in the current form is in a section of its own, ""
// otherwise.
func (f *File) Version() string {
	s, ok := f.Section(BuildInfoSection)
	if !ok {
		return ""
	}
	buf := make([]byte, 256)
	n, _ := f.ReadAt(buf, int64(s.Addr))
	buf = buf[:n]
	if n < infoHeader+2 || !bytes.HasPrefix(buf, []byte(infoMagic)) || buf[15]&2 == 0 {
		return ""
	}
	size, n := binary.Uvarint(buf[infoHeader:])
	if n <= 0 || size > uint64(len(buf)-infoHeader-n) {
		return ""
	}
	return string(buf[infoHeader+n:][:size])
}

func (f *File) rawInfo() (version, modules string, err error) {
	addr, err := f.findInfo()
	if err != nil {
		return "", "", err
	}
	head := make([]byte, infoHeader)
	if n, _ := f.ReadAt(head, int64(addr)); n < len(head) {
		return "", "", ErrNotGo
	}
	if head[15]&2 != 0 {
		at := addr + infoHeader
		if version, at, err = f.inline(at, maxVersion, "version of Go"); err != nil {
			return "", "", err
		}
		modules, _, err = f.inline(at, maxModules, "list of modules")
	} else {
		word, order := int(head[14]), binary.ByteOrder(binary.LittleEndian)
		if head[15]&1 != 0 {
			order = binary.BigEndian
		}
		if word != 4 && word != 8 {
			return "", "", ErrNotGo
		}
		if version, err = f.pointed(order, word, head[16:], maxVersion, "version of Go"); err != nil {
			return "", "", err
		}
		modules, err = f.pointed(order, word, head[16+word:], maxModules, "list of modules")
	}
	if err != nil {
		return "", "", err
	}
	if version == "" {
		return "", "", ErrNotGo
	}
	if len(modules) < 33 || modules[len(modules)-17] != '\n' {
		return version, "", nil
	}
	return version, modules[16 : len(modules)-16], nil // without the marks at its ends
}

// findInfo looks for the beginning in its section, else in the first segment of data. It is at a multiple of 16.
func (f *File) findInfo() (uint64, error) {
	const align = 16
	var from, size uint64
	if s, ok := f.Section(BuildInfoSection); ok {
		from, size = s.Addr, s.Size
	} else {
		for _, p := range f.Loads {
			if p.Flags&(elf.PF_X|elf.PF_W) == elf.PF_W {
				from, size = p.Vaddr, min(p.Filesz, maxSearch)
				break
			}
		}
	}
	to := from + size
	from = (from + align - 1) &^ (align - 1)
	buf := make([]byte, min(64<<10, size))
	for from < to {
		piece := buf[:min(uint64(len(buf)), to-from)]
		n, err := f.ReadAt(piece, int64(from))
		for i := 0; i+infoHeader <= n; i += align {
			if string(piece[i:i+len(infoMagic)]) == infoMagic {
				return from + uint64(i), nil
			}
		}
		if err != nil || n < len(piece) || n < infoHeader {
			break
		}
		from += uint64(n) - infoHeader + align
		from = from &^ (align - 1)
	}
	return 0, ErrNotGo
}

// inline reads a string that begins with its length.
func (f *File) inline(addr uint64, most uint64, what string) (string, uint64, error) {
	buf := make([]byte, binary.MaxVarintLen64)
	n, _ := f.ReadAt(buf, int64(addr))
	size, n := binary.Uvarint(buf[:n])
	if n <= 0 {
		return "", 0, ErrNotGo
	}
	text, err := f.text(addr+uint64(n), size, most, what)
	return text, addr + uint64(n) + size, err
}

// pointed reads a string to whose pointer and length a pointer leads.
func (f *File) pointed(order binary.ByteOrder, word int, pointer []byte, most uint64, what string) (string, error) {
	number := func(b []byte) uint64 {
		if word == 4 {
			return uint64(order.Uint32(b))
		}
		return order.Uint64(b)
	}
	buf := make([]byte, 2*word)
	if n, _ := f.ReadAt(buf, int64(number(pointer))); n < len(buf) {
		return "", nil
	}
	return f.text(number(buf), number(buf[word:]), most, what)
}

func (f *File) text(addr, size, most uint64, what string) (string, error) {
	if size > most {
		return "", odd("its %s has %d bytes", what, size)
	}
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, int64(addr))
	if n < len(buf) {
		if errors.Is(err, ErrBudget) {
			return "", err
		}
		return "", ErrNotGo
	}
	return string(buf), nil
}

var _ io.ReaderAt = (*File)(nil)
