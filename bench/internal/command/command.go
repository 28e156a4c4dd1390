// Package command answers: how does a benchmark's command end, and what does it call? It is what several of them would repeat.
package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Main runs a command whose flags are parsed. When it is interrupted, its context ends and it cleans up.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	name := filepath.Base(os.Args[0])
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", name)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Output is what a command says on stdout. Its error has the end of what it said on stderr.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		const most = 1000
		said := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said[max(0, len(said)-most):])
	}
	return out, nil
}

// Build builds a package of this project.
func Build(ctx context.Context, file, name string, flags ...string) error {
	args := append([]string{"build", "-o", file}, flags...)
	_, err := Output(exec.CommandContext(ctx, "go", append(args, "github.com/unthrottle/unthrottle/"+name)...))
	return err
}

// FreeAddress is one that a server can listen on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
