package main

import (
	"os"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestKernelMemory: what a program's collector uses is found in a running program, alongside the limit that the kernel holds it to.
func TestKernelMemory(t *testing.T) {
	slowtest.Skip(t)
	kerneltest.New(t) // or it is skipped
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ env, want string }{
		{"GOGC=800", "no GOMEMLIMIT"},
		{"GOGC=off", "no GOMEMLIMIT"},
		{"GOMEMLIMIT=256MiB", "GOMEMLIMIT too high"},
		{"GOMEMLIMIT=300MiB", "GOMEMLIMIT too high"},
		{"GOMEMLIMIT=230MiB", "fine"},
	} {
		t.Run(test.env, func(t *testing.T) {
			server := command(t, []string{test.env}, "run", "--quiet", "--memory", "256MiB", "--", self, "serve", "--listen", "127.0.0.1:0")
			listening(t, server)
			family := procs.Descendants("", server.Process.Pid)
			if got := psOf(t, family[len(family)-1])[0]; !strings.Contains(got.Verdict, test.want) {
				t.Errorf("%q, want %q", got.Verdict, test.want)
			}
		})
	}
}
