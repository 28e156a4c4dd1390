package golive

import (
	"bytes"
	"debug/elf"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
)

// A pclntab is the runtime's table of functions. Its header is, since Go 1.18,
//
//	u32 magic · 0 · 0 · least instruction size · pointer size · then words: functions, files, start of text (0 since Go
//	1.26), and the offsets of names, compilation units, files, pc tables and functions
//
// and the functions begin with pairs of u32: where a function starts, counted from runtime.text, and where its record is,
// counted from the first pair. A record begins with u32 start · i32 offset of its name.
type pclntab struct {
	m         *image
	addr      uint64 // of the header
	nfunc     uint64
	names     uint64 // offsets from addr
	namesEnd  uint64
	functions uint64
	size      uint64
}

const headerWords = 8

// parsePclntab reads a header at addr; size is what follows in the file at most.
func (m *image) parsePclntab(addr, size uint64) (t pclntab, ok bool) {
	buf := make([]byte, 8+headerWords*m.Word)
	if _, err := m.ReadAt(buf, int64(addr)); err != nil {
		return t, false
	}
	magic := m.Order.Uint32(buf)
	if magic != 0xfffffff0 && magic != 0xfffffff1 || buf[4] != 0 || buf[5] != 0 || int(buf[7]) != m.Word {
		return t, false
	}
	if q := buf[6]; q != 1 && q != 2 && q != 4 {
		return t, false
	}
	field := func(i int) uint64 { return m.Uint(buf[8+i*m.Word:]) }
	t = pclntab{m: m, addr: addr, nfunc: field(0), names: field(3), namesEnd: field(4), functions: field(7), size: size}
	for i := 3; i < 7; i++ {
		if field(i) > field(i+1) {
			return t, false
		}
	}
	return t, t.nfunc > 0 && t.names >= uint64(len(buf)) && t.functions < size && t.nfunc < (size-t.functions)/8
}

// findPclntab finds the table by its section. Without one, as in externally linked position-independent programs before Go 1.26, it looks
// for a header that leads to the function want.
func (m *image) findPclntab(want string) (t pclntab, ok bool) {
	if s, found := m.Functions(); found {
		return m.parsePclntab(s.Addr, s.Size) // an unreadable one is obfuscated: no other will turn up
	}
	if s, found := m.Section(executable.ReadOnlySection); found {
		if t, ok = m.scanPclntab(s.Addr, s.Addr+s.Size, want); ok {
			return t, true
		}
	}
	for _, p := range m.Loads {
		if p.Flags&elf.PF_R != 0 {
			if t, ok = m.scanPclntab(p.Vaddr, p.Vaddr+p.Filesz, want); ok {
				return t, true
			}
		}
	}
	return t, false
}

func (m *image) scanPclntab(from, to uint64, want string) (t pclntab, ok bool) {
	for _, magic := range []uint32{0xfffffff1, 0xfffffff0} {
		pattern := make([]byte, 6)
		m.Order.PutUint32(pattern, magic)
		scan(m, from, to, len(pattern), func(at uint64, piece []byte) bool {
			for i := 0; ; i++ {
				j := bytes.Index(piece[i:], pattern)
				if j < 0 {
					return false
				}
				i += j
				if addr := at + uint64(i); addr%uint64(m.Word) == 0 {
					if t, ok = m.parsePclntab(addr, to-addr); ok {
						if _, ok = t.find(want)[want]; ok {
							return true
						}
					}
				}
			}
		})
		if ok {
			return t, true
		}
	}
	return t, false
}

// A function is where a function's code is, counted from runtime.text.
type function struct{ start, end uint64 }

// find looks for functions by name. Neither the names nor the functions are kept in memory; as both follow the order of
// the code, in which the runtime comes early, little of them is read.
func (t pclntab) find(names ...string) map[string]function {
	found := map[string]function{}
	at := findNames(t.m, t.addr+t.names, t.addr+min(t.namesEnd, t.size), names)
	if len(at) == 0 {
		return found
	}
	base := t.addr + t.functions
	records := window{r: t.m}
	scan(t.m, base, base+t.nfunc*8+4, 12, func(from uint64, pairs []byte) bool {
		skip := int((8 - (from-base)%8) % 8)
		for i := skip; i+12 <= len(pairs); i += 8 { // 12: the next function's start is this one's end
			start, next := t.m.Order.Uint32(pairs[i:]), t.m.Order.Uint32(pairs[i+8:])
			record := records.at(base+uint64(t.m.Order.Uint32(pairs[i+4:])), 8)
			if record == nil {
				return true
			}
			if name, ok := at[uint64(t.m.Order.Uint32(record[4:]))]; ok && next > start {
				found[name] = function{uint64(start), uint64(next)}
			}
			if len(found) == len(at) {
				return true
			}
		}
		return false
	})
	return found
}

// A window reads small things that follow each other with few calls.
type window struct {
	r     io.ReaderAt
	start uint64
	buf   []byte
}

// at returns n bytes, nil when they can't be read.
func (w *window) at(addr uint64, n int) []byte {
	if addr < w.start || addr+uint64(n) > w.start+uint64(len(w.buf)) || addr+uint64(n) < addr {
		if w.buf == nil {
			w.buf = make([]byte, chunk)
		}
		w.buf = w.buf[:cap(w.buf)]
		got, _ := w.r.ReadAt(w.buf, int64(addr))
		w.start, w.buf = addr, w.buf[:got]
		if got < n {
			return nil
		}
	}
	return w.buf[addr-w.start:][:n]
}

// text finds runtime.text in the runtime's moduledata, a struct that begins with
//
//	*pclntab · six slices, names first · findfunctab · minpc · maxpc · text
//
// It is read from the live process: on the disk a position-independent program has no pointers. The header of the table does not have it
// since Go 1.26, and the section .text does not help, as C code may come before Go's in it.
func (t pclntab) text(live io.ReaderAt, bias uint64) (uint64, bool) {
	m := t.m
	pattern := make([]byte, 2*m.Word)
	if m.Word == 4 {
		m.Order.PutUint32(pattern, uint32(t.addr+bias))
		m.Order.PutUint32(pattern[4:], uint32(t.addr+t.names+bias))
	} else {
		m.Order.PutUint64(pattern, t.addr+bias)
		m.Order.PutUint64(pattern[8:], t.addr+t.names+bias)
	}
	size := 23 * m.Word
	left := uint64(maxScan)
	var text uint64
	for _, r := range m.moduledataRanges() {
		to := min(r.to, r.from+left)
		left -= to - r.from
		scan(live, r.from+bias, to+bias, size, func(_ uint64, piece []byte) bool {
			for i := 0; ; i++ {
				j := bytes.Index(piece[i:], pattern)
				if j < 0 || i+j+size > len(piece) {
					return false
				}
				i += j
				minpc, maxpc := m.Uint(piece[i+20*m.Word:])-bias, m.Uint(piece[i+21*m.Word:])-bias
				got := m.Uint(piece[i+22*m.Word:]) - bias
				if m.inCode(got) && got <= minpc && minpc < maxpc {
					text = got
					return true
				}
			}
		})
		if text != 0 {
			return text, true
		}
	}
	return 0, false
}

type addrRange struct{ from, to uint64 }

// moduledataRanges is where moduledata may be: .go.module since Go 1.26, before that among the data.
func (m *image) moduledataRanges() []addrRange {
	var ranges []addrRange
	for _, name := range []string{executable.ModuleSection, executable.PlainDataSection, executable.DataSection, executable.ReadOnlySection} {
		if s, ok := m.Section(name); ok {
			ranges = append(ranges, addrRange{s.Addr, s.Addr + s.Size})
		}
	}
	for _, p := range m.Loads {
		if !m.Sectioned && p.Flags&elf.PF_X == 0 {
			ranges = append(ranges, addrRange{p.Vaddr, p.Vaddr + p.Filesz})
		}
	}
	return ranges
}
