//go:build unix

package trial

import (
	"context"
	"errors"
	"testing"
)

func TestLock(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	never := func() { t.Error("it waits for nobody") }
	unlock, err := Lock(context.Background(), never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := Lock(ctx, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("two have the lock: %v", err)
	}
	unlock()
	unlock, err = Lock(context.Background(), never)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
