package cli

import (
	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// A study is what bench and tune have in common.
type study struct {
	*conduct.Study
	stdio  IO
	atOnce string // "auto", "yes" or "no"
}

// newStudy is one of a verb; example is how one goes on with it.
func newStudy(stdio IO, verb, example string, drop func(error) error) *study {
	s := &conduct.Study{Program: "unthrottle", Verb: verb, Example: example, IO: stdio.IO, Args: goFlags, Drop: drop, Lock: trial.Lock}
	if stdio.Lab != nil {
		s.Lock = stdio.Lab.Lock
	}
	return &study{Study: s, stdio: stdio}
}

// tempDir makes a directory that is there as long as the study is at work.
func (s *study) tempDir() (string, error) {
	dir, remove, err := ours.TempDir("bench")
	if err == nil {
		s.Cleanup = append(s.Cleanup, remove)
	}
	return dir, err
}
