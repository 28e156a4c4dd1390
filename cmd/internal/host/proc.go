package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// anonMemory is the process's memory that belongs to no file, 0 when it is not known.
func anonMemory(root string, pid int) int64 {
	text, err := os.ReadFile(procs.Dir(root, pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), "\nRssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if !ok || err != nil || kb < 0 || kb > 1<<50 {
		return 0
	}
	return kb << 10
}

// readSystem reads the times of all CPUs since the system's start, in seconds.
func readSystem(root string) System {
	h, ok := procs.ReadHostTimes(root)
	return System{CPUs: h.CPUs, Wall: time.Since(began), Busy: h.Busy.Seconds(), Steal: h.Steal.Seconds(), Known: ok}
}

var began = time.Now()
