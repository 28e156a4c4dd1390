// Package helper answers: what is left of a test that is killed in the middle? A test starts its own program once more, which
// runs TestHelper, prints a line and waits; then it looks, kills it and looks again.
package helper

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Command is this test's program, which will run TestHelper with a variable set.
func Command(variable, value string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$")
	cmd.Env = append(os.Environ(), variable+"="+value)
	return cmd
}

// Start starts it, and returns the first line that it prints. It ends with kill, or with the test.
func Start(t *testing.T, variable, value string) (line string, kill func()) {
	t.Helper()
	cmd := Command(variable, value)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	line, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the helper printed %q, %v", line, err)
	}
	return strings.TrimSpace(line), kill
}
