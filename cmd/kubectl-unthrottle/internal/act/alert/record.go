package alert

import (
	"fmt"
	"strings"
	"time"
)

// Series that are recorded.
const (
	info      = "unthrottle:container_info"                            // 1; one per container, regardless of who scraped it
	throttled = "unthrottle:container_throttled_periods:ratio_rate"    // by level
	found     = "unthrottle:container_finding"                         // 1; what matters of the findings, with the owner
	verdict   = "unthrottle:container_verdict"                         // by rule: the share throttled, or 1 where it is not about that
	agentInfo = `max by (job, instance, node) (unthrottle_agent_info)` // not recorded: it is short
	renamed   = `exported_pod=""`                                      // leaves out what was scraped without honor_labels
	ownLevels = `level=~"container|pod"`                               // whose throttling a container's own threads can cause
	muted     = "unthrottle_container_muted"                           //
)

// Labels of a container, of what makes its pods, and of what is known about it.
var labels = []string{"namespace", "pod", "container", "owner_kind", "owner", "node", "go_version", "go_line", "gomaxprocs_from"}

// by is a list of labels, with those that tell clusters apart.
func (o *Options) by(names ...string) string {
	return strings.Join(append(append([]string{}, o.KeepLabels...), names...), ", ")
}

// container are the labels that tell containers apart.
func (o *Options) container() string { return o.by("namespace", "pod", "container") }

// span is a duration as Prometheus writes it.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0 && d > 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d > 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// exempt is a matcher that leaves out namespaces, with a comma before it.
func (o *Options) exempt() string {
	if len(o.Exempt) == 0 {
		return ""
	}
	return fmt.Sprintf(`,namespace!~"%s"`, strings.Join(o.Exempt, "|"))
}

// records are what the alerts and the dashboard share. Agents of one node may see the same container at the same time, as when a
// new one takes over: so every series is first reduced to one per container, and joins use the recorded info, which is one.
func (o *Options) records() []Rule {
	c, window := o.container(), span(o.Window)
	known := o.by(labels...)
	rules := []Rule{
		{Record: info, Expr: lines(
			`group by (`+known+`) (`,
			`  topk by (`+c+`) (1,`,
			`    2 * max by (`+known+`) (unthrottle_container_info{`+renamed+`,owner!=""})`,
			`    or label_replace(label_replace(`,
			`      max by (`+known+`) (unthrottle_container_info{`+renamed+`,owner=""}),`,
			`      "owner_kind", "Pod", "", ""), "owner", "$1", "pod", "(.*)")`,
			`  )`,
			`)`)},
		{Record: throttled, Expr: lines(
			`max by (`+o.by("namespace", "pod", "container", "level")+`) (`,
			`  rate(unthrottle_container_throttled_periods_total{`+renamed+`}[`+window+`])`,
			`  / (rate(unthrottle_container_periods_total{`+renamed+`}[`+window+`]) > 0)`,
			`)`)},
		{Record: found, Expr: lines(
			`max by (`+o.by("namespace", "pod", "container", "rule")+`) (`,
			`  max_over_time(unthrottle_container_finding{`+renamed+`,severity!="info"}[`+window+`])`,
			`  or max_over_time(unthrottle_container_finding{`+renamed+`,rule="`+stale+`"}[`+window+`])`,
			`)`,
			`* on (`+c+`) group_left (owner_kind, owner) `+info,
			`unless on (`+o.by("namespace", "pod", "container", "rule")+`) `+o.mutes(""))},
	}
	for _, a := range alerts() {
		rules = append(rules, Rule{Record: verdict, Expr: o.verdict(a), Labels: map[string]string{"rule": a.rule}})
	}
	return rules
}

// stopped is the share of the periods in which a container was throttled lately, where it is at least some: it stays so for the
// length of a window, so that an alert does not flap.
func (o *Options) stopped(level string, least float64) string {
	return fmt.Sprintf(`(max by (%s) (max_over_time(%s{%s%s}[%s])) > %g)`, o.container(), throttled, level, o.exempt(), span(o.Window), least)
}

// mutes are containers in which something is muted. Agents report that in scans that find it; how much was throttled goes back two windows.
func (o *Options) mutes(rules string) string {
	return fmt.Sprintf(`max_over_time(%s%s[%s])`, muted, rules, span(2*o.Window))
}

// verdict is the expression of what is recorded for an alert: a series a container.
func (o *Options) verdict(a alert) string {
	c, pod := o.container(), o.by("namespace", "pod")
	causes, join := strings.Join(causes(), "|"), `* on (`+c+`) group_left (owner_kind, owner) `
	finding := fmt.Sprintf(`%s{rule="%s"%s}`, found, a.rule, o.exempt())
	earlier := ""
	if before := a.before(); before != "" {
		earlier = `unless on (` + c + `) ` + found + `{rule=~"` + before + `"}`
	}
	switch a.when {
	case foundAndThrottled:
		return lines(o.stopped(ownLevels, o.WithCause), join+finding, earlier)
	case foundAlone:
		return lines(finding, earlier)
	case throttledAlone:
		return lines(o.stopped(`level="container"`, o.Throttled), join+info,
			`unless on (`+c+`) `+found+`{rule=~"`+causes+`"}`,
			`unless on (`+c+`) `+o.mutes(`{rule=~"all|`+a.rule+`|`+causes+`"}`))
	case podAlone:
		// A pod has a quota too where each of its containers has a limit: their sum, which is used up at about the same times.
		return lines(o.stopped(`level="pod"`, o.Throttled), join+info,
			`unless on (`+pod+`) `+o.stopped(`level="container"`, o.Throttled/2),
			`unless on (`+pod+`) `+found+`{rule=~"`+causes+`"}`,
			`unless on (`+pod+`) `+o.mutes(`{rule=~"all|throttled|`+causes+`"}`))
	}
	return lines(o.stopped(`level="above"`, o.Throttled), `* on (`+c+`) group_left (owner_kind, owner, node) `+info) // aboveAlone
}

// lines are the parts of an expression that there are.
func lines(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n")
}
