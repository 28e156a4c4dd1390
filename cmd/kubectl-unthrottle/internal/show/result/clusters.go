package result

import (
	"errors"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

// AuditCluster is one of several clusters of an audit.
type AuditCluster struct {
	Context   string                `json:"context"`
	Error     string                `json:"error,omitempty"` // why it could not be read
	Cluster   *Cluster              `json:"cluster"`         // null: it could not be read
	Agents    *AuditAgents          `json:"agents"`
	Registry  *AuditRegistry        `json:"registry"` // null: none was asked
	Workloads int                   `json:"workloads"`
	Verdicts  map[audit.Verdict]int `json:"verdicts"`

	sources []string
}

// Apart is the document of one of several clusters, or why it could not be read.
type Apart struct {
	Context string
	Doc     *Audit
	Err     error
	Hint    string
}

// Together makes one document of those of several clusters. joined are the workloads of all.
func Together(all []Apart, joined *audit.Result) *Audit {
	var names []string
	d := &Audit{Cluster: &Cluster{Differ: []string{}}, Agents: AuditAgents{Failed: []AuditFailure{}}, Totals: joined.Totals, Workloads: joined.Workloads, Problems: []Problem{}}
	for _, one := range all {
		names = append(names, one.Context)
		if one.Err != nil {
			d.Problems = append(d.Problems, Problem{At: "context " + one.Context, Severity: string(manifest.Error), Text: "it could not be read: " + one.Err.Error(), Hint: one.Hint})
			d.Clusters = append(d.Clusters, AuditCluster{Context: one.Context, Error: one.Err.Error()})
			continue
		}
		d.Clusters = append(d.Clusters, d.take(one))
	}
	d.Cluster.About = quantity.Plural(len(all), "cluster") + ": " + strings.Join(names, ", ")
	if d.Totals.Workloads == 0 {
		d.nothing = "no workload was found in " + quantity.Plural(len(all), "cluster")
	}
	d.Verdict = d.verdict()
	if n := d.missing(); n > 0 {
		d.Verdict = strings.TrimSuffix(d.Verdict, ".") + "; " + quantity.Count(n) + " of " + quantity.Plural(len(all), "cluster") + " could not be read."
	}
	return d
}

// take adds what was found in one cluster.
func (d *Audit) take(one Apart) AuditCluster {
	from := one.Doc
	d.Cluster.Objects += from.Cluster.Objects
	for _, text := range from.Cluster.Differ {
		d.Cluster.Differ = append(d.Cluster.Differ, one.Context+": "+text)
	}
	a := &d.Agents
	a.Asked = a.Asked || from.Agents.Asked
	a.Once = a.Once || from.Agents.Once
	a.Found += from.Agents.Found
	a.Answered += from.Agents.Answered
	a.Programs += from.Agents.Programs
	for _, f := range from.Agents.Failed {
		f.Context = one.Context
		a.Failed = append(a.Failed, f)
	}
	if r := from.Registry; r != nil {
		if d.Registry == nil {
			d.Registry = &AuditRegistry{}
		}
		d.Registry.Images += r.Images
		d.Registry.Read += r.Read
	}
	if from.nothing != "" {
		d.Problems = append(d.Problems, Problem{At: "context " + one.Context, Severity: string(manifest.Warning), Text: from.nothing})
	}
	for _, p := range from.Problems {
		p.At = strings.TrimSuffix(one.Context+": "+p.At, ": ")
		d.Problems = append(d.Problems, p)
	}
	return AuditCluster{
		Context: one.Context, Cluster: from.Cluster, Agents: &from.Agents, Registry: from.Registry, Workloads: from.Totals.Workloads, Verdicts: from.Totals.Verdicts,
		sources: from.Sources(),
	}
}

// missing is how many of several clusters could not be read.
func (d *Audit) missing() (n int) {
	for _, c := range d.Clusters {
		if c.Error != "" {
			n++
		}
	}
	return n
}

// Each says how each of several clusters fares.
func (d *Audit) Each() (texts []string) {
	for _, c := range d.Clusters {
		if c.Error != "" {
			texts = append(texts, c.Context+": could not be read")
			continue
		}
		parts := []string{quantity.Plural(c.Workloads, "workload")}
		for _, v := range []audit.Verdict{audit.Wrong, audit.AsWritten, audit.NotHere, audit.Open} {
			if n := c.Verdicts[v]; n > 0 {
				parts = append(parts, quantity.Count(n)+" "+inWords[v])
			}
		}
		texts = append(texts, c.Context+": "+strings.Join(parts, ", "))
	}
	return texts
}

// ErrNoCluster is the error if none of several clusters could be read.
func ErrNoCluster(all []Apart) error {
	if slices.ContainsFunc(all, func(a Apart) bool { return a.Err == nil }) {
		return nil
	}
	var texts []string
	for _, a := range all {
		texts = append(texts, a.Context+": "+a.Err.Error())
	}
	return errors.New("no cluster could be read: " + strings.Join(texts, "; "))
}
