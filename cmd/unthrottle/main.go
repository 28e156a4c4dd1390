// Command unthrottle finds, fixes and prevents CPU-limit trouble in Go programs. "unthrottle help" shows its verbs.
package main

import (
	"context"
	"os"

	"github.com/unthrottle/unthrottle/cmd/internal/command/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
