// Package hint answers: what can be done about an error? It holds errors that carry hints, lines that say what to do
// next, and marks those of a wrong command line. What goes in is an error and its hints, what comes out an error that
// reads as before. It prints nothing and chooses no exit code: verb does, with Of and IsUsage.
package hint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// An Error is an error with its hints. Its text is that of Err alone: the hints are for lines of their own.
type Error struct {
	Err   error
	Hints []string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// With adds hints to an error. They replace those that it already has: a caller knows more about what the user wants.
func With(err error, hints ...string) error { return &Error{err, hints} }

// Of returns the hints of an error: those that were added last, or none.
func Of(err error) []string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hints
	}
	return nil
}

// usageError is a wrong command line.
type usageError struct{ error }

func (u *usageError) Unwrap() error { return u.error }

// Usage returns an error for a wrong command line, with what to write instead.
func Usage(instead, format string, args ...any) error {
	return With(&usageError{fmt.Errorf(format, args...)}, instead)
}

// IsUsage reports whether an error is about the command line, and not about what it asked for.
func IsUsage(err error) bool {
	var u *usageError
	return errors.As(err, &u)
}

// Cause removes what packages os and exec put before a cause: the caller says what was being done.
func Cause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
