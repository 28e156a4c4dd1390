package clustertest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// A process is a program that runs until stop, and no longer than this process.
type process struct {
	name  string
	log   string // the file with all that it writes
	cmd   *exec.Cmd
	ended chan struct{}
}

// startProcess starts a program in a folder, where its log is too.
func startProcess(dir, program string, args ...string) (*process, error) {
	name := filepath.Base(program)
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(program, args...), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = dir, log, log, dieWithParent()

	started := make(chan error)
	go func() {
		// The kernel's signal for a dead parent follows the thread that started the child, so the thread has to stay.
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

// stop kills the process and waits for its end. What it has not written is of no use to anybody.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.ended
}

// cost says what an ended process took.
func (p *process) cost() string {
	state := p.cmd.ProcessState
	return fmt.Sprintf("%s took %.1f s of CPU time, and at most %d MB of memory", p.name, (state.UserTime() + state.SystemTime()).Seconds(), peakMemory(state)>>20)
}

// logEnd returns the last lines of the log.
func (p *process) logEnd() string {
	const size = 8 << 10
	f, err := os.Open(p.log)
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

// A folder is a directory for the files of a run.
type folder struct {
	path  string
	owner io.Closer // the shell waits for its end
	shell *exec.Cmd
}

// newFolder makes a directory and starts a shell that removes it, when remove is called or this process is gone. A group
// of its own keeps the shell from an interrupt on the terminal.
func newFolder() (*folder, error) {
	path, err := os.MkdirTemp("", "unthrottle-cluster-")
	if err != nil {
		return nil, err
	}
	// Programs that die together with this process may write for a moment yet.
	shell := exec.Command("sh", "-c", `cat >/dev/null; for i in 1 2 3 4 5; do rm -rf -- "$1" 2>/dev/null && break; sleep 1; done`, "sh", path)
	shell.SysProcAttr = ownGroup()
	owner, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("starting a shell that removes %s: %w", path, err)
	}
	return &folder{path, owner, shell}, nil
}

func (f *folder) remove() error {
	f.owner.Close()
	if err := f.shell.Wait(); err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	return nil
}
