package hostile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestHung has the real command look at a program whose file system has stopped answering.
func TestHung(t *testing.T) {
	slowtest.Skip(t)
	program := build(t, t.TempDir(), "unthrottle", "github.com/unthrottle/unthrottle/cmd/unthrottle")
	for name, hang := range map[string]func(*Hung){"takes no requests": (*Hung).Stop, "answers none": (*Hung).Keep} {
		t.Run(name, func(t *testing.T) {
			h, c := StartHung(t, "sleep", func(*exec.Cmd) {}, "1000")
			time.Sleep(100 * time.Millisecond) // until it sleeps
			hang(h)
			hung(t, program, strconv.Itoa(c.Process.Pid))
		})
	}
}

func hung(t *testing.T, program, pid string) {
	const nothing = "the kernel does not answer"
	for _, c := range []struct {
		args   []string
		signal os.Signal
		code   int
		out    string // a part of stdout
		err    string // and of stderr
	}{
		{[]string{"ps", "--for", "100ms"}, nil, 0, "of which the kernel tells nothing", ""},
		{[]string{"ps", "--for", "100ms", pid}, nil, 1, "", nothing},
		{[]string{"ps", "--for", "100ms", "--fail-on", "warning", "nosuchprogram"}, nil, 1, "", ""},
		{[]string{"explain", pid}, nil, 0, nothing, ""},
		{[]string{"explain", "--fail-on", "warning", pid}, nil, 1, nothing, "--fail-on: what is wrong with process"},
		{[]string{"explain", pid}, syscall.SIGTERM, 130, "", ""},
		{[]string{"explain", pid}, os.Interrupt, 130, "", ""},
		{[]string{"watch", "--for", "100ms", pid}, nil, 0, "Watching", ""},
		{[]string{"profile", pid}, nil, 1, "", "there is no net/http/pprof to ask"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			cmd := exec.Command(program, c.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
			defer late.Stop()
			if c.signal != nil {
				time.Sleep(500 * time.Millisecond) // until it waits for the kernel
				cmd.Process.Signal(c.signal)
			}
			code := 0
			var exit *exec.ExitError
			if err := cmd.Wait(); errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			if code != c.code || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, &stdout, &stderr)
			}
		})
	}
}
