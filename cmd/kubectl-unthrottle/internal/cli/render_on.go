//go:build !norender

package cli

import (
	"io"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render/engine"
)

// canRender says whether this build renders charts and kustomizations. One for nodes and webhooks does not: go build -tags norender.
const canRender = true

func serveRenders(in io.Reader, out io.Writer) error { return engine.Serve(in, out) }
