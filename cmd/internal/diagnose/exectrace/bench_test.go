package exectrace

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"golang.org/x/exp/trace"
)

// BenchmarkRead and BenchmarkBare read the trace in EXECTRACE, a large one, as this package and as the library alone.
func BenchmarkRead(b *testing.B) {
	data := large(b)
	for b.Loop() {
		if _, err := Read(context.Background(), bytes.NewReader(data), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	data := large(b)
	for b.Loop() {
		r, err := trace.NewReader(bytes.NewReader(data))
		for err == nil {
			_, err = r.ReadEvent()
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
}

func large(b *testing.B) []byte {
	data, err := os.ReadFile(os.Getenv("EXECTRACE"))
	if err != nil {
		b.Skip("EXECTRACE names no trace to read: ", err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	return data
}
