//go:build !go1.25

package main

import (
	"errors"
	"io"
)

func startFlight(io.Writer) (func() error, error) {
	return nil, errors.New("the flight recorder came with Go 1.25")
}
