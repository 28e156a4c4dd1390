// Package executable answers: what does an ELF file say of the Go program in it? In goes a file that someone else made, and its size; out
// come its segments, those of its sections that hold what Go's linker left there, its build information, and a way to read what it loads by
// address.
//
// The file is not trusted. Package debug/elf believes what a file says of itself: it keeps as many sections as there are, and inflates the
// table of their names where that is compressed, a megabyte to a gigabyte. Here the headers are read by hand, at most a few kilobytes of
// them are kept, nothing is ever inflated, and all reads together have a budget. What no linker of Go programs makes is refused with
// ErrOdd, and what was odd about it. For what isn't an ELF file the error is ErrFormat.
package executable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

var (
	// ErrFormat means that it is no ELF file.
	ErrFormat = errors.New("not an ELF file")
	// ErrOdd means that the file was not looked into. What was odd about it is in the error that wraps this.
	ErrOdd = errors.New("not looked into: its file is not one that Go's linker makes")
)

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOdd, fmt.Sprintf(format, args...))
}

// Bounds on what a file may say. Figures of real ones are from programs of Go 1.18 to 1.27 by all linkers, and from Debian's.
const (
	maxSegments = 256       // headers; real programs have up to 15
	maxLoads    = 64        // segments that are loaded; real programs have up to 6
	maxSections = 1024      // real programs have up to 50, and C's largest some 100
	maxNames    = 256 << 10 // bytes of the names of sections; real ones have up to 600
	maxTable    = 256 << 20 // bytes of the table of functions, and of symbols; the largest programs have 100 MB
	maxInfo     = 4 << 20   // bytes of the section of build information; real ones have up to 100 KB
	maxContent  = 512 << 20 // bytes of the file's content, all passes together, for one reader
)

// The sections that are used. All others are dropped as soon as they are seen.
const (
	BuildInfoSection = ".go.buildinfo"
	FunctionsSection = ".gopclntab"
	MovedFunctions   = ".data.rel.ro.gopclntab" // the same, as linkers of C name it in a position-independent program
	BuildIDSection   = ".note.go.buildid"
	ModuleSection    = ".go.module"
	SymbolsSection   = ".symtab"
	StringsSection   = ".strtab"
	DataSection      = ".data"
	PlainDataSection = ".noptrdata"
	ReadOnlySection  = ".data.rel.ro"
)

var used = []string{
	BuildInfoSection, FunctionsSection, MovedFunctions, BuildIDSection, ModuleSection, SymbolsSection, StringsSection, DataSection,
	PlainDataSection, ReadOnlySection,
}

// A File is what is kept of an ELF file. It reads by the addresses that the file gives, before it is moved to where it is loaded.
// It is not changed by reading; [File.On] makes another one that reads the same from elsewhere.
type File struct {
	Order     binary.ByteOrder
	Word      int // bytes of a pointer
	Machine   elf.Machine
	Fixed     bool                // it is loaded at its own addresses
	Loads     []elf.ProgHeader    // segments that are loaded
	Sectioned bool                // it has sections at all: a program may run without
	Sections  []elf.SectionHeader // those that are used

	content *Budget
}

// Read reads the headers of an ELF file of that size. It reads no content.
func Read(r io.ReaderAt, size int64) (*File, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	f := &File{Order: h.order, Word: h.word, Machine: h.machine, Fixed: h.kind == elf.ET_EXEC}
	if err := f.readSegments(r, size, h); err != nil {
		return nil, err
	}
	if err := f.readSections(r, size, h); err != nil {
		return nil, err
	}
	return f.On(r), nil
}

// On returns the file with its content read from r, which is the same file opened again, and with a budget of its own.
func (f *File) On(r io.ReaderAt) *File {
	other := *f
	other.content = NewBudget(r, maxContent)
	return &other
}

// A header is what leads to the others.
//
//	0x00 "\x7fELF" · class · order · version · …       0x10 u16 type · u16 machine · u32 version · entry · phoff · shoff ·
//	u32 flags · u16 ehsize · u16 phentsize · u16 phnum · u16 shentsize · u16 shnum · u16 shstrndx
type header struct {
	order            binary.ByteOrder
	word             int
	kind             elf.Type
	machine          elf.Machine
	segments         uint64 // offset
	segmentSize      int
	segmentCount     int
	sections         uint64 // offset
	sectionSize      int
	sectionCount     int
	sectionNamesFrom int // index of the section that has the names
}

func readHeader(r io.ReaderAt) (h header, err error) {
	buf := make([]byte, 64)
	n, _ := r.ReadAt(buf, 0) // what is not there was not read
	if n < 16 || !bytes.HasPrefix(buf, []byte(elf.ELFMAG)) {
		return h, ErrFormat
	}
	size := 64
	switch elf.Class(buf[elf.EI_CLASS]) {
	case elf.ELFCLASS32:
		h.word, size = 4, 52
	case elf.ELFCLASS64:
		h.word = 8
	default:
		return h, ErrFormat // nothing runs it
	}
	switch elf.Data(buf[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		h.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		h.order = binary.BigEndian
	default:
		return h, ErrFormat
	}
	if n < size {
		return h, odd("it ends in its header")
	}
	h.kind, h.machine = elf.Type(h.order.Uint16(buf[16:])), elf.Machine(h.order.Uint16(buf[18:]))
	h.segments, h.sections = h.uint(buf[24+h.word:]), h.uint(buf[24+2*h.word:])
	counts := buf[24+3*h.word+4+2:] // after flags and ehsize
	count := func(i int) int { return int(h.order.Uint16(counts[2*i:])) }
	h.segmentSize, h.segmentCount, h.sectionSize, h.sectionCount, h.sectionNamesFrom = count(0), count(1), count(2), count(3), count(4)
	return h, nil
}

func (h *header) uint(b []byte) uint64 {
	if h.word == 4 {
		return uint64(h.order.Uint32(b))
	}
	return h.order.Uint64(b)
}

// table reads count entries of a size from an offset.
func table(r io.ReaderAt, file int64, from uint64, entry, count int, what string) ([]byte, error) {
	size := uint64(entry) * uint64(count)
	if from > uint64(file) || size > uint64(file)-from {
		return nil, odd("its table of %s is beyond its end", what)
	}
	buf := make([]byte, size)
	if n, err := r.ReadAt(buf, int64(from)); n < len(buf) {
		return nil, fmt.Errorf("reading its table of %s: %w", what, err)
	}
	return buf, nil
}

// readSegments keeps the segments that are loaded. An entry is, for 64 and for 32 bits,
//
//	u32 type · u32 flags · offset · vaddr · paddr · filesz · memsz · align
//	u32 type · offset · vaddr · paddr · filesz · memsz · u32 flags · align
func (f *File) readSegments(r io.ReaderAt, size int64, h header) error {
	if h.segments == 0 || h.segmentCount == 0 {
		return nil
	}
	entry, first, flags := 56, 8, 4
	if h.word == 4 {
		entry, first, flags = 32, 4, 24
	}
	if h.segmentSize != entry {
		return odd("its segments' headers are of %d bytes", h.segmentSize)
	}
	if h.segmentCount > maxSegments {
		return odd("it has %d segments", h.segmentCount)
	}
	buf, err := table(r, size, h.segments, entry, h.segmentCount, "segments")
	if err != nil {
		return err
	}
	for ; len(buf) > 0; buf = buf[entry:] {
		field := func(i int) uint64 { return h.uint(buf[first+i*h.word:]) }
		p := elf.ProgHeader{
			Type: elf.ProgType(h.order.Uint32(buf)), Flags: elf.ProgFlag(h.order.Uint32(buf[flags:])),
			Off: field(0), Vaddr: field(1), Paddr: field(2), Filesz: field(3), Memsz: field(4),
		}
		if p.Type != elf.PT_LOAD {
			continue
		}
		end := p.Vaddr + p.Memsz
		if p.Filesz > p.Memsz || end < p.Vaddr || end >= math.MaxInt64 || p.Off >= math.MaxInt64/2 {
			return odd("a segment of it is loaded where nothing can be")
		}
		if len(f.Loads) == maxLoads {
			return odd("it has more than %d segments to load", maxLoads)
		}
		f.Loads = append(f.Loads, p)
	}
	return nil
}

// readSections keeps the sections that are used. An entry is
//
//	u32 name · u32 type · flags · addr · offset · size · u32 link · u32 info · addralign · entsize
func (f *File) readSections(r io.ReaderAt, size int64, h header) error {
	if h.sections == 0 {
		return nil
	}
	entry := 64
	if h.word == 4 {
		entry = 40
	}
	if h.sectionCount == 0 { // more than fit in 16 bits: the first one has their number
		return odd("it has no number of sections, or 65,280 of them and more")
	}
	if h.sectionSize != entry {
		return odd("its sections' headers are of %d bytes", h.sectionSize)
	}
	if h.sectionCount > maxSections {
		return odd("it has %d sections", h.sectionCount)
	}
	buf, err := table(r, size, h.sections, entry, h.sectionCount, "sections")
	if err != nil {
		return err
	}
	section := func(i int) (name uint32, s elf.SectionHeader) {
		b := buf[i*entry:]
		field := func(i int) uint64 { return h.uint(b[8+i*h.word:]) }
		return h.order.Uint32(b), elf.SectionHeader{
			Type: elf.SectionType(h.order.Uint32(b[4:])), Flags: elf.SectionFlag(field(0)), Addr: field(1), Offset: field(2), Size: field(3), FileSize: field(3),
		}
	}
	if h.sectionNamesFrom == 0 && h.sectionCount <= 1 { // an empty table, as some tools leave when they remove everything
		return nil
	}
	if h.sectionNamesFrom >= h.sectionCount {
		return odd("its sections have no names")
	}
	_, text := section(h.sectionNamesFrom)
	switch {
	case text.Type != elf.SHT_STRTAB:
		return odd("its sections have no names")
	case text.Flags&elf.SHF_COMPRESSED != 0:
		return odd("its table of sections' names is compressed")
	case text.Size > maxNames:
		return odd("the names of its sections have %d bytes", text.Size)
	}
	names, err := table(r, size, text.Offset, 1, int(text.Size), "sections' names")
	if err != nil {
		return err
	}
	f.Sectioned = true
	for i := range h.sectionCount {
		at, s := section(i)
		s.Name = known(names, at)
		if s.Name == "" || s.Type == elf.SHT_NOBITS {
			continue
		}
		keep, err := f.judge(s, size)
		if err != nil {
			return err
		}
		if keep {
			f.Sections = append(f.Sections, s)
		}
	}
	return nil
}

// known returns the name at an offset if it is one that is used, "" otherwise.
func known(names []byte, at uint32) string {
	if uint64(at) >= uint64(len(names)) {
		return ""
	}
	for _, name := range used {
		if rest := names[at:]; len(rest) > len(name) && rest[len(name)] == 0 && string(rest[:len(name)]) == name {
			return name
		}
	}
	return ""
}

// judge says whether to keep a section that is used. Those that only Go's programs have must be as its linker makes them; the
// others may be anything in a program of another language, and without them less is known.
func (f *File) judge(s elf.SectionHeader, size int64) (keep bool, err error) {
	_, twice := f.Section(s.Name)
	beyond := s.Offset > uint64(size) || s.Size > uint64(size)-s.Offset
	end := s.Addr + s.Size
	nowhere := end < s.Addr || end >= math.MaxInt64
	compressed := s.Flags&elf.SHF_COMPRESSED != 0
	most := uint64(maxTable)
	switch s.Name {
	case BuildInfoSection, BuildIDSection:
		most = maxInfo
	case FunctionsSection, MovedFunctions, ModuleSection:
	case SymbolsSection, StringsSection:
		return !twice && !beyond && !nowhere && !compressed && s.Size <= maxTable, nil
	default:
		return !twice && !nowhere && !compressed, nil
	}
	switch {
	case s.Name == FunctionsSection || s.Name == MovedFunctions:
		_, one := f.Section(FunctionsSection)
		_, other := f.Section(MovedFunctions)
		twice = one || other
	case s.Name == BuildIDSection: // each object may bring one
		return !twice, nil
	}
	switch {
	case twice:
		return false, odd("it has two sections %s", s.Name)
	case compressed:
		return false, odd("its section %s is compressed", s.Name)
	case beyond, nowhere:
		return false, odd("its section %s is beyond its end", s.Name)
	case s.Size > most:
		return false, odd("its section %s has %d bytes", s.Name, s.Size)
	}
	return true, nil
}

// Section returns the section of that name, one of those that are used.
func (f *File) Section(name string) (elf.SectionHeader, bool) {
	for _, s := range f.Sections {
		if s.Name == name {
			return s, true
		}
	}
	return elf.SectionHeader{}, false
}

// Functions returns the section with the table of functions.
func (f *File) Functions() (elf.SectionHeader, bool) {
	if s, ok := f.Section(FunctionsSection); ok {
		return s, true
	}
	return f.Section(MovedFunctions)
}

// Content reads by offsets in the file.
func (f *File) Content() io.ReaderAt { return f.content }

// ReadAt reads what is loaded at addr from the file.
func (f *File) ReadAt(buf []byte, addr int64) (int, error) {
	for _, p := range f.Loads {
		if off := uint64(addr) - p.Vaddr; addr >= 0 && uint64(addr) >= p.Vaddr && off < p.Filesz {
			short := uint64(len(buf)) > p.Filesz-off
			if short {
				buf = buf[:p.Filesz-off]
			}
			n, err := f.content.ReadAt(buf, int64(p.Off+off))
			if err == nil && short {
				err = io.EOF
			}
			return n, err
		}
	}
	return 0, io.EOF
}

// Uint reads a number of a pointer's size.
func (f *File) Uint(b []byte) uint64 {
	if f.Word == 4 {
		return uint64(f.Order.Uint32(b))
	}
	return f.Order.Uint64(b)
}

// ErrBudget means that more would have to be read than any program's tables have.
var ErrBudget = errors.New("its tables are larger than any program's")

// A Budget limits how many bytes may be read.
type Budget struct {
	r    io.ReaderAt
	left int64
}

// NewBudget reads no more than most bytes of r.
func NewBudget(r io.ReaderAt, most int64) *Budget { return &Budget{r, most} }

// ReadAt is that of an io.ReaderAt. Its error is ErrBudget where too much was read.
func (b *Budget) ReadAt(buf []byte, off int64) (int, error) {
	if b.left -= int64(len(buf)); b.left < 0 {
		b.left = 0
		return 0, ErrBudget
	}
	n, err := b.r.ReadAt(buf, off)
	if n < 0 || n > len(buf) { // someone else's reader
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
