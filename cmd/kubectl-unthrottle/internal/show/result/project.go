package result

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A Project is what was left out because the user said so, in a file of the project or on the command line. It is in every
// document: what is not looked at must be visible as such.
type Project struct {
	Config   string   `json:"config,omitempty"`    // the file; "": none
	RulesOff []string `json:"rules_off,omitempty"` // by that file
	Excluded int      `json:"excluded,omitempty"`  // files and directories
}

// looked says what was looked at, and what was not.
func (p Project) looked(at string) string {
	if p.Config != "" {
		at += "; " + p.Config
		if len(p.RulesOff) > 0 {
			at += ": " + quantity.List(p.RulesOff) + " off"
		}
	}
	if p.Excluded > 0 {
		at += "; " + quantity.Count(p.Excluded) + " excluded"
	}
	return strings.TrimPrefix(at, "; ")
}

// Looked says what was looked at: files or objects, workloads, and by which file of the project.
func (d *Lint) Looked() string {
	at := quantity.Plural(d.Files, "file")
	if d.Cluster != nil {
		at = d.Cluster.About
	}
	return d.looked(at + ", " + quantity.Plural(d.Workloads, "workload"))
}

// Looked says what was looked at: files, workloads, and by which file of the project.
func (d *Fix) Looked() string {
	return d.looked(quantity.Plural(d.Files, "file") + ", " + quantity.Plural(d.Workloads, "workload"))
}

// Looked says at which objects of a cluster, by which file of the project, and what was left out; "": there is nothing to be said.
func (d *Forecast) Looked() string {
	if d.Cluster == nil {
		return d.looked("")
	}
	return d.looked(d.Cluster.About)
}
