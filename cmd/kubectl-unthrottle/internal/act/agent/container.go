package agent

import (
	"strings"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A Container is what metrics say about one with Go programs. A program's figures are those of the main one, which uses the most CPU.
type Container struct {
	Namespace, Pod, Name string
	OwnerKind, Owner     string
	Processes            int

	GoVersion, GoLine, SetBy string
	Procs, Expected          int     // 0: not known
	Limit                    float64 // in force; 0: none
	LimitBy                  string  // container, pod or above
	CPU                      *time.Duration
	Quotas                   []Quota // at most one of a kind
	Frozen, Running          *float64

	Findings map[string]finding.Severity
	Muted    map[string]bool // rules that found something, and are muted
}

// A Quota is what a level with a quota has counted.
type Quota struct {
	Of string // container, pod or above
	cgroup.Counters
	cpus float64
}

// takeMain takes the figures of a container's main program.
func (c *Container) takeMain(p *host.Process, doc *result.AgentProcess, levels []level) {
	limits := p.System.Limits
	c.GoVersion, c.GoLine, c.SetBy = label(doc.GoVersion), label(doc.GoLine), doc.SetBy
	c.Procs, c.Expected = p.Procs(), unthrottle.Decide(limits, unthrottle.Policy{}).Procs
	c.Limit, c.LimitBy, c.CPU, c.Quotas, c.Frozen, c.Running = 0, "", nil, nil, nil, nil
	for _, v := range levels {
		of := v.owner()
		if of == ofContainer && v.total.CPUKnown {
			c.CPU = new(v.total.CPU) // of the outermost, if it has made others inside
		}
		if limits.State == cgroup.Limited && v.dir == limits.From {
			c.Limit, c.LimitBy = limits.CPUs, of
		}
		if v.quota > 0 && v.total.Known {
			c.addQuota(Quota{of, v.total, v.quota})
		}
	}
	if doc.Frozen != nil {
		c.Frozen = &doc.Frozen.Share
	}
	if doc.Starvation != nil {
		c.Running = &doc.Starvation.Running
	}
}

// addQuota keeps the smallest quota of a kind.
func (c *Container) addQuota(q Quota) {
	for i := range c.Quotas {
		if c.Quotas[i].Of == q.Of {
			if q.cpus < c.Quotas[i].cpus {
				c.Quotas[i] = q
			}
			return
		}
	}
	c.Quotas = append(c.Quotas, q)
}

// label makes what a program's file says fit for a label: anyone may have written it.
func label(text string) string {
	const most = 64
	text = strings.ToValidUTF8(text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
