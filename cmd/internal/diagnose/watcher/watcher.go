// Package watcher answers: how does this command watch from a process of its own? In goes a command that calls one of its hidden verbs;
// out come the lines that this writes. It does not know what the lines say.
package watcher

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// A Process watches. It ends when it is killed, or a moment after this process has died, since its lines are no longer read.
type Process struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    io.Reader
	stderr strings.Builder
}

// Start starts it. It has procs Ps, which are never taken from its loops, and no garbage collection: it allocates next to nothing.
func Start(command []string, procs int, env []string) (*Process, error) {
	p := &Process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Env = append(append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs), "GOGC=off", "GODEBUG=asyncpreemptoff=1"), env...)
	p.cmd.SysProcAttr = ownGroup() // Ctrl-C is for us
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Begin tells it to begin.
func (p *Process) Begin() error {
	_, err := io.WriteString(p.in, "begin\n")
	return err
}

// AwaitBegin is what the process does first. in is its stdin.
func AwaitBegin(in io.Reader) error {
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for the word to begin: %w", err)
	}
	return nil
}

// Lines reads lines until they end, or one can't be read.
func (p *Process) Lines(read func(line string) error) error {
	lines := bufio.NewScanner(p.out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := read(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// PID is its number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Wait waits for its end, after Lines. It returns the error that it wrote, and how it ended.
func (p *Process) Wait() (said, ended error) {
	ended = p.cmd.Wait()
	if text := strings.TrimSpace(p.stderr.String()); text != "" {
		said = errors.New(text)
	}
	return said, ended
}
