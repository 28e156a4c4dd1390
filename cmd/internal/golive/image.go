package golive

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Bounds on what is read for one file. Real programs need a small part of them.
const (
	maxHeaders = 4 << 20   // bytes of ELF headers and section names
	maxRead    = 512 << 20 // bytes of a file's content, all passes together
	maxScan    = 256 << 20 // bytes of a process's memory in one search
	maxLoads   = 64        // segments
	chunk      = 256 << 10 // bytes in memory at a time
)

var errBudget = errors.New("its tables are larger than any program's")

// A budget limits how many bytes may be read.
type budget struct {
	r    io.ReaderAt
	left int64
}

func (b *budget) ReadAt(buf []byte, off int64) (int, error) {
	if b.left -= int64(len(buf)); b.left < 0 {
		return 0, errBudget
	}
	return b.r.ReadAt(buf, off)
}

// An image is a program's or library's file. It reads by the addresses that the file gives, before it is moved to where
// it is loaded.
type image struct {
	file     io.ReaderAt
	order    binary.ByteOrder
	word     int // bytes of a pointer
	machine  elf.Machine
	fixed    bool // it is loaded at its own addresses
	loads    []elf.ProgHeader
	sections []elf.SectionHeader
	version  string // of Go, "" when it can't be read
}

// readImage reads the headers of an ELF file. It reads no content and keeps little, whatever the file says.
func readImage(file io.ReaderAt) (*image, error) {
	f, err := elf.NewFile(&budget{file, maxHeaders})
	if err != nil {
		return nil, fmt.Errorf("reading ELF headers: %w", err)
	}
	m := &image{file: &budget{file, maxRead}, order: f.ByteOrder, word: 8, machine: f.Machine, fixed: f.Type == elf.ET_EXEC}
	if f.Class == elf.ELFCLASS32 {
		m.word = 4
	}
	for _, p := range f.Progs {
		end := p.Vaddr + p.Memsz
		if p.Type == elf.PT_LOAD && len(m.loads) < maxLoads && p.Filesz <= p.Memsz && end >= p.Vaddr && end < math.MaxInt64 && p.Off < math.MaxInt64/2 {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	for _, s := range f.Sections {
		if end := s.Addr + s.Size; end >= s.Addr && end < math.MaxInt64 && s.Type != elf.SHT_NOBITS {
			m.sections = append(m.sections, s.SectionHeader)
		}
	}
	m.version = m.goVersion()
	return m, nil
}

// ReadAt reads what is loaded at addr from the file.
func (m *image) ReadAt(buf []byte, addr int64) (int, error) {
	for _, p := range m.loads {
		if off := uint64(addr) - p.Vaddr; addr >= 0 && uint64(addr) >= p.Vaddr && off < p.Filesz {
			short := uint64(len(buf)) > p.Filesz-off
			if short {
				buf = buf[:p.Filesz-off]
			}
			n, err := m.file.ReadAt(buf, int64(p.Off+off))
			if err == nil && short {
				err = io.EOF
			}
			return n, err
		}
	}
	return 0, io.EOF
}

// section returns the section of that name.
func (m *image) section(name string) (elf.SectionHeader, bool) {
	for _, s := range m.sections {
		if s.Name == name {
			return s, true
		}
	}
	return elf.SectionHeader{}, false
}

// isGo reports whether the sections are those of a Go program. Without section headers only a search can tell.
func (m *image) isGo() bool {
	for _, s := range m.sections {
		switch s.Name {
		case ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid":
			return true
		}
	}
	return false
}

// inCode reports whether addr is in an executable segment.
func (m *image) inCode(addr uint64) bool {
	for _, p := range m.loads {
		if p.Flags&elf.PF_X != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// inData reports whether addr is in a writable segment, where variables are.
func (m *image) inData(addr uint64) bool {
	for _, p := range m.loads {
		if p.Flags&elf.PF_W != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// uint reads a pointer-sized number.
func (m *image) uint(b []byte) uint64 {
	if m.word == 4 {
		return uint64(m.order.Uint32(b))
	}
	return m.order.Uint64(b)
}

// goVersion returns the Go version such as "go1.26.8", "" when there is none. The section .go.buildinfo is
//
//	"\xff Go buildinf:" · size of a pointer · flags · 16 bytes · length · version · length · modules
//
// since Go 1.18 (flag 2), with the lengths as varints.
func (m *image) goVersion() string {
	s, ok := m.section(".go.buildinfo")
	if !ok {
		return ""
	}
	buf := make([]byte, 256)
	n, _ := m.ReadAt(buf, int64(s.Addr))
	buf = buf[:n]
	if n < 34 || !bytes.HasPrefix(buf, []byte("\xff Go buildinf:")) || buf[15]&2 == 0 {
		return ""
	}
	size, n := binary.Uvarint(buf[32:])
	if n <= 0 || size > uint64(len(buf)-32-n) {
		return ""
	}
	return string(buf[32+n:][:size])
}

// symbols looks for names in .symtab. Absent ones have no entry in what it returns.
func (m *image) symbols(names ...string) map[string]uint64 {
	table, ok := m.section(".symtab")
	if !ok {
		return nil
	}
	text, ok := m.section(".strtab")
	if !ok || text.Type != elf.SHT_STRTAB {
		return nil
	}
	at := findNames(m.file, text.Offset, text.Offset+text.Size, names)
	found := map[string]uint64{}
	// struct Elf64_Sym { u32 name; u8 info, other; u16 shndx; u64 value, size }; in Elf32_Sym value is at 4.
	entry, value := 24, 8
	if m.word == 4 {
		entry, value = 16, 4
	}
	scan(m.file, table.Offset, table.Offset+table.Size, entry-1, func(from uint64, piece []byte) bool {
		skip := int((uint64(entry) - (from-table.Offset)%uint64(entry)) % uint64(entry))
		for i := skip; i+entry <= len(piece); i += entry {
			if name, ok := at[uint64(m.order.Uint32(piece[i:]))]; ok {
				if v := m.uint(piece[i+value:]); v != 0 {
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
		case errors.Is(err, io.EOF) || errors.Is(err, errBudget):
			return // of a file the end; of memory that the process is gone
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
