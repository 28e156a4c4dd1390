package golive

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
)

// Bounds on what is read of a process. Real programs need a small part of them.
const (
	maxScan = 256 << 20 // bytes of a process's memory in one search
	chunk   = 256 << 10 // bytes in memory at a time
)

// An image is a program's or library's file. It reads by the addresses that the file gives, before it is moved to where
// it is loaded.
type image struct {
	*executable.File
	version string // of Go, "" when it can't be read
}

// readImage reads the headers of an ELF file of that size, and keeps little, regardless of what the file says.
func readImage(file io.ReaderAt, size int64) (*image, error) {
	f, err := executable.Read(file, size)
	if err != nil {
		return nil, err
	}
	return &image{File: f, version: f.Version()}, nil
}

// on is the image, read from the same file opened again.
func (m *image) on(file io.ReaderAt) *image { return &image{File: m.File.On(file), version: m.version} }

// isGo reports whether the sections are those of a Go program. Without section headers only a search can show that.
func (m *image) isGo() bool {
	for _, name := range []string{executable.BuildInfoSection, executable.FunctionsSection, executable.MovedFunctions, executable.BuildIDSection} {
		if _, ok := m.Section(name); ok {
			return true
		}
	}
	return false
}

// inCode reports whether addr is in an executable segment.
func (m *image) inCode(addr uint64) bool {
	for _, p := range m.Loads {
		if p.Flags&elf.PF_X != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// inData reports whether addr is in a writable segment, where variables are.
func (m *image) inData(addr uint64) bool {
	for _, p := range m.Loads {
		if p.Flags&elf.PF_W != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// symbols looks for names in .symtab. Absent ones have no entry in what it returns.
func (m *image) symbols(names ...string) map[string]uint64 {
	table, ok := m.Section(executable.SymbolsSection)
	if !ok {
		return nil
	}
	text, ok := m.Section(executable.StringsSection)
	if !ok || text.Type != elf.SHT_STRTAB {
		return nil
	}
	at := findNames(m.Content(), text.Offset, text.Offset+text.Size, names)
	found := map[string]uint64{}
	// struct Elf64_Sym { u32 name; u8 info, other; u16 shndx; u64 value, size }; in Elf32_Sym value is at 4.
	entry, value := 24, 8
	if m.Word == 4 {
		entry, value = 16, 4
	}
	scan(m.Content(), table.Offset, table.Offset+table.Size, entry-1, func(from uint64, piece []byte) bool {
		skip := int((uint64(entry) - (from-table.Offset)%uint64(entry)) % uint64(entry))
		for i := skip; i+entry <= len(piece); i += entry {
			if name, ok := at[uint64(m.Order.Uint32(piece[i:]))]; ok {
				if v := m.Uint(piece[i+value:]); v != 0 {
					found[name] = v
				}
			}
		}
		return len(found) == len(at)
	})
	return found
}

// findNames looks for names in a table of names, each ended by a zero byte, and returns them by offset.
func findNames(r io.ReaderAt, from, to uint64, names []string) map[uint64]string {
	at, seen := map[uint64]string{}, map[string]bool{}
	scan(r, from, to, longest(names)+1, func(start uint64, piece []byte) bool {
		for _, name := range names {
			if seen[name] {
				continue
			}
			if i := bytes.Index(piece, []byte("\x00"+name+"\x00")); i >= 0 {
				at[start-from+uint64(i)+1] = name
				seen[name] = true
			}
		}
		return len(seen) == len(names)
	})
	return at
}

func longest(names []string) int {
	n := 0
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}

// scan shows the bytes of a range in pieces that overlap, until visit says that it has seen enough. Parts that can't be
// read, such as holes in memory, are skipped.
func scan(r io.ReaderAt, from, to uint64, overlap int, visit func(at uint64, piece []byte) (done bool)) {
	if to < from || to > math.MaxInt64 {
		return
	}
	buf := make([]byte, min(chunk, to-from))
	for at := from; at < to; {
		want := min(uint64(len(buf)), to-at)
		n, err := r.ReadAt(buf[:want], int64(at))
		if n > 0 && visit(at, buf[:n]) {
			return
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, executable.ErrBudget):
			return // for a file the end; for memory, the process is gone
		case uint64(n) < want:
			at = (at + uint64(n) + pageSize) &^ (pageSize - 1)
		case at+want == to:
			return
		default:
			at += want - min(uint64(overlap), want-1)
		}
	}
}

// pageSize is the least page: what can't be read begins at a multiple of it.
const pageSize = 4096

// minor returns 26 for "go1.26.8", and 0 for anything but a release: between releases a layout may be of either.
func minor(version string) int {
	rest, ok := strings.CutPrefix(version, "go1.")
	if !ok {
		return 0
	}
	n := 0
	for i := 0; i < len(rest) && i < 3 && rest[i] >= '0' && rest[i] <= '9'; i++ {
		n = n*10 + int(rest[i]-'0')
	}
	return n
}
