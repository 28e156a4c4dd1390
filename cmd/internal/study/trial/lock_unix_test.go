//go:build unix

package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	note := func(string) {}
	never := func(holder string) error {
		t.Error("it waits for nobody: " + holder)
		return nil
	}
	unlock, err := Lock(context.Background(), note, never)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mine := fmt.Sprintf("another bench (process %d, since ", os.Getpid())
	var told string
	_, err = Lock(ctx, note, func(holder string) error {
		told = holder
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(told, mine) || !strings.HasPrefix(err.Error(), mine) {
		t.Errorf("two have the lock: %v; it waits for %q", err, told)
	}
	refused := errors.New("it can't be started")
	if _, err := Lock(context.Background(), note, func(string) error { return refused }); err != refused {
		t.Errorf("it waits although it was refused: %v", err)
	}
	unlock()
	unlock, err = Lock(context.Background(), note, never)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
