// Command kubectl-unthrottle finds what is wrong with GOMAXPROCS in Kubernetes' manifests. In a PATH it is a plugin:
// "kubectl unthrottle help" shows its verbs.
package main

import (
	"context"
	"os"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
