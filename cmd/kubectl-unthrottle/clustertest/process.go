package clustertest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A process is a program that runs until stop, and no longer than this process.
type process struct {
	name  string
	log   string // the file with all that it writes
	cmd   *exec.Cmd
	ended chan struct{}
	close []io.Closer // after its end
	logs  []string    // of what it has started itself
}

// startProcess starts a program in a folder, where its log is too.
func startProcess(dir, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = dieWithParent()
	return start(dir, filepath.Base(program), cmd)
}

// start starts a command that must die with this process. Its log has all that it writes, except what goes elsewhere already.
func start(dir, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Dir, cmd.Stderr = dir, log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}

	started := make(chan error)
	go func() {
		// The kernel's signal for a dead parent follows the thread that started the child, so the thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait() // its ProcessState says how it ended
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// early says how the process ended, or nil if it has not.
func (p *process) early() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %v", p.name, p.cmd.ProcessState)
	default:
		return nil
	}
}

// stop kills the process and waits for its end. What it has not written yet is no longer needed.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.ended
	for _, c := range p.close {
		c.Close()
	}
}

// cost says what an ended process took.
func (p *process) cost() string {
	state := p.cmd.ProcessState
	return fmt.Sprintf("%s took %.1f s of CPU time, and at most %d MB of memory", p.name, (state.UserTime() + state.SystemTime()).Seconds(), peakMemory(state)>>20)
}

// logEnds returns the last lines of its logs, with their names.
func (p *process) logEnds() string {
	text := fmt.Sprintf("the end of the log of %s:\n%s", p.name, logEnd(p.log))
	for _, log := range p.logs {
		text += fmt.Sprintf("\nthe end of %s of %s:\n%s", filepath.Base(log), p.name, logEnd(log))
	}
	return text
}

func logEnd(path string) string {
	const size = 8 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		f.Seek(-size, io.SeekEnd)
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	if _, rest, ok := bytes.Cut(end, []byte("\n")); ok && len(end) == size {
		end = rest
	}
	return string(end)
}

// A keeper is a shell that clears something away when it is ended or this process is gone.
type keeper struct {
	owner io.Closer // the shell waits for its end
	shell *exec.Cmd
}

// newKeeper starts a shell that runs a script, prints a line, and runs the other script at the end. Both get the arguments. A
// group of its own keeps the shell from an interrupt on the terminal.
func newKeeper(begin, end string, args ...string) (k *keeper, line string, err error) {
	script := begin + "\nexec >/dev/null\ncat\n" + end
	shell := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	shell.SysProcAttr = ownGroup()
	owner, err1 := shell.StdinPipe()
	stdout, err2 := shell.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	if err := shell.Start(); err != nil {
		return nil, "", err
	}
	k = &keeper{owner, shell}
	line, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(err, k.end())
	}
	return k, strings.TrimSpace(line), nil
}

// end waits until everything is cleared away.
func (k *keeper) end() error {
	k.owner.Close()
	return k.shell.Wait()
}

// A folder is a directory for the files of a run.
type folder struct {
	path   string
	keeper *keeper
}

// newFolder makes a directory that goes with this process.
func newFolder() (*folder, error) {
	path, err := os.MkdirTemp("", "unthrottle-cluster-")
	if err != nil {
		return nil, err
	}
	// Programs that die together with this process may write for a moment yet.
	keeper, _, err := newKeeper("echo", `for i in $(seq 100); do rm -rf -- "$1" 2>/dev/null && exit; sleep 0.1; done; exit 1`, path)
	if err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("starting a shell that removes %s: %w", path, err)
	}
	return &folder{path, keeper}, nil
}

func (f *folder) remove() error {
	if err := f.keeper.end(); err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	return nil
}
