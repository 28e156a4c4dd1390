package procs

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	const stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 7 3 0 0 20 0 1 0 1234 1000 1"
	c := ParseClock("cpu 1 2 3\nbtime 1700000000\nprocesses 3\n")
	if at, ok := c.ParseStarted(stat); !ok || !at.Equal(time.Unix(1700000012, 340e6)) {
		t.Errorf("it began at %v, %v", at, ok)
	}
	for _, text := range []string{"", "btime \n", "btime x\n", "btime -1\n", "btime 99999999999999999999\n", "btime 99999999999999\n"} {
		if at, ok := ParseClock(text).ParseStarted(stat); ok {
			t.Errorf("%q gives %v", text, at)
		}
	}
	for _, text := range []string{"", ")", "42 (a) S 1", "42 (a) S 1 42 42 0 -1 4194560 1 0 0 0 7 3 0 0 20 0 1 0 x 1000 1"} {
		if at, ok := c.ParseStarted(text); ok {
			t.Errorf("%q gives %v", text, at)
		}
	}
}

// A file is known for as long as some process of it is read between two calls of Forget.
func TestForget(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var programs Programs
	first, err := readFrom(&programs, self)
	if err != nil {
		t.Fatal(err)
	}
	programs.Forget()
	if again, _ := readFrom(&programs, self); again != first {
		t.Error("a program that was read since is forgotten")
	}
	programs.Forget()
	programs.Forget()
	if n := len(programs.memo.known) + len(programs.memo.before); n != 0 {
		t.Errorf("%d programs are known that nobody reads", n)
	}
}

func TestStarted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	at, ok := ReadClock("").Started("", os.Getpid())
	if age := time.Since(at); !ok || age < -2*time.Second || age > time.Hour {
		t.Error(fmt.Sprint("this process began at ", at, ok))
	}
}

func readFrom(programs *Programs, path string) (*Program, error) {
	return programs.file("", path, false)
}
