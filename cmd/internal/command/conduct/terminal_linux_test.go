package conduct

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// open makes a terminal of some size, and returns what closes it and reads all that was written to it.
func open(t *testing.T, width, height uint16) (screen *os.File, written func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("there is no other end of it: ", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
	return screen, func() string {
		screen.Close()
		all, err := io.ReadAll(master)
		if !errors.Is(err, unix.EIO) { // what the kernel says once the last program has closed it
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(all), "\r\n", "\n")
	}
}

func TestTerminal(t *testing.T) {
	screen, written := open(t, 12, 5)
	env := map[string]string{}
	terminal := TerminalOf(screen, func(name string) string { return env[name] })
	if terminal == nil {
		t.Fatal("it is none")
	}
	if w, h := terminal.Size(); w != 12 || h != 5 {
		t.Errorf("it is %d × %d", w, h)
	}
	for text, want := range map[string]string{"11 letters.": "11 letters.", "twelve of it": "twelve of …", "größer als das": "größer als…"} {
		if got := terminal.Fit(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	want := ""
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { terminal.Draw("one") }, "\rone\x1b[J\r"},
		{func() { terminal.Draw("one", "two", "three") }, "\rone\x1b[K\ntwo\x1b[K\nthree\x1b[J\x1b[2A\r"},
		{terminal.Clear, "\r\x1b[J"},
		{func() { terminal.Clear(); terminal.Draw("again") }, "\ragain\x1b[J\r"},
	} {
		step.do()
		fmt.Fprint(screen, "|")
		want += step.want + "|"
	}
	env["TERM"] = "dumb"
	if TerminalOf(screen, func(name string) string { return env[name] }) != nil {
		t.Error("a dumb one can't be drawn on")
	}
	if got := written(); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

// TestNone holds that what isn't a terminal is not taken for one, and can be cleared all the same.
func TestNone(t *testing.T) {
	terminal := TerminalOf(new(bytes.Buffer), os.Getenv)
	if terminal != nil {
		t.Error("a buffer is a terminal")
	}
	terminal.Clear()
}
