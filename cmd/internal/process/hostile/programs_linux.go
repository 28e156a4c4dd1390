package hostile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"strings"
)

// A Program is a file for linux/amd64 that runs, made of one that Go's linker made and spoilt in one place. All that it does is wait,
// from its first instruction on, so nothing in it has to be whole.
type Program struct {
	Name  string
	Spoil func(e *Executable)
	Env   []string
	Args  []string
	After func(path string) error // once it runs
	Want  string                  // in what explain says of it
}

// An Executable is a program's file that is being spoilt.
type Executable struct {
	Data []byte
	Size int64 // with the zeros that follow, which take no disk space; 0: those of Data
	file *elf.File
}

// pause is a loop of pause(2).
var pause = []byte{0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7}

// Make spoils the file of a good program, and writes it to a path.
func (p *Program) Make(good []byte, path string) error {
	f, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		return err
	}
	e := &Executable{Data: bytes.Clone(good), file: f}
	copy(e.Data[e.at(f.Entry):], pause)
	if p.Spoil != nil {
		p.Spoil(e)
	}
	if err := os.WriteFile(path, e.Data, 0o755); err != nil || e.Size == 0 {
		return err
	}
	return os.Truncate(path, e.Size)
}

// at is where in the file an address is.
func (e *Executable) at(addr uint64) uint64 {
	for _, p := range e.file.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off
		}
	}
	panic("nothing of the file is loaded there")
}

// header is where the header of a section is.
func (e *Executable) header(name string) int {
	for i, s := range e.file.Sections {
		if s.Name == name {
			return int(binary.LittleEndian.Uint64(e.Data[40:])) + i*64
		}
	}
	panic("no section " + name)
}

// variable is a variable's bytes.
func (e *Executable) variable(name string) []byte {
	all, _ := e.file.Symbols()
	for _, s := range all {
		if s.Name == name {
			return e.Data[e.at(s.Value):][:s.Size]
		}
	}
	panic("no variable " + name)
}

// content is a section's bytes.
func (e *Executable) content(name string) []byte {
	s := e.file.Section(name)
	return e.Data[s.Offset:][:s.Size]
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// Programs are all of them.
func Programs() []Program {
	le := binary.LittleEndian
	functions, build := ".gopclntab", ".go.buildinfo"
	size := func(section string, n, file uint64) func(*Executable) {
		return func(e *Executable) {
			le.PutUint64(e.Data[e.header(section)+32:], n)
			e.Size = int64(file)
		}
	}
	length := func(n uint64) func(*Executable) {
		return func(e *Executable) {
			copy(e.content(build)[32:], binary.AppendUvarint(nil, n))
			e.Size = 9 << 30
		}
	}
	var long []string
	for _, name := range strings.Split("abcdefghijklmn", "") {
		long = append(long, "UNTHROTTLE_"+name+"="+strings.Repeat("x", 120_000))
	}
	return []Program{
		{Name: "as it is", Want: "GOMAXPROCS"},
		{Name: "a compressed table of names", Want: "table of sections' names is compressed", Spoil: func(e *Executable) {
			var packed bytes.Buffer
			binary.Write(&packed, le, elf.Chdr64{Type: 1, Size: 1 << 30, Addralign: 1})
			z := zlib.NewWriter(&packed)
			for range 1 << 10 {
				z.Write(make([]byte, 1<<20))
			}
			z.Close()
			h := e.Data[e.header(".shstrtab"):]
			le.PutUint64(h[8:], uint64(elf.SHF_COMPRESSED))
			le.PutUint64(h[24:], uint64(len(e.Data)))
			le.PutUint64(h[32:], uint64(packed.Len()))
			e.Data = append(e.Data, packed.Bytes()...)
		}},
		{Name: "a version of gigabytes", Want: "version of Go has 8589934592 bytes", Spoil: length(8 << 30)},
		{Name: "a version of 2^63", Want: "version of Go has 9223372036854775808 bytes", Spoil: length(1 << 63)},
		{Name: "build information of a terabyte", Want: ".go.buildinfo has 1099511627776 bytes", Spoil: size(build, 1<<40, 2<<40)},
		{Name: "functions of a terabyte", Want: ".gopclntab has 1099511627776 bytes", Spoil: size(functions, 1<<40, 2<<40)},
		{Name: "functions beyond the end", Want: ".gopclntab is beyond its end", Spoil: size(functions, 1<<60, 0)},
		{Name: "two tables of functions", Want: "two sections .gopclntab", Spoil: func(e *Executable) {
			copy(e.Data[e.header(build):][:4], e.Data[e.header(functions):][:4])
		}},
		{Name: "60,000 sections", Want: "it has 60000 sections", Spoil: func(e *Executable) {
			from, n := le.Uint64(e.Data[40:]), len(e.file.Sections)
			all := append(bytes.Clone(e.Data[from:][:n*64]), bytes.Repeat(e.Data[e.header(functions):][:64], 60_000-n)...)
			le.PutUint64(e.Data[40:], uint64(len(e.Data)))
			le.PutUint16(e.Data[60:], 60_000)
			e.Data = append(e.Data, all...)
		}},
		{Name: "functions of all ones", Want: "GOMAXPROCS", Spoil: func(e *Executable) { fill(e.content(functions)[8:], 0xff) }},
		{Name: "more functions than there are bytes", Want: "GOMAXPROCS", Spoil: func(e *Executable) { le.PutUint64(e.content(functions)[8:], 1<<62) }},
		{Name: "a module of all ones", Want: "GOMAXPROCS", Spoil: func(e *Executable) { fill(e.variable("runtime.firstmoduledata"), 0xff) }},
		{Name: "a module of nothing", Want: "GOMAXPROCS", Spoil: func(e *Executable) { fill(e.variable("runtime.firstmoduledata"), 0) }},
		{Name: "tables of a module without end", Want: "GOMAXPROCS", Spoil: func(e *Executable) {
			for m := e.variable("runtime.firstmoduledata"); len(m) >= 24; m = m[8:] {
				if n := le.Uint64(m[8:]); n > 0 && n == le.Uint64(m[16:]) { // a slice
					le.PutUint64(m[8:], 1<<60)
					le.PutUint64(m[16:], 1<<60)
				}
			}
		}},
		{Name: "no sections", Want: "GOMAXPROCS", Spoil: func(e *Executable) { fill(e.Data[40:48], 0); fill(e.Data[58:64], 0) }},
		{Name: "variables of 120 KB", Want: "GOMAXPROCS", Env: long},
		{Name: "a GODEBUG of 120 KB", Want: "GOMAXPROCS", Env: []string{"GODEBUG=" + strings.Repeat("a=b,", 30_000)}},
		{Name: "arguments of a megabyte", Want: "GOMAXPROCS", Args: strings.Split(strings.Repeat(strings.Repeat("x", 99_999)+" ", 10), " ")},
		{Name: "a \x1b[2J\u202e", Want: `a \x1b[2J\u202e`},
		{Name: "removed", Want: "GOMAXPROCS", After: os.Remove},
		{Name: "a pipe in its place", Want: "GOMAXPROCS", After: func(path string) error { return errors.Join(os.Remove(path), pipe(path)) }},
	}
}
