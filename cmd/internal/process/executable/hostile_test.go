package executable

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A piece is bytes somewhere in a file that is otherwise zeros: files of terabytes cost nothing here.
type piece struct {
	at   int64
	data []byte
}

type sparse []piece

func (s sparse) ReadAt(buf []byte, off int64) (int, error) {
	clear(buf)
	for _, p := range s {
		for from, to := max(p.at, off), min(p.at+int64(len(p.data)), off+int64(len(buf))); from < to; from = to {
			copy(buf[from-off:to-off], p.data[from-p.at:])
		}
	}
	return len(buf), nil
}

// own is this test's own file: its bytes, where its sections' headers are, and how many.
func own(t testing.TB) (file []byte, headers int64, count int) {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	return file, int64(binary.LittleEndian.Uint64(file[40:])), int(binary.LittleEndian.Uint16(file[60:]))
}

// TestHostile turns a real program into what no linker makes. Regardless of what a file says, its cost is bounded, and the error names what
// is odd.
func TestHostile(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the files are made of a program for linux/amd64")
	}
	le := binary.LittleEndian
	file, headers, count := own(t)
	f, err := Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Section(BuildInfoSection)
	index := func(of []byte, name string) int64 { // where the header of a section is
		whole, err := Read(bytes.NewReader(of), int64(len(of)))
		if err != nil {
			t.Fatal(err)
		}
		s, _ := whole.Section(name)
		for i := range count {
			if at := headers + int64(i)*64; le.Uint64(of[at+24:]) == s.Offset && le.Uint64(of[at+32:]) == s.Size {
				return at
			}
		}
		t.Fatal("no section " + name)
		return 0
	}
	functions, build := index(file, FunctionsSection), index(file, BuildInfoSection)
	names := headers + int64(le.Uint16(file[62:]))*64
	var bomb bytes.Buffer
	w := zlib.NewWriter(&bomb)
	w.Write(make([]byte, 64<<20))
	w.Close()

	put16 := func(at int64, v uint16) func([]byte) { return func(b []byte) { le.PutUint16(b[at:], v) } }
	put32 := func(at int64, v uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[at:], v) } }
	put64 := func(at int64, v uint64) func([]byte) { return func(b []byte) { le.PutUint64(b[at:], v) } }
	both := func(changes ...func([]byte)) func([]byte) {
		return func(b []byte) {
			for _, change := range changes {
				change(b)
			}
		}
	}
	const size = 1 << 42
	varint := func(n uint64) func([]byte) {
		return func(b []byte) { copy(b[info.Offset+32:], binary.AppendUvarint(nil, n)) }
	}
	for _, test := range []struct {
		what   string
		size   int64 // of the file; 0: unchanged
		change func(file []byte)
		more   []piece
		want   string // in the error; "": none
	}{
		{what: "as it is", change: func([]byte) {}},
		{what: "a compressed table of names", change: both(put64(names+8, 0x800), put64(names+24, uint64(len(file))), put64(names+32, uint64(bomb.Len()))), size: size, more: []piece{{int64(len(file)), bomb.Bytes()}}, want: "table of sections' names is compressed"},
		{what: "names of a gigabyte", change: put64(names+32, 1<<30), size: size, want: "names of its sections have 1073741824 bytes"},
		{what: "names beyond the end", change: put64(names+24, math.MaxUint64), want: "sections' names is beyond its end"},
		{what: "names that are no text", change: put32(names+4, 1), want: "sections have no names"},
		{what: "names from a section that isn't there", change: put16(62, 9999), want: "sections have no names"},
		{what: "60,000 sections", change: put16(60, 60000), size: size, want: "it has 60000 sections"},
		{what: "a number of sections in the first of them", change: both(put16(60, 0), put64(headers+32, 1<<40)), want: "it has no number of sections"},
		{what: "sections beyond the end", change: put64(40, 1<<40), want: "table of sections is beyond its end"},
		{what: "sections at 2^64-1", change: put64(40, math.MaxUint64), want: "table of sections is beyond its end"},
		{what: "sections of 1 byte", change: put16(58, 1), want: "sections' headers are of 1 bytes"},
		{what: "a terabyte of functions", change: put64(functions+32, 1<<40), size: size, want: ".gopclntab has 1099511627776 bytes"},
		{what: "functions beyond the end", change: put64(functions+32, 1<<30), want: ".gopclntab is beyond its end"},
		{what: "functions at 2^64-1", change: put64(functions+24, math.MaxUint64), want: ".gopclntab is beyond its end"},
		{what: "functions loaded around the end of memory", change: put64(functions+16, math.MaxUint64-5), want: ".gopclntab is beyond its end"},
		{what: "compressed functions", change: put64(functions+8, 0x802), want: ".gopclntab is compressed"},
		{what: "two tables of functions", change: func(b []byte) { copy(b[build:build+4], b[functions:functions+4]) }, want: "two sections .gopclntab"},
		{what: "two sections of build information", change: func(b []byte) { copy(b[functions:functions+4], b[build:build+4]) }, size: size, want: "two sections .go.buildinfo"},
		{what: "build information of 5 MB", change: put64(build+32, 5<<20), size: size, want: ".go.buildinfo has 5242880 bytes"},
		{what: "a version of gigabytes", change: both(varint(8<<30), func(b []byte) { le.PutUint64(b[32:], 64) }), size: size, want: "version of Go has 8589934592 bytes"},
		{what: "a version of 2^63", change: varint(1 << 63), want: "version of Go has 9223372036854775808 bytes"},
		{what: "a version of 2^64-1", change: varint(math.MaxUint64), want: "version of Go has 18446744073709551615 bytes"},
		{what: "10,000 segments", change: put16(56, 10000), size: size, want: "it has 10000 segments"},
		{what: "segments beyond the end", change: put64(32, 1<<50), want: "table of segments is beyond its end"},
		{what: "segments of 1 byte", change: put16(54, 1), want: "segments' headers are of 1 bytes"},
		{what: "a segment of 2^64-1", change: func(b []byte) { eachLoad(b, func(p []byte) { le.PutUint64(p[40:], math.MaxUint64) }) }, want: "loaded where nothing can be"},
		{what: "a segment larger in the file", change: func(b []byte) { eachLoad(b, func(p []byte) { le.PutUint64(p[32:], 1<<60) }) }, want: "loaded where nothing can be"},
		{what: "a segment at offset 2^63", change: func(b []byte) { eachLoad(b, func(p []byte) { le.PutUint64(p[8:], 1<<63) }) }, want: "loaded where nothing can be"},
		{what: "segments one over the other", change: func(b []byte) { eachLoad(b, func(p []byte) { le.PutUint64(p[16:], 0x400000) }) }, want: "not a Go program"},
		{what: "big endian", change: func(b []byte) { b[5] = 2 }, want: "headers are of"},
		{what: "no order of bytes", change: func(b []byte) { b[5] = 7 }, want: ErrFormat.Error()},
		{what: "32 bits", change: func(b []byte) { b[4] = 1 }, want: ErrOdd.Error()},
		{what: "no bits", change: func(b []byte) { b[4] = 9 }, want: ErrFormat.Error()},
		{what: "no magic in the build information", change: func(b []byte) { b[info.Offset] = 0 }, want: "not a Go program"},
		{what: "pointers in the build information that lead nowhere", change: func(b []byte) { b[info.Offset+15] = 0; le.PutUint64(b[info.Offset+16:], math.MaxUint64) }, want: "not a Go program"},
		{what: "pointers of 3 bytes", change: func(b []byte) { b[info.Offset+15] = 0; b[info.Offset+14] = 3 }, want: "not a Go program"},
	} {
		changed := bytes.Clone(file)
		test.change(changed)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Read(append(sparse{{0, changed}}, test.more...), max(test.size, int64(len(file))))
		if err == nil {
			_, err = f.BuildInfo()
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%s: %d KB", test.what, used>>10)
		}
		switch {
		case test.want == "" && err == nil:
		case test.want == "" || err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want %q", test.what, err, test.want)
		case !errors.Is(err, ErrOdd) && !errors.Is(err, ErrNotGo) && !errors.Is(err, ErrFormat):
			t.Errorf("%s: %v is neither odd nor not Go", test.what, err)
		}
	}
	for n := int64(0); n < int64(len(file)); n += max(1, n/9) { // cut off
		f, err := Read(bytes.NewReader(file[:n]), n)
		if err == nil {
			f.BuildInfo()
		} else if !errors.Is(err, ErrOdd) && !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func eachLoad(file []byte, change func(header []byte)) {
	le := binary.LittleEndian
	for i := range int(le.Uint16(file[56:])) {
		if p := file[int(le.Uint64(file[32:]))+i*56:]; le.Uint32(p) == 1 {
			change(p)
		}
	}
}

// A liar is a file that is another one at each read.
type liar struct {
	file []byte
	n    int
}

func (l *liar) ReadAt(buf []byte, off int64) (int, error) {
	l.n++
	n := copy(buf, l.file[min(off, int64(len(l.file))):])
	for i := l.n % 7; i < n; i += 11 {
		buf[i] ^= byte(l.n)
	}
	return len(buf) + l.n%3 - 1, nil // more than it was asked for, too
}

func TestLiar(t *testing.T) {
	file, _, _ := own(t)
	for n := range 500 {
		if f, err := Read(&liar{file, n}, int64(len(file))); err == nil {
			f.BuildInfo()
			f.Version()
		}
	}
}

// FuzzFile makes files of N equal things from a few numbers: the memory that they cost is always bounded.
func FuzzFile(f *testing.F) {
	f.Add(uint16(3), uint64(0x400), uint16(60000), uint64(0x1000), uint64(1<<30), uint64(0x800), uint64(1<<40))
	f.Add(uint16(60000), uint64(64), uint16(0), uint64(64), uint64(0), uint64(0), uint64(1<<20))
	f.Fuzz(func(t *testing.T, segments uint16, segmentsAt uint64, sections uint16, sectionsAt, length, flags, size uint64) {
		le := binary.LittleEndian
		head := make([]byte, 64)
		copy(head, "\x7fELF\x02\x01\x01")
		le.PutUint64(head[32:], segmentsAt)
		le.PutUint64(head[40:], sectionsAt)
		le.PutUint16(head[54:], 56)
		le.PutUint16(head[56:], segments)
		le.PutUint16(head[58:], 64)
		le.PutUint16(head[60:], sections)
		le.PutUint16(head[62:], 1)
		section := make([]byte, 64)
		le.PutUint32(section[4:], 3)
		le.PutUint64(section[8:], flags)
		le.PutUint64(section[24:], 64)
		le.PutUint64(section[32:], length)
		r := sparse{{0, head}}
		if sectionsAt < 1<<50 {
			r = append(r, piece{int64(sectionsAt), bytes.Repeat(section, min(int(sections), 2000))})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if f, err := Read(r, int64(size>>1)); err == nil {
			f.BuildInfo()
			f.Version()
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%d KB", used>>10)
		}
	})
}
