package binary

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A shape says what the entries of a layer that is built from a few numbers are.
type shape uint8

const (
	programs shape = iota // each with a name of its own
	nested                // of one letter each directory
	links                 // of short names, to long ones
	sameName              // all of the same name, to long ones
	whiteouts
	nestedWhiteouts
	opaques
	shapes
)

// built is a layer of n entries with names of some length. Layers of different seeds have different names.
func built(t testing.TB, s shape, n, length, seed int) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	long := strings.Repeat("n", length)
	deep := strings.Repeat("d/", length/2)
	for i := range n {
		h := &tar.Header{Typeflag: tar.TypeReg, Mode: 0o755, Format: tar.FormatPAX}
		number := fmt.Sprintf("%d-%d", seed, i)
		switch s {
		case programs:
			h.Name = number + long
		case nested:
			h.Name = number + "/" + deep + "x"
		case links:
			h.Typeflag, h.Name, h.Linkname = tar.TypeSymlink, number, number+long
		case sameName:
			h.Typeflag, h.Name, h.Linkname = tar.TypeSymlink, "same", number+long
		case whiteouts:
			h.Name = ".wh." + number + long
		case nestedWhiteouts:
			h.Name = number + "/" + deep + ".wh.x"
		case opaques:
			h.Name = number + long + "/.wh..wh..opq"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// of is an image of these layers, the lowest first, that was not yet read.
func of(ctx context.Context, layers ...[]byte) *Image {
	m := &Image{ctx: ctx, file: "a.tar", blobs: memory{}, left: maxBytes, programs: map[string]content{}}
	for i, l := range layers {
		name := fmt.Sprint(i)
		m.blobs.(memory)[name] = l
		m.layers = append(m.layers, name)
	}
	return m
}

// peak calls f, and says how much more memory there was in use meanwhile, with garbage.
func peak(f func()) int64 {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	most := before.HeapAlloc
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return int64(most) - int64(before.HeapAlloc)
		case <-time.After(2 * time.Millisecond):
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
}

// mostHeld is what reading any image may take: the names of files and of whiteouts, their maps, and as much garbage.
const mostHeld = 512 << 20

// enough names of 3,800 bytes are a little more than maxNames.
const enough = 18_600

// TestNames: an image whose files have more names than there are in real ones is refused soon, regardless of what its entries are
// and whether they are in one layer or in several.
func TestNames(t *testing.T) {
	for s, name := range []string{"programs", "nested programs", "links", "links of the same name", "whiteouts", "nested whiteouts", "opaque directories"} {
		for _, layers := range []int{1, 3} {
			if layers == 3 && shape(s) != programs && shape(s) != whiteouts {
				continue // building them takes its time
			}
			t.Run(fmt.Sprintf("%s in %d", name, layers), func(t *testing.T) {
				var all [][]byte
				for i := range layers {
					all = append(all, built(t, shape(s), enough/layers, 3800, i))
				}
				m := of(t.Context(), all...)
				var err error
				held := peak(func() { err = m.list() })
				if !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "the names of its files have more than 64 MiB") {
					t.Errorf("got %v", err)
				}
				if held > mostHeld {
					t.Errorf("it took %d MiB", held>>20)
				}
				if unpacked := maxBytes - m.left; unpacked > 3*maxNames {
					t.Errorf("it was refused after %d MiB", unpacked>>20)
				}
			})
		}
	}
}

// TestNamesOfATarball: the same for the tarball that an image is in.
func TestNamesOfATarball(t *testing.T) {
	for _, s := range []shape{programs, links} {
		file := write(t, "a.tar.gz", built(t, s, enough, 3800, 0))
		var err error
		held := peak(func() { _, err = ReadImage(t.Context(), file, "") })
		if !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "the names of its files have more than 64 MiB") {
			t.Errorf("got %v", err)
		}
		if held > mostHeld {
			t.Errorf("it took %d MiB", held>>20)
		}
	}
}

// TestRecords: a link does not keep the megabyte of records that it was a part of.
func TestRecords(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	records := map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 500_000)}
	for i := range 300 {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprint(i), Linkname: strings.Repeat("l", 150), PAXRecords: records, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	m := of(t.Context(), b.Bytes())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := m.list(); err != nil || len(m.files) != 300 {
		t.Fatalf("%v, %d files", err, len(m.files))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 16<<20 {
		t.Errorf("%d MiB are kept", held>>20)
	}
	runtime.KeepAlive(m)
}

// TestHeaders: what there is besides the contents of files has a bound of its own. Contents don't count, nor do those of sparse files.
func TestHeaders(t *testing.T) {
	walk := func(data []byte, left int64) error {
		m := of(t.Context(), data)
		m.headers = left
		return m.walk(0, func(*tar.Header, io.Reader) (bool, error) { return false, nil })
	}
	if err := walk(built(t, programs, 1000, 10, 0), 500_000); !errors.Is(err, errHeaders) {
		t.Errorf("1,000 headers: got %v", err)
	}
	if err := walk(layer(t, item{"a", strings.Repeat("a", 4<<20)}, item{"b", strings.Repeat("b", 4<<20)}), 8<<10); err != nil {
		t.Errorf("large contents: got %v", err)
	}
	// An old header of GNU: a hole of 8 GiB, and then 512 bytes.
	h := make([]byte, 512)
	copy(h, "sparse\x00")
	copy(h[100:], "0000755\x000000000\x000000000\x0000000001000\x0000000000000\x00        S")
	copy(h[257:], "ustar  \x00")
	copy(h[386:], "\x80\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x0000000001000\x00")
	copy(h[483:], "\x80\x00\x00\x00\x00\x00\x00\x02\x00\x00\x02\x00")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	data := append(append(h, make([]byte, 512)...), layer(t, item{"app", small})...)
	read := 0
	m := of(t.Context(), data)
	m.headers = 8 << 10
	err := m.walk(0, func(h *tar.Header, _ io.Reader) (bool, error) {
		if read++; h.Name == "sparse" && h.Size != 8<<30+512 {
			t.Errorf("%s has %d bytes", h.Name, h.Size)
		}
		return false, nil
	})
	if err != nil || read != 2 {
		t.Errorf("a sparse file: %v, %d entries", err, read)
	}
}

// TestLists: the lists of a document, and the layers, which may be one many times.
func TestLists(t *testing.T) {
	l := item{"l", string(layer(t, item{"app", small}))}
	times := func(text string, n int) string { return strings.Repeat(text+",", n-1) + text }
	for name, c := range map[string]struct{ file, text, want string }{
		"layers":           {"manifest.json", `[{"Config":"c","Layers":[` + times(`"l"`, maxLayers+1) + `]}]`, "more than 1000 layers"},
		"manifests":        {"index.json", `{"manifests":[` + times("{}", 2_000_000) + `]}`, "more than 10000 parts"},
		"images":           {"manifest.json", `[` + times("{}", 2_000_000) + `]`, "not an image"},
		"no list":          {"index.json", `{"manifests":{"a":1}}`, "not a list"},
		"platforms beyond": {"index.json", `{"manifests":[` + times(`{"platform":{"os":"linux"},"annotations":{"a":"b"}}`, maxListed+1) + `]}`, "more than 10000 parts"},
	} {
		file := write(t, "a.tar", layer(t, l, item{"c", "{}"}, item{c.file, c.text}))
		var err error
		held := peak(func() { _, err = ReadImage(t.Context(), file, "") })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if held > 128<<20 {
			t.Errorf("%s: it took %d MiB", name, held>>20)
		}
	}
	names := strings.Repeat(`"l",`, 500) + `"l"`
	open(t, write(t, "a.tar", layer(t, l, item{"c", "{}"}, item{"manifest.json", `[{"Config":"c","Layers":[` + names + `]}]`})), "")
}

// TestHidden: the tree of whiteouts says what a look at each directory above a name says.
func TestHidden(t *testing.T) {
	marks := map[string]mark{"/gone": gone, "/a/b/gone": gone, "/a/opaque": opaque, "/a/b": 0, "/both": gone | opaque}
	h := newHidden()
	for name, m := range marks {
		if err := h.add(name, m); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		for _, name := range []string{
			"/", "/x", "/gone", "/gone/x", "/gone/x/y", "/gon", "/gone2", "/a", "/a/b", "/a/b/gone", "/a/b/gone/x", "/a/b/x",
			"/a/opaque", "/a/opaque/x", "/a/opaque/x/y", "/both", "/both/x", "/b/gone",
		} {
			want := marks[name]&gone != 0
			for dir := name; dir != "/"; {
				dir = filepath.Dir(dir)
				want = want || marks[dir] != 0
			}
			if got := h.has(name); got != want && name != "/" {
				t.Errorf("%s: got %v", name, got)
			}
		}
	}
	check()
	marks["/"] = opaque
	if err := h.add("/", opaque); err != nil {
		t.Fatal(err)
	}
	check()
}

// An endless stream repeats a text, and ends its context after a megabyte. One that is read on long after that fails the test.
type endless struct {
	t      testing.TB
	head   io.Reader
	text   []byte
	at     int
	sent   int
	cancel context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head != nil {
		if n, err := e.head.Read(p); n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		e.head = nil
	}
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	if e.sent += n; e.sent > 1<<20 {
		e.cancel()
	}
	if e.sent > 64<<20 {
		e.t.Error("it is read on")
		return 0, io.EOF
	}
	return n, nil
}

func (e *endless) open(string) (io.ReadCloser, error) { return io.NopCloser(e), nil }

func (e *endless) Close() error { return nil }

// TestEnds: no matter what an image keeps sending, reading it ends with its context.
func TestEnds(t *testing.T) {
	entry := func(h *tar.Header) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	program := entry(&tar.Header{Typeflag: tar.TypeReg, Name: "app", Mode: 0o755, Size: maxProgram})
	for name, c := range map[string]struct{ head, text []byte }{
		"entries":          {nil, entry(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o755})},
		"one file":         {program, make([]byte, 512)},
		"empty streams":    {nil, packed(t, nil, "gzip")},
		"zeros, packed":    {nil, packed(t, make([]byte, 1<<20), "gzip")},
		"whiteouts":        {nil, entry(&tar.Header{Typeflag: tar.TypeReg, Name: ".wh.a"})},
		"a file, of zeros": {program, []byte{0}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		e := &endless{t: t, text: c.text, cancel: cancel}
		if c.head != nil {
			e.head = bytes.NewReader(c.head)
		}
		m := &Image{ctx: ctx, blobs: e, layers: []string{"l"}, left: maxBytes, programs: map[string]content{}}
		err := m.list()
		if !errors.Is(err, context.Canceled) && name != "zeros, packed" { // which are the end of a tarball
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
	}
	// A program is copied when it is asked for.
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	m := &Image{ctx: ctx, left: maxBytes, programs: map[string]content{}, layers: []string{"l"}}
	m.files = map[string]file{"/app": {}}
	m.blobs = &endless{t: t, head: bytes.NewReader(program), text: []byte("\x7fELF"), cancel: cancel}
	if b := m.Program([]string{"/app"}, nil); b.Known || !strings.Contains(b.Unknown, context.Canceled.Error()) {
		t.Errorf("a program: %+v", b)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, how := range []string{"", "gzip", "zstd"} {
		data := packed(t, layer(t, saved(t, nil, config{}, layer(t, item{"app", small}))...), how)
		if _, err := ReadImage(ended, write(t, "a.tar", data), ""); !errors.Is(err, context.Canceled) {
			t.Errorf("a tarball, %q: got %v", how, err)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 1 { // t.TempDir of write is below it
		for _, f := range left {
			if strings.HasPrefix(f.Name(), "unthrottle-") {
				t.Errorf("left: %s", f.Name())
			}
		}
	}
}

// TestFill: what is written has its bound, to the byte.
func TestFill(t *testing.T) {
	zeros := func(n int64) io.Reader {
		return io.LimitReader(&endless{t: t, text: make([]byte, 4096), cancel: func() {}}, n)
	}
	for n, fits := range map[int64]bool{0: true, 1 << 20: true, 20 << 20: true, 20<<20 + 1: false, 50 << 20: false} {
		f, err := temporary()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		err = fill(t.Context(), f, zeros(n), 20<<20)
		if fits != (err == nil) || err != nil && !errors.Is(err, errTooLarge) {
			t.Errorf("%d bytes: got %v", n, err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != min(n, 20<<20+1) {
			t.Errorf("%d bytes: %v, %v were written", n, err, info.Size())
		}
	}
}

// FuzzBuilt builds images from a few numbers, rather than bytes: what is kept of one has its bound.
func FuzzBuilt(f *testing.F) {
	for s := range shapes {
		f.Add(uint8(s), uint16(100), uint16(40), uint8(2))
	}
	f.Add(uint8(nested), uint16(2000), uint16(4000), uint8(1))
	f.Fuzz(func(t *testing.T, s uint8, n, length uint16, layers uint8) {
		each := max(1, min(int(n), 5<<20/(int(length)%5000+1000))/(int(layers)%8+1)) // nearly all of the time goes into writing headers
		var all [][]byte
		for i := range int(layers)%8 + 1 {
			all = append(all, built(t, shape(s)%shapes, each, int(length)%5000, i))
		}
		m := of(t.Context(), all...)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := m.list(); err != nil && !errors.Is(err, errTooLarge) {
			t.Fatal(err)
		}
		names := 0
		for name, f := range m.files {
			names += len(name) + len(f.link)
		}
		if names > maxNames || len(m.files) > maxFiles {
			t.Errorf("%d files of %d MiB are remembered", len(m.files), names>>20)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 2*int64(names)+300*int64(len(m.files))+4<<20 {
			t.Errorf("%d files of %d bytes: %d bytes are kept", len(m.files), names, held)
		}
		runtime.KeepAlive(m)
	})
}
