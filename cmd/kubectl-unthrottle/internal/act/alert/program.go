package alert

import (
	"fmt"
	"strings"
)

// stale is the rule of a GOMAXPROCS that was fixed before the limit changed.
const stale = "stale"

// tight is the rule of a collector that has too little memory.
const tight = "memory-too-tight"

// when says what an alert depends on.
type when uint8

const (
	foundAndThrottled when = iota // a finding that explains the throttling that is there
	foundAlone                    // a finding that matters without any
	throttledAlone                // the container is throttled, and no finding says why
	podAlone                      // its pod is, and the container's own counters show nothing
	aboveAlone                    // what is above the pod is
)

// An alert is one about programs.
type alert struct {
	rule     string // of package rule; what no rule is for has a name of its own
	name     string
	severity string
	when     when
	summary  string // goes on after the workload's name
	means    string // after what is known about a pod; a template
	do       string // what to do next; a template
}

// Templates of what to do. Number is Go's own choice under the limit, as far as it is known.
const (
	number = `{{ with $right }}{{ . }}{{ else }}the number of CPUs it may use{{ end }}`

	// What to do about a GOMAXPROCS in the spec, by what the program does without. As choice.Alone has it.
	follows = `match "^1\\.(2[5-9]|[3-9][0-9])" $line`
	ofSpec  = `{{ if ` + follows + ` }}take GOMAXPROCS out of the container's env, or set it to ` + number +
		`{{ else if $line }}set GOMAXPROCS to ` + number + ` in the container's env: its go line is {{ $line }}, and without it the program takes the CPUs of whatever node it is on` +
		`{{ else }}set GOMAXPROCS to ` + number + ` in the container's env, or take it out if the program is built with Go 1.25 or later and has a go line to match{{ end }}; kubectl unthrottle audit makes the patch`

	// By what gave the program its GOMAXPROCS.
	setRight = `{{ if eq $from "spec" }}` + ofSpec +
		`{{ else if eq $from "image-or-runtime" "runtime" }}set GOMAXPROCS to ` + number + ` in the container's env, which replaces what the image or the container runtime sets` +
		`{{ else if eq $from "code" }}take the call of runtime.GOMAXPROCS out of the program, or set GOMAXPROCS=` + number + ` in the container's env where the call respects it` +
		`{{ else if eq $from "automaxprocs" }}import github.com/unthrottle/unthrottle/maxprocs in place of automaxprocs, or set GOMAXPROCS=` + number + ` in the container's env` +
		`{{ else }}build it with Go 1.25 or later and a go line of 1.25 or later, or set GOMAXPROCS=` + number + ` in the container's env{{ end }}`

	restart = `{{ if eq $from "spec" "image-or-runtime" "runtime" }}restart the pods now (kubectl -n {{ $labels.namespace }} delete pod {{ $pod }}), and so that it does not come back take GOMAXPROCS out of the container's env, ` +
		`or give its cpu the resizePolicy RestartContainer{{ else if eq $from "code" "automaxprocs" }}restart the pods now (kubectl -n {{ $labels.namespace }} delete pod {{ $pod }}), and so that it does not come back ` +
		`call unthrottle.Watch, which follows the limit, in place of what fixes GOMAXPROCS{{ else }}restart the pods now (kubectl -n {{ $labels.namespace }} delete pod {{ $pod }}), and build the program with Go 1.25 or later, which follows its limit{{ end }}`
)

// alerts are those about programs. Where several fit one container, the first that explains it speaks.
func alerts() []alert {
	return []alert{
		{
			stale, "UnthrottleStale", "warning", foundAlone,
			"GOMAXPROCS did not follow when the CPU limit was changed",
			"It was fixed before the limit was changed while the program ran, and does not follow.", restart,
		},
		{
			"too-many-ps", "UnthrottleTooManyPs", "warning", foundAndThrottled,
			"GOMAXPROCS is far above the CPU limit, which throttles it",
			"That is another machine's number: its threads use up the limit together, and then all of them stand still.", setRight,
		},
		{
			"limit-not-seen", "UnthrottleLimitNotSeen", "warning", foundAndThrottled,
			"what chose GOMAXPROCS does not see the CPU limit, which throttles it",
			"What chose the number does not know of the limit.", setRight,
		},
		{
			"not-following", "UnthrottleNotFollowing", "warning", foundAndThrottled,
			"GOMAXPROCS is fixed at a number that does not suit the CPU limit, which throttles it",
			"A call in the program has fixed the number, and it does not suit the limit.",
			`call unthrottle.Watch in place of what fixes it, which follows the limit; or set GOMAXPROCS=` + number + ` in the container's env where the call respects it`,
		},
		{
			tight, "UnthrottleMemoryTooTight", "warning", foundAlone,
			"its garbage collector takes much of its CPU time, as memory is short",
			"Hardly more memory is there than is alive, so that it collects all the time. It is not killed; it is slow.",
			`give it more memory, or less to hold: kubectl unthrottle explain says how much; another GOGC changes nothing`,
		},
		{
			"sweeper-spin", "UnthrottleSweeperSpin", "warning", foundAndThrottled,
			"a tiny heap is collected all the time, and the CPU limit throttles it",
			"A heap of a few megabytes is collected hundreds of times a second, and that takes most of what the limit allows.",
			`import _ "github.com/unthrottle/unthrottle/auto/heapfloor", or set GOGC=400 in the container's env`,
		},
		{
			"too-few-ps", "UnthrottleTooFewPs", "info", foundAlone,
			"GOMAXPROCS is below the CPU limit, and all of it is in use",
			"It could use more CPUs than it has Ps, and they are all busy.", setRight,
		},
		{
			"throttled", "UnthrottleThrottled", "info", throttledAlone,
			"its CPU limit throttles it, and GOMAXPROCS is not to blame",
			"Nothing is wrong with GOMAXPROCS, so this may be as it should be: a burst that runs at once and pays with a short stall.",
			`ask whether its users wait; if so, it needs a higher CPU limit or less work, and if not, mute throttled by annotation`,
		},
		{
			"pod-throttled", "UnthrottlePodThrottled", "info", podAlone,
			"the limit of the whole pod throttles it, which its containers' own counters do not show",
			"The limit belongs to the pod, and its containers share it: neither cAdvisor's metrics of the containers nor the programs themselves see that it is used up.",
			`raise spec.resources.limits.cpu of the pod, or give each container a limit of its own, so that Go in each chooses a GOMAXPROCS for its share`,
		},
		{
			"node-throttled", "UnthrottleNodeThrottled", "info", aboveAlone,
			"", "", "",
		},
	}
}

// causes are the rules that explain throttling, the first of them first.
func causes() (rules []string) {
	for _, a := range alerts() {
		if a.when == foundAndThrottled || a.rule == stale || a.rule == tight {
			rules = append(rules, a.rule)
		}
	}
	return rules
}

// before are the causes that speak in place of a finding.
func (a alert) before() string {
	var rules []string
	for _, r := range causes() {
		if r == a.rule {
			break
		}
		rules = append(rules, r)
	}
	if a.rule == "too-few-ps" { // it is not throttled, so only that one can be its cause
		rules = []string{stale}
	}
	return strings.Join(rules, "|")
}

// A source is what the alerts about programs are made of.
type source struct {
	verdict string // the series of what was found, by rule
	lookups []lookup
	more    []string // variables of its own
	state   func(a alert) string
}

// A lookup is a query for one thing that a description says about a pod.
type lookup struct{ variable, expr, take string }

const (
	aNumber = `value | printf "%.4g"`
	aShare  = `value | humanizePercentage`
)

var toldByAgents = source{
	verdict: verdict,
	lookups: []lookup{
		{"procs", "max(unthrottle_container_gomaxprocs{%s})", aNumber},
		{"right", "max(unthrottle_container_gomaxprocs_expected{%s})", aNumber},
		{"frozen", "max(avg_over_time(unthrottle_container_frozen_ratio{%s}[WINDOW]))", aShare}, // each is of a scan's two seconds
		{"limit", "min(unthrottle_container_limit_cpus{%s})", aNumber},
		{"from", info + "{%s}", `label "gomaxprocs_from"`},
		{"line", info + "{%s}", `label "go_line"`},
	},
	state: state,
}

// alert is the rule of an alert.
func (o *Options) alert(a alert, by source) Rule {
	r := Rule{
		Alert: a.name, For: span(o.For),
		Labels: map[string]string{"severity": a.severity, "rule": a.rule},
	}
	workload := []string{"namespace", "owner_kind", "owner"}
	switch a.when {
	case aboveAlone:
		r.Expr = fmt.Sprintf(`count by (%s) (%s{rule="%s"})`, o.by("node"), by.verdict, a.rule)
		r.Annotations = o.annotations(a.name,
			`Node {{ $labels.node }}: a CPU limit above its pods throttles them`,
			`On node {{ $labels.node }} {{ $value }} container{{ if ne $value 1.0 }}s{{ end }} with Go programs stood still because of a limit on a group above their pods, such as kubepods.slice or a slice of the node's own. `+
				`Their own limits and GOMAXPROCS have nothing to do with it. What to do: find the group with a quota (cpu.max that is not "max", on cgroup v1 cpu.cfs_quota_us above 0; systemctl show -p CPUQuotaPerSecUSec kubepods.slice), and ask who runs the nodes why it is there.`)
		return r
	case podAlone:
		r.Expr = fmt.Sprintf("count by (%s) (\n  max by (%s) (%s{rule=\"%s\"})\n)", o.by(workload...), o.by(append(workload, "pod")...), by.verdict, a.rule)
	default:
		workload = append(workload, "container")
		r.Expr = fmt.Sprintf(`count by (%s) (%s{rule="%s"})`, o.by(workload...), by.verdict, a.rule)
	}
	who, summary := "{{ $labels.owner_kind }} {{ $labels.namespace }}/{{ $labels.owner }}", ""
	if a.when == podAlone {
		summary = who + ": " + a.summary
	} else {
		summary = who + ", container {{ $labels.container }}: " + a.summary
		who = "Container {{ $labels.container }} of " + who
	}
	r.Annotations = o.annotations(a.name, summary, o.lookups(a, workload, by)+who+`: {{ $value }} pod{{ if ne $value 1.0 }}s{{ end }}{{ with $pod }}, such as {{ . }}{{ end }}.`+by.state(a)+a.means+" What to do: "+a.do+".")
	return r
}

// state is what is known about the pod that is named.
func state(a alert) string {
	text := `{{ with $limit }} Its limit is {{ . }} CPU{{ if ne . "1" }}s{{ end }}.{{ end }}` +
		`{{ with $procs }} Its GOMAXPROCS is {{ . }}{{ if eq $from "spec" }}, set by its spec{{ else if eq $from "image-or-runtime" }}, set by its image or the container runtime{{ else if eq $from "runtime" }}, set by the container runtime` +
		`{{ else if eq $from "code" }}, set by a call in the program{{ else if eq $from "automaxprocs" }}, set by automaxprocs{{ else if eq $from "unthrottle" }}, set by unthrottle{{ else if eq $from "default" }}, chosen by Go itself{{ end }}.{{ end }}`
	if a.when != foundAlone {
		text += `{{ with $share }} It is throttled in {{ . }} of the periods{{ with $frozen }}, and stands still for {{ . }} of the time{{ end }}.{{ end }}`
	}
	return text + " "
}

// lookups are queries for what a description says about a pod. What they don't find is left out of it.
func (o *Options) lookups(a alert, workload []string, by source) string {
	var b strings.Builder
	for _, v := range by.more {
		fmt.Fprintf(&b, `{{- $%s := "" -}}`, v)
	}
	b.WriteString(`{{- $pod := "" -}}{{- $container := "" -}}{{- $share := "" -}}{{- $procs := "" -}}{{- $right := "" -}}{{- $limit := "" -}}{{- $from := "" -}}{{- $line := "" -}}{{- $frozen := "" -}}` + "\n")
	match, args := matchers(append(append([]string{}, o.KeepLabels...), workload...), nil)
	fmt.Fprintf(&b, "{{- with printf `topk(1, %s{rule=%q,%s})` %s | query -}}\n", by.verdict, a.rule, match, args)
	b.WriteString(`{{- $pod = . | first | label "pod" -}}{{- $container = . | first | label "container" -}}{{- $share = . | first | value | humanizePercentage -}}` + "\n{{- end -}}\n")
	match, args = matchers(append(append([]string{}, o.KeepLabels...), "namespace", "pod", "container"), map[string]string{"pod": "$pod", "container": "$container"})
	for _, q := range by.lookups {
		fmt.Fprintf(&b, "{{- with printf `%s` %s | query -}}{{- $%s = . | first | %s -}}{{- end -}}\n", fmt.Sprintf(strings.Replace(q.expr, "WINDOW", span(o.Window), 1), match), args, q.variable, q.take)
	}
	return b.String()
}

// matchers are a selector's matchers with %q for their values, and the template's words for these.
func matchers(names []string, in map[string]string) (text, args string) {
	var m, v []string
	for _, n := range names {
		m = append(m, n+"=%q")
		value := in[n]
		if value == "" {
			value = "$labels." + n
		}
		v = append(v, value)
	}
	return strings.Join(m, ","), strings.Join(v, " ")
}

func (o *Options) annotations(name, summary, description string) map[string]string {
	return map[string]string{"summary": summary, "description": description, "runbook_url": o.Runbook + "#" + strings.ToLower(name)}
}
