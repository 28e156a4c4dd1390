package cli

import (
	"errors"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// goUsage is what the flag's help says.
const goUsage = "VERSION\tthe Go version, and go line, of all programs that are not named: 1.25"

// A goFlag is the value of --go.
type goFlag struct{ program **procs.Program }

// String returns the version.
func (g goFlag) String() string {
	if g.program == nil || *g.program == nil {
		return ""
	}
	return (*g.program).GoVersion[len("go"):]
}

// Set reads a version.
func (g goFlag) Set(text string) error {
	p, err := lint.ParseGo(text)
	if err != nil {
		return errors.New("a version is wanted, such as 1.25")
	}
	*g.program = p
	return nil
}

// Type is what it is called where it has no other name.
func (g goFlag) Type() string { return "version" }
