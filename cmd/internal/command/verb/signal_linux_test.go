package verb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// asDeaf in the environment makes the test binary a command that looks at no context.
const asDeaf = "VERB_TEST_DEAF"

func TestMain(m *testing.M) {
	if os.Getenv(asDeaf) == "" {
		os.Exit(m.Run())
	}
	root := &cobra.Command{Use: "deaf", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Println("waiting")
		<-cmd.Context().Done()
		fmt.Println("asked")
		select {}
	}}
	os.Exit(Run(context.Background(), IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}, root))
}

// TestSignals: the first signal asks, the second one ends what does not listen, and one SIGTERM ends it when its time is over.
func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		signals []syscall.Signal
		ends    syscall.Signal
	}{
		"Ctrl-C twice":       {[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, syscall.SIGINT},
		"SIGTERM":            {[]syscall.Signal{syscall.SIGTERM}, syscall.SIGTERM},
		"SIGTERM, Ctrl-C":    {[]syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, syscall.SIGINT},
		"Ctrl-C and SIGTERM": {[]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "SIGTERM" { // which waits for as long as a server may take to end
				slowtest.Skip(t)
			}
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "/proc/self/exe")
			cmd.Env = append(os.Environ(), asDeaf+"=1")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for _, sig := range c.signals {
				lines.Scan() // it waits, or was asked once
				cmd.Process.Signal(sig)
			}
			for lines.Scan() {
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) {
				t.Fatalf("it ended with %v", err)
			}
			if status := exit.Sys().(syscall.WaitStatus); status.Signal() != c.ends {
				t.Errorf("ended by %v, want %v", status.Signal(), c.ends)
			}
		})
	}
}
