package lint

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

var goVersion = regexp.MustCompile(`^1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

// ParseGo makes a program of a version of Go, 1.25, that its go line has, too.
func ParseGo(text string) (*procs.Program, error) {
	version := strings.TrimPrefix(text, "go")
	if !goVersion.MatchString(version) {
		return nil, fmt.Errorf("%q is not a version of Go", text)
	}
	return &procs.Program{GoVersion: "go" + version}, nil
}

// Of is what is known about a container's program. What --go says is for Go programs only: the language is not guessed.
func (k Known) Of(w *workload.Workload, c *workload.Container) binary.Binary {
	b := k.Binaries.Of(w, c)
	if k.Go != nil && !b.Known && languageOf(c, b) == goes {
		b.Known, b.Program, b.From = true, k.Go, "the program, by --go,"
	}
	return b
}

// IsGo says whether a container's program is a Go program. known is false where nothing says so: neither the program itself, nor
// a variable that only Go programs read, nor the name of an image that everyone knows.
func (k Known) IsGo(w *workload.Workload, c *workload.Container) (is, known bool) {
	switch languageOf(c, k.Of(w, c)) {
	case goes:
		return true, true
	case other:
		return false, true
	}
	return false, false
}
