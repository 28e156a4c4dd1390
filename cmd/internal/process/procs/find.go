package procs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// ErrNone means that no process has a name.
var ErrNone = errors.New("no process is called")

// FindOne returns the process that a word of a command line names. The error has a hint, also where there are several.
func FindOne(root, word string) (int, error) {
	pids, err := Find(root, word)
	switch {
	case err != nil:
		return 0, err
	case len(pids) > 1:
		return 0, hint.With(fmt.Errorf("%d processes are called %q", len(pids), word), "name one of them by its pid: "+inWords(pids))
	}
	return pids[0], nil
}

// Find returns the processes, at least one, that a word of a command line names: by a pid, by a URL or host:port at which one of them
// listens, or by the name of a process or of its program, in which * stands for any text and ? for any character. The calling process is
// not found by its name.
func Find(root, word string) ([]int, error) {
	if n, err := strconv.Atoi(word); err == nil {
		if n <= 0 {
			return nil, hint.Usage("pgrep NAME finds a process's pid", "%q is not a pid", word)
		}
		return []int{n}, nil
	}
	if u := address(word); u != nil {
		pid, err := Listener(root, Port(u))
		switch {
		case !IsLocal(u.Hostname()):
			return nil, hint.With(fmt.Errorf("%s is another host, whose processes can't be seen from here", u.Hostname()), "run unthrottle there")
		case err != nil:
			return nil, hint.With(fmt.Errorf("%s: %w", word, err), "a pid or a name will do as well")
		}
		return []int{pid}, nil
	}
	if err := CheckName(word); err != nil {
		return nil, err
	}
	pids, err := List(root)
	if err != nil {
		return nil, err
	}
	if pids = named(root, word, pids); len(pids) == 0 {
		return nil, hint.With(fmt.Errorf("%w %q", ErrNone, word), "unthrottle ps shows the Go programs that run here")
	}
	return pids, nil
}

// named are the processes that a pattern names, but for the calling one, and those whose command line the kernel does not show.
func named(root, pattern string, pids []int) (found []int) {
	fits := make([]bool, len(pids))
	_ = foreign.Each(context.Background(), len(pids), foreign.Patience, foreign.Steps{
		Walk: func(next func() (int, bool)) {
			for i, ok := next(); ok; i, ok = next() {
				p := nameOf(root, pids[i]) // one that has just ended has none
				fits[i] = pids[i] != os.Getpid() && p.Name != "" && Named(pattern, p)
			}
		},
		Done: func(i int) {
			if fits[i] {
				found = append(found, pids[i])
			}
		},
	})
	return found
}

// IsName reports whether a word of a command line is the name of a process, and not its pid or where it listens.
func IsName(word string) bool {
	_, err := strconv.Atoi(word)
	return err != nil && address(word) == nil
}

// CheckName says what is wrong with the pattern of a name.
func CheckName(pattern string) error {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return hint.Usage("* stands for any text and ? for one character", "%q is not a name", pattern)
	}
	return nil
}

// Named reports whether a pattern is the name of a process or of its program.
func Named(pattern string, p Process) bool {
	program := p.Name
	if len(p.Command) > 0 {
		program = filepath.Base(p.Command[0])
	}
	byName, _ := filepath.Match(pattern, p.Name)
	byProgram, _ := filepath.Match(pattern, program)
	return byName || byProgram
}

// nameOf is the part of a process that has its names.
func nameOf(root string, pid int) (p Process) {
	stat, _ := foreign.ReadRecord(root, Dir("", pid)+"/stat", foreign.Record)
	command, _ := readArea(root, Dir("", pid)+"/cmdline", splitCommand)
	return Process{PID: pid, Name: name(stat), Command: command}
}

// address reads a URL, or host:port; nil: it is neither.
func address(word string) *url.URL {
	if !strings.Contains(word, "://") {
		host, _, _ := strings.Cut(word, "/")
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return nil
		}
		word = "http://" + word
	}
	u, err := url.Parse(word)
	if err != nil || Port(u) == 0 {
		return nil
	}
	if u.Hostname() == "" { // :8080
		u.Host = "localhost" + u.Host
	}
	return u
}

// inWords lists pids, but not a hundred of them.
func inWords(pids []int) string {
	const most = 10
	var all []string
	for _, pid := range pids[:min(len(pids), most)] {
		all = append(all, strconv.Itoa(pid))
	}
	text := strings.Join(all, ", ")
	if len(pids) > most {
		text += ", …"
	}
	return text
}
