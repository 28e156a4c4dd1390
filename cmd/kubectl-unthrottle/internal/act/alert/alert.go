// Package alert answers: which of the agents' metrics should alert someone, and what does the alert say? In go options; out come
// rules for Prometheus, as a file of rules or as an object of its operator, and a dashboard for Grafana.
//
// A container that its limit throttles is no news: people switch off alerts that say only that. So throttling is a warning only
// where its cause is known, by a finding of package rule, and then the alert says what to do. One alert is for all pods of a
// workload, and if there are several causes it names the first.
//
// Where no agent may run, other rules use what programs, the kubelet and kube-state-metrics export anyway.
//
// It knows metrics by their names alone, and asks neither an agent nor Prometheus.
package alert

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Format is how the rules are written.
type Format string

const (
	File   Format = "file"           // what rule_files of Prometheus' configuration names
	Object Format = "prometheusrule" // what Prometheus' operator reads
)

// From is whose metrics the rules use.
type From string

const (
	Agents   From = "agents"   // our agents', one on each node
	Programs From = "programs" // the programs' own, and those that a cluster has anyway: where no agent may run
)

// Runbook is where the alerts are described.
const Runbook = "https://github.com/unthrottle/unthrottle/blob/main/docs/runbook.md"

// Options say what is generated. Default has the usual.
type Options struct {
	From      From
	As        Format
	Name      string // of the object
	Namespace string // of the object
	Labels    map[string]string

	Throttled  float64       // share of the periods from which throttling alone is an alert
	WithCause  float64       // the same where its cause is known
	For        time.Duration // how long something must last
	Window     time.Duration // of rates, and how long something stays found
	Exempt     []string      // namespaces that are left out
	KeepLabels []string      // that tell several clusters apart
	Runbook    string        // the page whose headings are the alerts
}

// Default are the options where nothing is asked for.
func Default() Options {
	return Options{
		From: Agents, As: File, Name: "unthrottle-agent", Namespace: "unthrottle",
		Throttled: 0.25, WithCause: 0.1, For: 15 * time.Minute, Window: 5 * time.Minute, Runbook: Runbook,
	}
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	promLabel  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Check says what is wrong with options.
func (o *Options) Check() error {
	for _, n := range append([]string{o.Name, o.Namespace}, o.Exempt...) {
		if !objectName.MatchString(n) {
			return fmt.Errorf("%q is not a valid name: lower-case letters, digits and -, 63 at most", n)
		}
	}
	for _, l := range o.KeepLabels {
		if !promLabel.MatchString(l) {
			return fmt.Errorf("%q is not a Prometheus label, such as cluster", l)
		}
		for _, own := range append(labels, "rule", "severity", "level", "instance", "job") {
			if l == own {
				return fmt.Errorf("the label %s has a meaning of its own here: --keep-label is for one that tells clusters apart", l)
			}
		}
	}
	switch {
	case !(o.Throttled > 0 && o.Throttled < 1), !(o.WithCause > 0 && o.WithCause < 1):
		return errors.New("a share of the periods is more than 0 % and less than 100 %")
	case o.WithCause > o.Throttled:
		return errors.New("the share from which throttling is reported can't be higher where its cause is known than where it is not")
	case o.Window < time.Second || o.Window%time.Second != 0 || o.For < 0 || o.For%time.Second != 0:
		return errors.New("times are whole seconds")
	}
	return nil
}

// A Group is rules that are evaluated one after the other.
type Group struct {
	Name  string `yaml:"name"`
	Rules []Rule `yaml:"rules"`
}

// A Rule records a series, or is an alert.
type Rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type groups struct {
	Groups []Group `yaml:"groups"`
}

// NameOfPrograms is the usual name of an object with rules from programs. Both may be there, as where some nodes can't have an agent.
const NameOfPrograms = "unthrottle-programs"

const beginPrograms = `# Written by kubectl unthrottle alerts --from programs. What each alert means, and what to do about it:
# %s
#
# The programs' own metrics must be scraped with the labels namespace and pod, and container where a pod has several.
`

const begin = `# Written by kubectl unthrottle alerts. What each alert means, and what to do about it:
# %s
#
# Metrics of unthrottle's agents must be scraped with honor_labels: true, as those of kube-state-metrics: their labels
# namespace, pod and container are those of the programs, not of the agent.
`

// Write writes the rules.
func Write(w io.Writer, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	var document any = groups{Groups(o)}
	if o.As == Object {
		meta := map[string]any{"name": o.Name, "namespace": o.Namespace}
		if len(o.Labels) > 0 {
			meta["labels"] = o.Labels
		}
		document = struct {
			APIVersion string         `yaml:"apiVersion"`
			Kind       string         `yaml:"kind"`
			Metadata   map[string]any `yaml:"metadata"`
			Spec       groups         `yaml:"spec"`
		}{"monitoring.coreos.com/v1", "PrometheusRule", meta, groups{Groups(o)}}
	}
	var b strings.Builder
	head := begin
	if o.From == Programs {
		head = beginPrograms
	}
	fmt.Fprintf(&b, head, o.Runbook)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(document), e.Close()); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Groups are the rules as data.
func Groups(o Options) []Group {
	var programs []Rule
	if o.From == Programs {
		for _, a := range exportedAlerts() {
			programs = append(programs, o.alert(a, exported))
		}
		return []Group{
			{"unthrottle.exported.records", o.exportedRecords()},
			{"unthrottle.exported", append(programs, o.nothingExported())},
		}
	}
	for _, a := range alerts() {
		programs = append(programs, o.alert(a, toldByAgents))
	}
	return []Group{
		{"unthrottle.records", o.records()},
		{"unthrottle.programs", programs},
		{"unthrottle.agents", o.agents()},
	}
}
