package cpuprofile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// field is a field of a message: its number and what it holds.
func field(number uint64, content []byte) []byte {
	b := binary.AppendUvarint(nil, number<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(content))), content...)
}

// forged is a profile of n equal things of a kind, packed by gzip.
func forged(t testing.TB, kind byte, n int) []byte {
	t.Helper()
	var data []byte
	switch kind % 5 {
	case 0: // one sample of n locations
		data = field(2, field(1, bytes.Repeat([]byte{1}, n)))
	case 1: // and of n values
		data = field(2, field(2, bytes.Repeat([]byte{1}, n)))
	case 2: // two lists in one sample
		list := field(1, bytes.Repeat([]byte{1}, n/2))
		data = field(2, append(list, list...))
	case 3: // samples of a list each
		data = bytes.Repeat(field(2, field(1, bytes.Repeat([]byte{1}, 100))), n/100)
	case 4:
		data = field(13, bytes.Repeat([]byte{1}, n))
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// TestPacked: a list of numbers of a byte each is refused before the parser makes sixteen of each.
func TestPacked(t *testing.T) {
	slowtest.Plain(t)
	for kind := range byte(5) {
		data := forged(t, kind, 60_000_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than 16777216 numbers in its stacks") {
			t.Errorf("kind %d: got %v", kind, err)
		}
		// Unpacked it is 60 MB; io.ReadAll takes some five times of that to grow.
		if made := after.TotalAlloc - before.TotalAlloc; made > 512<<20 {
			t.Errorf("kind %d of %d bytes: %d MiB were made", kind, len(data), made>>20)
		}
	}
}

// FuzzForged: n equal things of a kind are read in memory of at most a few times their size.
func FuzzForged(f *testing.F) {
	for kind := range byte(5) {
		f.Add(kind, uint32(1000), uint32(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, kind byte, n, at uint32, flip byte) {
		data := forged(t, kind, int(n%1_000_000))
		data[int(at)%len(data)] ^= flip
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Read(bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 128<<20 {
			t.Errorf("%d MiB were made of %d things", made>>20, n)
		}
	})
}
