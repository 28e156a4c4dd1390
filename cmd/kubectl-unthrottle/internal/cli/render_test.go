//go:build !norender

package cli

import (
	"context"
	"os"
	"testing"
)

// TestMain renders, where a test has started this program for that.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == renders {
		os.Exit(Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
