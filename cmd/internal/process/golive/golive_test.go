package golive

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMinor(t *testing.T) {
	for version, want := range map[string]int{"go1.26.8": 26, "go1.25": 25, "go1.27rc1": 27, "go1.26.8 X:nodwarf5": 26, "devel go1.28-abc": 0, "": 0, "go2": 0} {
		if got := minor(version); got != want {
			t.Errorf("%q is %d", version, got)
		}
	}
}

func TestParseMaps(t *testing.T) {
	maps, err := parseMaps(strings.NewReader(`00400000-00452000 r-xp 00002000 08:02 173521      /usr/bin/a name (deleted)
7ffc0a0c0000-7ffc0a0e1000 rw-p 00000000 00:00 0          [stack]
nonsense
00500000-00400000 r-xp 00000000 08:02 173521 /backwards
`))
	want := []mapping{{start: 0x400000, end: 0x452000, offset: 0x2000, exec: true, inode: 173521, major: 8, minor: 2, path: "/usr/bin/a name (deleted)"}}
	if err != nil || !slices.Equal(maps, want) {
		t.Errorf("got %+v, %v", maps, err)
	}
}

// imageMemory is the memory of a process that looks like its file.
type imageMemory struct{ io.ReaderAt }

func (m imageMemory) readSpans(buf []byte, spans []span) error {
	for _, s := range spans {
		if s.addr > math.MaxInt64 {
			return io.EOF
		}
		if _, err := m.ReadAt(buf[:s.size], int64(s.addr)); err != nil {
			return err
		}
		buf = buf[s.size:]
	}
	return nil
}

// The parts of the program that synthetic makes, by address. It is loaded at base.
const (
	base     = 0x400000
	textAt   = base + 0x400
	tableAt  = base + 0x600
	moduleAt = base + 0x900
	buildAt  = base + 0xa00
	varsAt   = base + 0xb00 // gomaxprocs, allp at +8, Ps after it
	schedAt  = base + 0x1000
	fileSize = 0x2000
)

// synthetic makes the smallest ELF file with a Go runtime of two Ps that can be found in it.
func synthetic(machine elf.Machine, version string) []byte {
	file := make([]byte, fileSize)
	le := binary.LittleEndian
	put := func(addr uint64, values ...any) {
		var b bytes.Buffer
		for _, v := range values {
			binary.Write(&b, le, v)
		}
		copy(file[addr-base:], b.Bytes())
	}
	names := "\x00.shstrtab\x00.gopclntab\x00.noptrdata\x00.go.buildinfo\x00"
	name := func(s string) uint32 { return uint32(strings.Index(names, "\x00"+s+"\x00") + 1) }
	put(base, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1,
		Phoff: 64, Phentsize: 56, Phnum: 1, Shoff: 0x100, Shentsize: 64, Shnum: 5, Shstrndx: 1, Ehsize: 64,
	}, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 7, Vaddr: base, Filesz: fileSize, Memsz: fileSize})
	section := func(s string, addr, size uint64) elf.Section64 {
		return elf.Section64{Name: name(s), Type: uint32(elf.SHT_PROGBITS), Addr: addr, Off: addr - base, Size: size}
	}
	text := section(".shstrtab", base+0x300, uint64(len(names)))
	text.Type = uint32(elf.SHT_STRTAB)
	put(base+0x100, elf.Section64{}, text, section(".gopclntab", tableAt, 0x300),
		section(".noptrdata", moduleAt, 0x100), section(".go.buildinfo", buildAt, 0x80))
	put(base+0x300, []byte(names))

	// Two functions of 0x40 bytes. The first begins with MOVL gomaxprocs(SB), DX, uses allp, and stores by XCHG.
	relative := func(at uint64, length int, to uint64) uint32 { return uint32(to - at - uint64(length)) }
	nop := bytes.Repeat([]byte{0x90}, 0x80)
	put(textAt, nop)
	put(textAt, []byte{0x8b, 0x15}, relative(textAt, 6, varsAt))
	put(textAt+6, []byte{0x48, 0x8b, 0x3d}, relative(textAt+6, 7, varsAt+8))
	put(textAt+13, []byte{0x48, 0x8d, 0x0d}, relative(textAt+13, 7, varsAt))
	put(textAt+20, []byte{0x87, 0x01})
	// The second is LEAQ sched+112(SB), SI; LOCK XADDL DX, 0(SI).
	put(textAt+0x40, []byte{0x48, 0x8d, 0x35}, relative(textAt+0x40, 7, schedAt+112), []byte{0xf0, 0x0f, 0xc1, 0x16})

	const namesOff, functionsOff = 0x60, 0x100
	put(tableAt, uint32(0xfffffff1), []byte{0, 0, 1, 8}, uint64(2), uint64(1), uint64(0), uint64(namesOff), uint64(0xa0),
		uint64(0xb0), uint64(0xc0), uint64(functionsOff))
	put(tableAt+namesOff, []byte("go:buildid\x00runtime.procresize\x00runtime.pidleput\x00"))
	put(tableAt+functionsOff, uint32(0), uint32(20), uint32(0x40), uint32(28), uint32(0x80), // pairs and the end
		uint32(0), uint32(11), uint32(0x40), uint32(30)) // records
	put(moduleAt+16, uint64(tableAt), uint64(tableAt+namesOff))
	put(moduleAt+16+20*8, uint64(textAt), uint64(textAt+0x80), uint64(textAt))
	put(buildAt, []byte("\xff Go buildinf:\x08\x02"))
	put(buildAt+32, []byte{byte(len(version))}, []byte(version))

	put(varsAt, uint32(2), uint32(0), uint64(varsAt+0x40), uint64(2), uint64(2))
	put(varsAt+0x40, uint64(varsAt+0x100), uint64(varsAt+0x200))
	for i := range uint64(2) {
		put(varsAt+0x100+i*0x100, uint32(i), uint32(i), [12]uint64{}, varsAt+0x100+i*0x100+16*8, uint64(0), uint64(32))
	}
	put(schedAt+104, uint64(varsAt+0x100), uint32(1), uint32(1))
	put(schedAt+344, uint8(1))
	put(schedAt+360, uint64(5), uint64(6))
	put(schedAt+360+160*8, uint64(7), uint64(8))
	return file
}

func readSynthetic(t testing.TB, file []byte) (*reader, error) {
	t.Helper()
	m, err := readImage(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	c, err := readCode(m)
	if err != nil {
		return nil, err
	}
	return newReader(c, imageMemory{m}, 0)
}

func TestSynthetic(t *testing.T) {
	r, err := readSynthetic(t, synthetic(elf.EM_X86_64, "go1.26.8"))
	if err != nil {
		t.Fatal(err)
	}
	if r.v.how != "decoded" || len(r.procs) != 2 || r.v.sched != schedAt {
		t.Errorf("found %+v, %d Ps", r.v, len(r.procs))
	}
	s, err := r.schedule(true)
	want := Sched{Procs: 2, Idle: 1, Running: 1, IdleProcs: 1, Spinning: 1, Custom: true, CustomKnown: true, Waits: 5 + 6 + 7 + 8}
	if err != nil || s != want {
		t.Errorf("Sched is %+v, %v", s, err)
	}
}

// On other architectures, or where the names are obfuscated, the data are searched; nothing else is then known.
func TestSyntheticSearch(t *testing.T) {
	obfuscated := synthetic(elf.EM_X86_64, "go1.26.8")
	obfuscated[tableAt-base] ^= 0x55
	for what, file := range map[string][]byte{"riscv64": synthetic(elf.EM_RISCV, "go1.26.8"), "obfuscated": obfuscated} {
		r, err := readSynthetic(t, file)
		if err != nil || r.v.how != "scan" || len(r.procs) != 2 {
			t.Errorf("%s: %+v, %v", what, r, err)
			continue
		}
		if _, err := r.schedule(true); !errors.Is(err, ErrNoSched) {
			t.Errorf("%s: Sched: %v", what, err)
		}
	}
}

// What does not agree is refused.
func TestSyntheticWrong(t *testing.T) {
	defer noPauses()()
	for what, change := range map[string]func(file []byte){
		"gomaxprocs is not len(allp)": func(file []byte) { file[varsAt-base] = 3 },
		"a P has another's number":    func(file []byte) { file[varsAt-base+0x200] = 0 },
		"a P has no such state":       func(file []byte) { file[varsAt-base+0x204] = 9 },
		"allp is huge":                func(file []byte) { file[varsAt-base+16+5] = 1 },
		"the P is nowhere":            func(file []byte) { file[varsAt-base+0x48+5] = 1 },
	} {
		file := synthetic(elf.EM_X86_64, "go1.26.8")
		change(file)
		if r, err := readSynthetic(t, file); !errors.Is(err, errUnproven) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	for _, version := range []string{"go1.20.1", "go1.99", "devel go1.26-abc", "go1.26.8 X:staticlockranking", ""} {
		r, err := readSynthetic(t, synthetic(elf.EM_X86_64, version))
		if err != nil {
			t.Errorf("%q: %v", version, err)
			continue
		}
		if _, err := r.schedule(true); !errors.Is(err, ErrNoSched) {
			t.Errorf("%q: Sched: %v", version, err)
		}
	}
}

func noPauses() (undo func()) {
	before := pauses
	pauses = []time.Duration{0}
	return func() { pauses = before }
}

// FuzzImage reads a file that is its own memory: no content makes it panic, run on or take much memory.
func FuzzImage(f *testing.F) {
	f.Cleanup(noPauses())
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64, elf.EM_RISCV} {
		for _, version := range []string{"go1.24.1", "go1.26.8"} {
			f.Add(synthetic(machine, version))
		}
	}
	bare := synthetic(elf.EM_X86_64, "")
	copy(bare[40:], make([]byte, 8)) // no section headers
	copy(bare[60:], make([]byte, 4))
	f.Add(bare)
	f.Fuzz(func(t *testing.T, file []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if r, err := readSynthetic(t, file); err == nil {
			r.sample(nil)
			r.schedule(true)
			r.collector()
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d MB for a file of %d bytes", used>>20, len(file))
		}
		if took := time.Since(start); took > 20*time.Second { // a bug runs for ever, a slow machine does not
			t.Errorf("took %v", took)
		}
	})
}

// FuzzDecode decodes any code.
func FuzzDecode(f *testing.F) {
	code := synthetic(elf.EM_X86_64, "")[textAt-base:][:0x80]
	f.Add(code, uint64(textAt))
	f.Add([]byte("\x1b\x07\x00\xb0\x63\x0b\x40\xb9\x60\xfc\x9f\x88\x00\x80\x00\x91"), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, code []byte, pc uint64) {
		for _, u := range []uses{decodeAMD64(code, pc), decodeARM64(code, pc)} {
			if len(u.all) > maxUses || len(u.stores) > maxUses {
				t.Errorf("%d variables, %d stores", len(u.all), len(u.stores))
			}
		}
	})
}

func FuzzMaps(f *testing.F) {
	f.Add("00400000-00452000 r-xp 00002000 08:02 173521      /usr/bin/a name (deleted)\n")
	f.Fuzz(func(t *testing.T, text string) {
		maps, _ := parseMaps(strings.NewReader(text))
		for _, m := range maps {
			if m.start >= m.end || m.inode == 0 {
				t.Errorf("%+v", m)
			}
		}
	})
}
