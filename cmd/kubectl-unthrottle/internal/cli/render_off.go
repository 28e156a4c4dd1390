//go:build norender

package cli

import (
	"errors"
	"io"
)

const canRender = false

func serveRenders(io.Reader, io.Writer) error { return errors.New("this build renders nothing") }
