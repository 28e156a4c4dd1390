//go:build unix

package trial

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	never := func(text string) {
		if strings.Contains(text, "wait") {
			t.Error("it waits for nobody: " + text)
		}
	}
	unlock, err := Lock(context.Background(), never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := Lock(ctx, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("two have the lock: %v", err)
	}
	unlock()
	unlock, err = Lock(context.Background(), never)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
