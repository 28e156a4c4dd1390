package inpod

import (
	"errors"
	"strings"
	"testing"
)

// TestText: what a container writes has an end.
func TestText(t *testing.T) {
	w := text{left: 10}
	if n, err := w.Write([]byte("0123456789")); n != 10 || err != nil || w.left < 0 {
		t.Errorf("%d, %v", n, err)
	}
	for range 3 {
		if n, err := w.Write([]byte(strings.Repeat("x", 1000))); n != 0 || !errors.Is(err, errNoEnd) || w.left >= 0 || w.Len() != 10 {
			t.Errorf("%d, %v, %d bytes", n, err, w.Len())
		}
	}
}
