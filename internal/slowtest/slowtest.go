// Package slowtest answers: is this test for everyone? A newcomer's "go test ./..." runs those that are quick and need only what is at
// hand. What takes longer, or fetches or needs something more, runs where UNTHROTTLE_TESTS=all asks for it, as .ci/run does, or -run names
// it.
package slowtest

import (
	"flag"
	"os"
	"testing"
)

// detector says that the race detector is on.
var detector bool

// Skip skips a test unless all are asked for, or some by name.
func Skip(t testing.TB) {
	t.Helper()
	named := flag.Lookup("test.run")
	if os.Getenv("UNTHROTTLE_TESTS") != "all" && (named == nil || named.Value.String() == "") {
		t.Skip("it takes longer: UNTHROTTLE_TESTS=all runs it")
	}
}

// Plain is Skip for a test in which the race detector would find nothing, and which takes many times as long with it, or more memory
// than it allows. .ci/run finds these by the call, and runs them without.
func Plain(t testing.TB) {
	t.Helper()
	Skip(t)
	if detector {
		t.Skip("it runs without the race detector")
	}
}
