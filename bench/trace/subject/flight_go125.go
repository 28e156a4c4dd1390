//go:build go1.25

package main

import (
	"io"
	"runtime/trace"
	"time"
)

func startFlight(w io.Writer) (stop func() error, err error) {
	f := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: 10 * time.Second, MaxBytes: 64 << 20})
	return func() error {
		_, err := f.WriteTo(w)
		f.Stop()
		return err
	}, f.Start()
}
