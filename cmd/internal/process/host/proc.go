package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// anonMemory is the process's memory that belongs to no file, 0 when it is not known.
func anonMemory(root string, pid int) int64 {
	text, err := foreign.ReadRecord(root, procs.Dir("", pid)+"/statm", foreign.Record)
	if err != nil {
		return 0
	}
	// Pages: size, resident, and those of resident that belong to files or are shared.
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseInt(fields[1], 10, 40)
	shared, err2 := strconv.ParseInt(fields[2], 10, 40)
	if err1 != nil || err2 != nil || shared < 0 || resident < shared {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// readSystem reads the times of all CPUs since the system's start, in seconds.
func readSystem(root string) System {
	h, ok := procs.ReadHostTimes(root)
	return System{CPUs: h.CPUs, Wall: time.Since(began), Busy: h.Busy.Seconds(), Steal: h.Steal.Seconds(), Known: ok}
}

var began = time.Now()
