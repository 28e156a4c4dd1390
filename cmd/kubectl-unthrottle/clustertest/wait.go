package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// WaitFor asks repeatedly until check returns nil. After the limit, which is there so that a hang ends and judges no
// speed, it fails the test with the last error.
func WaitFor(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	if err := waitFor(t.Context(), limit, check, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// pause is how long to wait before it is asked again: a tenth of the time so far, so that what comes soon is seen soon, and what takes a
// minute is not asked for a thousand times. Each question may be a process of kubectl's.
func pause(sofar time.Duration) time.Duration {
	return min(max(sofar/10, 50*time.Millisecond), 300*time.Millisecond)
}

// waitFor ends early, too, when hopeless returns an error.
func waitFor(ctx context.Context, limit time.Duration, check, hopeless func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if err := hopeless(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", limit, err)
		case <-time.After(pause(time.Since(begin))):
		}
	}
}
