package loadtest

import (
	"fmt"
	"os"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// A host is what a machine's CPUs have done so far.
type host struct {
	procs.HostTimes
	known bool
	at    time.Time
}

func readHost() host {
	times, known := procs.ReadHostTimes("")
	return host{times, known, time.Now()}
}

// lateBecause tells whose fault it was that a generator was late: what took the CPUs from it, and whether it might have had
// the right to them. The server's CPU time is 0 where it is not known, or of another machine.
func lateBecause(before, after host, r *load.Result, server time.Duration, realtime, root bool) (texts []string) {
	const stolen, others = 0.03, 0.15 // below it is noise
	if before.known && after.known && after.Total > before.Total {
		if share := float64(after.Steal-before.Steal) / float64(after.Total-before.Total); share > stolen {
			texts = append(texts, fmt.Sprintf("the hypervisor took %.0f %% of the CPU time", 100*share))
		}
		wall := after.at.Sub(before.at).Seconds()
		if theirs := (after.Busy - before.Busy - r.CPU - server).Seconds() / wall; theirs > others {
			whose := "other programs"
			if server == 0 {
				whose = "the server and other programs"
			}
			texts = append(texts, fmt.Sprintf("%s used %.1f of the CPUs", whose, theirs))
		}
	}
	if r.Plan.Rate > 0 && !realtime {
		if root {
			return append(texts, "it has no real-time priority, which --realtime gives it")
		}
		return append(texts, "it has no real-time priority, which takes root or CAP_SYS_NICE")
	}
	return texts
}

func root() bool { return os.Geteuid() == 0 }
