package conduct

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
)

// TestLock: before it waits for another study it says whose end that is and starts the program, and what can't be started does not wait; it
// waits no longer than its patience.
func TestLock(t *testing.T) {
	broken := errors.New("exit code 2")
	busy := func(ctx context.Context, _ func(string), busy func(string) error) (func(), error) {
		if err := busy("another tune (process 7)"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	free := func(context.Context, func(string), func(string) error) (func(), error) { return func() {}, nil }
	for _, c := range []struct {
		name     string
		lock     func(context.Context, func(string), func(string) error) (func(), error)
		rehearse error
		patience time.Duration
		want     string // the error
		started  bool
	}{
		{"nobody", free, broken, time.Hour, "", false},
		{"it does not matter", nil, broken, 0, "", false},
		{"somebody", busy, nil, time.Millisecond, "the budget of 1 ms has gone by", true},
		{"somebody, and the program can't be started", busy, broken, time.Hour, "exit code 2", true},
	} {
		var out bytes.Buffer
		started := false
		s := &Study{Lock: c.lock, Patience: c.patience, Rehearse: func(context.Context) error {
			started = true
			return c.rehearse
		}}
		s.Progress = NewProgress(verb.IO{Err: &out, Env: func(string) string { return "" }}, false)
		unlock, err := s.lock(context.Background())
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			unlock()
		}
		if got != c.want || started != c.started || strings.Contains(out.String(), "waiting for another tune (process 7) to end") != c.started {
			t.Errorf("%s: %q, started %v: %s", c.name, got, started, out.String())
		}
	}
}
