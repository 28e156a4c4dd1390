// Command program does nothing for a time, with or without something alongside, and prints what that took: see command idle.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/guard"
)

func main() {
	length, err := time.ParseDuration(os.Args[2])
	if err == nil {
		err = begin(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(2 * time.Second) // the start does not count
	before := now()
	time.Sleep(length)
	after := now()
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"cpu": (after.cpu - before.cpu) / length.Seconds() * 1e6, "switches": (after.switches - before.switches) / length.Seconds(),
		"bytes": (after.bytes - before.bytes) / length.Seconds(),
	})
}

func begin(what string) error {
	switch what {
	case "nothing":
	case "ticker":
		go func() {
			for range time.Tick(time.Second) {
			}
		}()
	case "watch":
		go unthrottle.Watch(context.Background(), unthrottle.Options{}, nil)
	case "guard":
		_, err := guard.Start(guard.Options{})
		return err
	case "recorder":
		return trace.NewFlightRecorder(trace.FlightRecorderConfig{}).Start()
	default:
		return fmt.Errorf("there is no %q", what)
	}
	return nil
}

// counts are what the process has used so far.
type counts struct{ cpu, switches, bytes float64 }

func now() counts {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return counts{float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, float64(u.Nvcsw), float64(m.TotalAlloc)}
}
