package alert

import "fmt"

// Series that are recorded of programs that no agent looks at. Each is one a container.
const (
	onlyContainer = "unthrottle:program_only_container"               // 1; the container of a pod that has no other
	exportedProcs = "unthrottle:program_gomaxprocs"                   //
	exportedGo    = "unthrottle:program_go_info"                      // 1; by version
	started       = "unthrottle:program_start_seconds"                // since 1970
	inForce       = "unthrottle:program_limit_cpus"                   //
	firstLimit    = "unthrottle:program_first_limit_cpus"             // the limit when the process began, or when it was first seen
	exportedInfo  = "unthrottle:program_info"                         // 1; with what makes the pod
	periodsShare  = "unthrottle:program_throttled_periods:ratio_rate" //
	stalledShare  = "unthrottle:program_stalled:ratio_rate"           // of the time in which threads were ready and none ran
	cpusUsed      = "unthrottle:program_cpus:rate"                    //
	givenUp       = "unthrottle:program_gomemlimit_given_up:ratio"    // of the time, in which package memory could not keep it
	exportedFound = "unthrottle:program_verdict"                      // by rule: what stops it, as a share, or 1
)

// standsStill is what a program does when its threads get no CPU, for any reason.
const standsStill = "stands-still"

// exportedAlerts are those about programs that no agent looks at.
func exportedAlerts() []alert {
	return []alert{
		{
			stale, "UnthrottleProgramStale", "warning", foundAlone,
			"GOMAXPROCS did not follow when the CPU limit was changed",
			"It was fixed before the limit was changed while the program ran, and does not follow.",
			`restart the pods now (kubectl -n {{ $labels.namespace }} delete pod {{ $pod }}), unless the number is written in the container's env: then ` + ofSpec +
				`. So that it does not come back, build the program with Go 1.25 or later, which follows its limit, or give cpu the resizePolicy RestartContainer`,
		},
		{
			"too-many-ps", "UnthrottleProgramTooManyPs", "warning", foundAndThrottled,
			"GOMAXPROCS is at least twice the CPU limit, which throttles it",
			"Its threads use up the limit together, and then all of them stand still.", ofSpec,
		},
		{
			tight, "UnthrottleProgramMemoryTooTight", "warning", foundAlone,
			"its memory limit leaves the garbage collector too little room",
			"Package memory gives GOMEMLIMIT up meanwhile: to hold it, the collector would take most of the CPU time.",
			`give it more memory, or less to hold: kubectl unthrottle explain says how much; another GOGC changes nothing`,
		},
		{
			standsStill, "UnthrottleProgramStandsStill", "info", foundAndThrottled,
			"its threads are ready and get no CPU, for its limit or for its neighbours",
			"The kernel counts this as CPU pressure, for a limit as for neighbours that have the CPUs.",
			`if it uses about all that its limit allows, give it a higher limit or less work; if it uses far less, it comes in bursts or others have the CPUs: ` +
				`give it a larger CPU request, and let container_cpu_cfs_throttled_periods_total tell which of the two it is`,
		},
	}
}

// exported is what these alerts say about a pod. A Go version before 1.25 has no go line of 1.25; for a later one the line is not known.
var exported = source{
	verdict: exportedFound,
	more:    []string{"then", "periods", "still", "used", "without"},
	lookups: []lookup{
		{"procs", "max(" + exportedProcs + "{%s})", aNumber},
		{"right", "clamp_min(ceil(max(" + inForce + "{%s})), 2)", aNumber},
		{"limit", "max(" + inForce + "{%s})", aNumber},
		{"then", "max(" + firstLimit + "{%s})", aNumber},
		{"periods", "max(" + periodsShare + "{%s})", aShare},
		{"still", "max(" + stalledShare + "{%s})", aShare},
		{"used", "max(" + cpusUsed + "{%s})", aNumber},
		{"without", "max(" + givenUp + "{%s})", aShare},
		{"line", exportedGo + `{version=~"go1[.](1?[0-9]|2[0-4])([^0-9].*)?",%s}`, `label "version" | reReplaceAll "^go(1[.][0-9]+).*$" "$1 or earlier"`},
	},
	state: exportedState,
}

func exportedState(a alert) string {
	text := `{{ with $limit }} Its limit is {{ . }} CPU{{ if ne . "1" }}s{{ end }}`
	if a.rule == stale {
		text += `{{ with $then }}, and was {{ . }} before{{ end }}`
	}
	text += `.{{ end }}{{ with $procs }} Its GOMAXPROCS is {{ . }}.{{ end }}`
	if a.rule == tight {
		text += `{{ with $without }} Its GOMEMLIMIT is given up for {{ . }} of the time.{{ end }}`
	}
	if a.when != foundAlone {
		text += `{{ with $periods }} It is throttled in {{ . }} of the periods.{{ end }}{{ with $still }} Its threads can't run for {{ . }} of the time.{{ end }}` +
			`{{ with $used }} It uses {{ . }} CPU{{ if ne . "1" }}s{{ end }}.{{ end }}`
	}
	return text + " "
}

// nothingExported is about the rules themselves.
func (o *Options) nothingExported() Rule {
	const name = "UnthrottleProgramNone"
	return Rule{
		Alert: name, Expr: "absent(" + inForce + ")", For: span(o.For), Labels: map[string]string{"severity": "info"},
		Annotations: o.annotations(name, `No Go program with a CPU limit is known`,
			`Prometheus has these rules, and no program's GOMAXPROCS together with a CPU limit, so none of them can find anything. `+
				`What to do: scrape the programs with the labels namespace and pod, and kube-state-metrics with honor_labels: true. If no container has a CPU limit, there is nothing to be found.`),
	}
}

// exportedRecords are what the alerts are made of.
func (o *Options) exportedRecords() []Rule {
	c, pod, window := o.container(), o.by("namespace", "pod"), span(o.Window)
	own := `{pod!="",container!="",container!="POD"` + o.exempt() + `}`
	isGo := `and on (` + c + `) ` + exportedProcs
	record := func(name string, expr ...string) Rule { return Rule{Record: name, Expr: lines(expr...)} }
	rules := []Rule{
		record(onlyContainer,
			`group by (`+c+`) (kube_pod_container_info{`+renamed+o.exempt()+`})`,
			`and on (`+pod+`) count by (`+pod+`) (group by (`+c+`) (kube_pod_container_info{`+renamed+o.exempt()+`})) == 1`),
		record(exportedProcs, o.ofProgram("max", metric("go_sched_gomaxprocs_threads")), `or`, o.ofProgram("max", metric("unthrottle_gomaxprocs"))),
		record(exportedGo, o.ofProgram("group", metric("go_info"), "version")),
		record(started, o.ofProgram("max", metric("process_start_time_seconds")), isGo),
		record(inForce,
			`(`,
			o.ofProgram("max", metric("unthrottle_cpu_limit_cpus")), // of all levels, the pod's and those above it too
			`  or max by (`+c+`) (container_spec_cpu_quota`+own+` / container_spec_cpu_period`+own+`) > 0`,
			`  or max by (`+c+`) (kube_pod_container_resource_limits{resource="cpu",`+renamed+o.exempt()+`}) > 0`,
			`)`, isGo),
		// It remembers itself, as long as the process is the same and is scraped.
		record(firstLimit,
			`(`,
			`  max by (`+c+`) (last_over_time(`+firstLimit+`[`+window+`]))`,
			`  unless on (`+c+`) (max_over_time(`+started+`[`+window+`]) - min_over_time(`+started+`[`+window+`]) > 1)`,
			`  `+isGo,
			`)`,
			`or on (`+c+`) max by (`+c+`) (`+inForce+`)`),
		record(exportedInfo,
			`group by (`+c+`) (`+exportedProcs+`)`,
			`* on (`+pod+`) group_left (owner_kind, owner)`,
			o.exportedOwners()),
		record(periodsShare,
			`(`,
			o.ofProgram("max", func(match string) string {
				return `rate(unthrottle_cpu_throttled_periods_total{` + match + `}[` + window + `]) / (rate(unthrottle_cpu_periods_total{` + match + `}[` + window + `]) > 0)`
			}),
			`  or max by (`+c+`) (`,
			`    rate(container_cpu_cfs_throttled_periods_total`+own+`[`+window+`])`,
			`    / (rate(container_cpu_cfs_periods_total`+own+`[`+window+`]) > 0)`,
			`  )`,
			`)`, isGo),
		record(givenUp, o.ofProgram("max", func(match string) string {
			return `avg_over_time(unthrottle_gomemlimit_given_up{` + match + `}[` + window + `])`
		}), isGo),
		record(stalledShare, `max by (`+c+`) (rate(container_pressure_cpu_stalled_seconds_total`+own+`[`+window+`]))`, isGo),
		record(cpusUsed, `max by (`+c+`) (rate(container_cpu_usage_seconds_total`+own+`[`+window+`]))`, isGo),
	}
	for _, a := range exportedAlerts() {
		rules = append(rules, Rule{Record: exportedFound, Expr: o.exportedVerdict(a), Labels: map[string]string{"rule": a.rule}})
	}
	return rules
}

// metric is an expression for a metric as is.
func metric(name string) func(match string) string {
	return func(match string) string { return name + "{" + match + "}" }
}

// ofProgram is an expression of the programs' metrics, one a container. Many a scrape adds the pod and not the container: then it is the
// pod's only one.
func (o *Options) ofProgram(one string, expr func(match string) string, more ...string) string {
	c, pod := append([]string{"namespace", "pod", "container"}, more...), append([]string{"namespace", "pod"}, more...)
	return lines(
		fmt.Sprintf(`%s by (%s) (%s)`, one, o.by(c...), expr(`pod!="",container!="",`+renamed+o.exempt())),
		fmt.Sprintf(`or %s by (%s) (%s)`, one, o.by(pod...), expr(`pod!="",container="",`+renamed+o.exempt())),
		`* on (`+o.by("namespace", "pod")+`) group_left (container) `+onlyContainer)
}

// exportedOwners is what makes each pod: the Deployment in place of its ReplicaSet, or the pod itself where that is unknown.
func (o *Options) exportedOwners() string {
	pod, set, real := o.by("namespace", "pod"), o.by("namespace", "replicaset"), `owner_kind=~"[A-Z].*",`+renamed+o.exempt()
	called := func(expr, label string) string {
		return `label_replace(` + expr + `, "owner", "$1", "` + label + `", "(.+)")`
	}
	return lines(
		`group by (`+o.by("namespace", "pod", "owner_kind", "owner")+`) (`,
		`  topk by (`+pod+`) (1,`,
		`    3 * `+called(lines(
			`(`,
			`      group by (`+o.by("namespace", "pod", "replicaset")+`) (label_replace(kube_pod_owner{owner_kind="ReplicaSet",`+renamed+o.exempt()+`}, "replicaset", "$1", "owner_name", "(.+)"))`,
			`      * on (`+set+`) group_left (owner_kind, owner_name)`,
			`      topk by (`+set+`) (1, group by (`+o.by("namespace", "replicaset", "owner_kind", "owner_name")+`) (kube_replicaset_owner{`+real+`}))`,
			`    )`), "owner_name"),
		`    or 2 * `+called(`group by (`+o.by("namespace", "pod", "owner_kind", "owner_name")+`) (kube_pod_owner{`+real+`})`, "owner_name"),
		`    or `+called(`label_replace(group by (`+pod+`) (`+exportedProcs+`), "owner_kind", "Pod", "", "")`, "pod"),
		`  )`,
		`)`)
}

// exportedVerdict is the expression of what is recorded for an alert: a series a container.
func (o *Options) exportedVerdict(a alert) string {
	c := o.container()
	on, join := ` on (`+c+`) `, `* on (`+c+`) group_left (owner_kind, owner) `+exportedInfo
	// A number that a user may have chosen for a limit is Go's own, or the limit rounded down or up.
	most := func(limit string) string { return `clamp_min(ceil(` + limit + `), 2)` }
	least := func(limit string) string { return `clamp_min(floor(` + limit + `), 1)` }
	lately := func(series string) string {
		return fmt.Sprintf(`(max by (%s) (max_over_time(%s[%s])) > %g)`, c, series, span(o.Window), o.WithCause)
	}
	switch a.rule {
	case stale:
		return lines(
			`group by (`+c+`) (`,
			`  (`+exportedProcs+` >`+on+most(inForce)+` or `+exportedProcs+` <`+on+least(inForce)+`)`,
			`  and`+on+`(`+exportedProcs+` <=`+on+most(firstLimit)+`)`,
			`  and`+on+`(`+exportedProcs+` >=`+on+least(firstLimit)+`)`,
			`)`, join)
	case standsStill:
		return lines(lately(stalledShare), join, `unless`+on+exportedFound+`{rule=~"`+stale+`|too-many-ps"}`)
	case tight:
		return lines(lately(givenUp), join)
	}
	// Pressure alone shows that the limit stops a program only where it uses up all of that.
	return lines(
		`(`,
		`  `+lately(periodsShare),
		`  or (`+lately(stalledShare)+` and`+on+`(`+cpusUsed+` >=`+on+`0.9 * `+inForce+`) unless`+on+periodsShare+`)`,
		`)`, join,
		`and`+on+`(`+exportedProcs+` >=`+on+`2 * `+inForce+`)`,
		`and`+on+`(`+exportedProcs+` >`+on+most(inForce)+`)`,
		`unless`+on+exportedFound+`{rule="`+stale+`"}`)
}
