package procs

import (
	"strings"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// CPUModel is what the CPUs call themselves in /proc/cpuinfo, such as "AMD EPYC 7B13"; "" where they don't: ARM's have no such line.
func CPUModel() string {
	data, _ := foreign.Read("", "/proc/cpuinfo", foreign.System)
	return parseCPUModel(string(data))
}

func parseCPUModel(text string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
