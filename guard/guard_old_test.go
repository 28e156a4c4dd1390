//go:build !go1.25

package guard

import (
	"errors"
	"testing"
)

func TestOldGo(t *testing.T) {
	g, err := Start(Options{})
	if !errors.Is(err, ErrOldGo) {
		t.Errorf("got %v", err)
	}
	g.Stop() // of a nil Guard
}
