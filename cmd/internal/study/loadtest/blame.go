package loadtest

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// lateBecause says whose fault it was that a generator was late: what took the CPUs from it, and whether it could have had a right to them.
// The server's CPU time is 0 where it is not known, or where it is on another machine.
func lateBecause(before, after procs.HostMoment, r *load.Result, server time.Duration, realtime, root bool) (texts []string) {
	stolen, others := after.Since(before, r.CPU+server)
	if stolen > 0 {
		texts = append(texts, fmt.Sprintf("the hypervisor took %.0f %% of the CPU time", 100*stolen))
	}
	if others > 0 {
		whose := "other programs"
		if server == 0 {
			whose = "the server and other programs"
		}
		texts = append(texts, fmt.Sprintf("%s used %.1f of the CPUs", whose, others))
	}
	if r.Plan.Rate > 0 && !realtime {
		if root {
			return append(texts, "it has no real-time priority, which --realtime gives it")
		}
		return append(texts, "it has no real-time priority, which takes root or CAP_SYS_NICE")
	}
	return texts
}

// besideIt says what else the host did while a load was sent, which may be in its latencies; "" if it was little, or can't be known. The
// server's CPU time is 0 where it is on another machine; known is false where it is here, and that is not known.
func besideIt(before, after procs.HostMoment, r *load.Result, server time.Duration, known bool) string {
	stolen, others := after.Since(before, r.CPU+server)
	var texts []string
	if others > 0 && known {
		texts = append(texts, fmt.Sprintf("other programs used %.1f CPUs", others))
	}
	if stolen > 0 {
		texts = append(texts, fmt.Sprintf("the hypervisor took %.0f %% of the CPU time", 100*stolen))
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, ", and ") + ": latencies may be higher than on a quiet machine"
}

func root() bool { return os.Geteuid() == 0 }
