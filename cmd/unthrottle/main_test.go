package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what was printed into the scripts' expected files")

// asCommand in the environment makes the test binary the command.
const asCommand = "UNTHROTTLE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"unthrottle": main})
}

// TestScripts runs the command as its users do. A script's name is the verb's; cases that came from bugs carry the
// issue's number.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOMAXPROCS", "")
			e.Setenv("GODEBUG", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"mask":  mask,
			"end":   end,
		},
	})
}

// exits runs a command and compares its exit code, as in: exits 2 unthrottle bogus.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// mask replaces in a file what changes from run to run: mask FILE.
func mask(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		path := ts.MkAbs(file)
		data, err := os.ReadFile(path)
		ts.Check(err)
		text := string(data)
		text = regexp.MustCompile(`"made_by": ".*?"`).ReplaceAllString(text, `"made_by": "MASKED"`)
		text = regexp.MustCompile(`"time": ".*?"`).ReplaceAllString(text, `"time": "MASKED"`)
		text = strings.ReplaceAll(text, filepath.ToSlash(ts.Getenv("WORK")), "$WORK")
		ts.Check(os.WriteFile(path, []byte(text), 0o666))
	}
}

// end kills the process whose pid is the last word of a file, and which must be running: end FILE.
func end(ts *testscript.TestScript, _ bool, args []string) {
	words := strings.Fields(ts.ReadFile(args[0]))
	if len(words) == 0 {
		ts.Fatalf("%s holds no pid", args[0])
	}
	pid, err := strconv.Atoi(words[len(words)-1])
	ts.Check(err)
	p, err := os.FindProcess(pid)
	ts.Check(err)
	ts.Check(p.Kill())
}
