//go:build linux

package guest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

const (
	guestEnv = "UNTHROTTLE_GUEST"       // set by guestinit: bare, or systemd
	agentEnv = "UNTHROTTLE_GUEST_AGENT" // set by group.start
	boxEnv   = "UNTHROTTLE_GUEST_BOX"   // set by place.command
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(boxEnv); kind != "" {
		fmt.Fprintln(os.Stderr, "entering box:", enterBox(box(kind), os.Args[1:]))
		os.Exit(1)
	}
	if os.Getenv(agentEnv) != "" {
		runAgent(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// needVM skips a test that is not in the virtual machine.
func needVM(t *testing.T) {
	t.Helper()
	if os.Getenv(guestEnv) != "bare" {
		t.Skip("needs the VM; run by vmtest")
	}
}

// needSystemd skips a test that is not in the virtual machine with systemd.
func needSystemd(t *testing.T) {
	t.Helper()
	if os.Getenv(guestEnv) != "systemd" {
		t.Skip("needs the VM with systemd; run by vmtest")
	}
}

// How long a condition may take, and how often it is looked at. The machine may
// be a hundred times slower than a real one.
const (
	patience = 90 * time.Second
	pause    = 50 * time.Millisecond
)
