package alert

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/metrics"
)

// A bare program is what Prometheus has of one that no agent looks at, minute by minute, in promtool's words.
type bare struct {
	pod       string // "": api-1
	nameless  bool   // its own series have no container
	procs     string // "": 16x60
	limit     string // as kube-state-metrics has it; "": 2x60; "none"
	quota     string // as cAdvisor has it, in 100 ms; "": it has none
	started   string // "": 1000x60; "none"
	throttled int    // of 100 periods; -1: not counted
	stalled   int    // of 100 seconds; -1: not counted
	used      float64
	owner     string // "": Deployment by a ReplicaSet; "none"; or another kind
	labels    string // more of them
	version   string
	more      []string
}

func (b bare) series() (lines []string) {
	pod := or(b.pod, "api-1")
	at := fmt.Sprintf(`namespace="shop",pod="%s"%s`, pod, b.labels)
	add := func(metric, labels, values string) {
		if values != "none" {
			lines = append(lines, fmt.Sprintf("%s{%s%s}\t%s", metric, at, labels, values))
		}
	}
	app := `,container="app"`
	own := app
	if b.nameless {
		own = ""
	}
	add("go_sched_gomaxprocs_threads", own+`,job="api"`, or(b.procs, "16x60"))
	add("go_info", own+`,job="api",version="`+or(b.version, "go1.24.3")+`"`, "1x60")
	add("process_start_time_seconds", own+`,job="api"`, or(b.started, "1000x60"))
	add("kube_pod_container_info", app+`,uid="u"`, "1x60")
	add("kube_pod_container_resource_limits", app+`,resource="cpu",uid="u"`, or(b.limit, "2x60"))
	add("kube_pod_container_resource_limits", app+`,resource="memory",uid="u"`, "268435456x60")
	if b.quota != "" {
		add("container_spec_cpu_quota", app+`,id="/k"`, b.quota)
		add("container_spec_cpu_period", app+`,id="/k"`, "100000x60")
	}
	if b.throttled >= 0 {
		add("container_cpu_cfs_periods_total", app+`,id="/k"`, "0+600x60")
		add("container_cpu_cfs_throttled_periods_total", app+`,id="/k"`, fmt.Sprintf("0+%dx60", 6*b.throttled))
	}
	if b.stalled >= 0 {
		add("container_pressure_cpu_stalled_seconds_total", app+`,id="/k"`, fmt.Sprintf("0+%gx60", 0.6*float64(b.stalled)))
	}
	add("container_cpu_usage_seconds_total", app+`,id="/k",cpu="total"`, fmt.Sprintf("0+%gx60", 60*b.used))
	switch b.owner {
	case "none":
	case "":
		add("kube_pod_owner", `,owner_kind="ReplicaSet",owner_name="api-5d8f7",owner_is_controller="true"`, "1x60")
		lines = append(lines, `kube_replicaset_owner{namespace="shop",replicaset="api-5d8f7",owner_kind="Deployment",owner_name="api",owner_is_controller="true"`+b.labels+"}\t1x60")
	default:
		add("kube_pod_owner", `,owner_kind="`+b.owner+`",owner_name="api",owner_is_controller="true"`, "1x60")
	}
	return append(lines, b.more...)
}

// told is what package metrics exports for api-1: throttled of 100 periods.
func told(procs, limit string, throttled int) (lines []string) {
	for series, values := range map[string]string{
		"unthrottle_gomaxprocs{":                                    procs + "x60",
		`unthrottle_cpu_limit_cpus{group="/kubepods",`:              limit + "x60",
		`unthrottle_cpu_periods_total{group="/kubepods",`:           "0+600x60",
		`unthrottle_cpu_throttled_periods_total{group="/kubepods",`: fmt.Sprintf("0+%dx60", 6*throttled),
	} {
		lines = append(lines, series+`namespace="shop",pod="api-1",container="app"}`+"\t"+values)
	}
	return lines
}

var bareCases = []struct {
	name   string
	of     []bare
	want   []fires // NAME=owner_kind/owner=pods
	change func(*Options)
}{
	{
		name: "too many Ps, throttled",
		of:   []bare{{throttled: 50, stalled: -1, used: 1}},
		want: []fires{{10, ""}, {30, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "too many Ps that do no harm",
		of:   []bare{{throttled: 2, stalled: 2, used: 1}},
		want: []fires{{40, ""}},
	},
	{
		name: "fewer than twice as many, and what Go itself has for less than a CPU",
		of:   []bare{{procs: "3x60", throttled: 50, stalled: -1}, {pod: "api-2", procs: "2x60", limit: "0.5x60", throttled: 50, stalled: -1}},
		want: []fires{{40, ""}},
	},
	{
		name: "no limit, whatever the numbers are",
		of:   []bare{{limit: "none", throttled: 50, stalled: 50}},
		want: []fires{{40, "UnthrottleProgramNone==1 UnthrottleProgramStandsStill=Deployment/api=1"}},
	},
	{
		name: "nobody counts periods, and the limit is used up",
		of:   []bare{{throttled: -1, stalled: 30, used: 1.9}},
		want: []fires{{40, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "nobody counts periods, and the limit is not used up: neighbours may be the cause",
		of:   []bare{{throttled: -1, stalled: 30, used: 0.9}},
		want: []fires{{10, ""}, {40, "UnthrottleProgramStandsStill=Deployment/api=1"}},
	},
	{
		name: "periods were counted and none was throttled: it is not the limit",
		of:   []bare{{throttled: 0, stalled: 30, used: 1.9}},
		want: []fires{{40, "UnthrottleProgramStandsStill=Deployment/api=1"}},
	},
	{
		name: "little pressure",
		of:   []bare{{throttled: -1, stalled: 5, used: 1.9}},
		want: []fires{{40, ""}},
	},
	{
		name: "a limit that is lowered under it, for as long as that lasts",
		of:   []bare{{procs: "8x60", limit: "8x20 2x24 8x14", throttled: -1, stalled: -1}},
		want: []fires{{20, ""}, {43, "UnthrottleProgramStale=Deployment/api=1"}, {50, ""}},
	},
	{
		name: "a limit that is raised, throttled before",
		of:   []bare{{procs: "1x60", limit: "1x20 4x39", throttled: 50, stalled: -1}},
		want: []fires{{20, ""}, {43, "UnthrottleProgramStale=Deployment/api=1"}},
	},
	{
		name: "stale comes before too many Ps",
		of:   []bare{{procs: "8x60", limit: "8x20 2x39", throttled: 50, stalled: 50}},
		want: []fires{{20, "UnthrottleProgramStandsStill=Deployment/api=1"}, {43, "UnthrottleProgramStale=Deployment/api=1"}},
	},
	{
		name: "it follows",
		of:   []bare{{procs: "8x21 2x38", limit: "8x20 2x39", throttled: -1, stalled: -1}},
		want: []fires{{45, ""}},
	},
	{
		name: "it is restarted, and the number is its own choice",
		of:   []bare{{procs: "8x60", limit: "8x20 2x39", started: "1000x40 3400x19", throttled: -1, stalled: -1}},
		want: []fires{{39, "UnthrottleProgramStale=Deployment/api=1"}, {46, ""}},
	},
	{
		name: "wrong before, so that no resize is the cause",
		of:   []bare{{procs: "16x60", limit: "8x20 2x39", throttled: -1, stalled: -1}},
		want: []fires{{45, ""}},
	},
	{
		name: "a resize that the kubelet has not made yet",
		of:   []bare{{procs: "8x60", limit: "8x20 2x39", quota: "800000x60", throttled: -1, stalled: -1}},
		want: []fires{{45, ""}},
	},
	{
		name: "the quota that is in force comes before the spec",
		of:   []bare{{procs: "8x60", limit: "8x60", quota: "800000x20 200000x39", throttled: -1, stalled: -1}},
		want: []fires{{43, "UnthrottleProgramStale=Deployment/api=1"}},
	},
	{
		name: "a scrape that does not add the container",
		of:   []bare{{nameless: true, throttled: 50, stalled: -1}, {pod: "api-2", procs: "8x60", nameless: true, limit: "8x20 2x39", throttled: -1, stalled: -1}},
		want: []fires{{43, "UnthrottleProgramStale=Deployment/api=1 UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "the same in a pod of two containers: whose number it is, nobody knows",
		of:   []bare{{nameless: true, throttled: 50, stalled: 50, more: []string{`kube_pod_container_info{namespace="shop",pod="api-1",container="proxy",uid="u"}` + "\t1x60"}}},
		want: []fires{{40, "UnthrottleProgramNone==1"}},
	},
	{
		name: "what package metrics tells is enough",
		of:   []bare{{procs: "none", limit: "none", throttled: -1, stalled: -1, more: told("16", "2", 50)}},
		want: []fires{{10, ""}, {40, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "and comes first: it has the limit and the throttling of the whole pod",
		of:   []bare{{limit: "16x60", throttled: 0, stalled: -1, more: told("16", "2", 50)}},
		want: []fires{{40, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "no throttling by its own count",
		of:   []bare{{procs: "none", throttled: 50, stalled: -1, more: told("16", "2", 0)}},
		want: []fires{{40, ""}},
	},
	{
		name: "a GOMEMLIMIT that is given up, for as long as that lasts",
		of:   []bare{{procs: "2x60", throttled: -1, stalled: -1, more: []string{`unthrottle_gomemlimit_given_up{namespace="shop",pod="api-1",container="app"}` + "\t0x10 1x24 0x24"}}},
		want: []fires{{10, ""}, {34, "UnthrottleProgramMemoryTooTight=Deployment/api=1"}, {50, ""}},
	},
	{
		name: "one that is given up for a moment",
		of:   []bare{{procs: "2x60", throttled: -1, stalled: -1, more: []string{`unthrottle_gomemlimit_given_up{namespace="shop",pod="api-1",container="app"}` + "\t0x20 1 0x38"}}},
		want: []fires{{40, ""}},
	},
	{
		name: "owners: several pods of one, a StatefulSet, and nobody's",
		of: []bare{
			{throttled: 50, stalled: -1},
			{pod: "api-2", throttled: 50, stalled: -1},
			{pod: "db-0", owner: "StatefulSet", throttled: 50, stalled: -1},
			{pod: "lone", owner: "none", throttled: 50, stalled: -1},
			{pod: "old", owner: "<none>", throttled: 50, stalled: -1},
		},
		want: []fires{{40, "UnthrottleProgramTooManyPs=Deployment/api=2 UnthrottleProgramTooManyPs=Pod/lone=1 UnthrottleProgramTooManyPs=Pod/old=1 UnthrottleProgramTooManyPs=StatefulSet/api=1"}},
	},
	{
		name: "two scrapes of one program, one of which calls itself otherwise",
		of: []bare{{throttled: 50, stalled: -1, more: []string{
			`go_sched_gomaxprocs_threads{namespace="shop",pod="api-1",container="app",job="again"}` + "\t16x60",
			`process_start_time_seconds{namespace="shop",pod="api-1",container="app",job="again"}` + "\t1000x60",
			`kube_pod_owner{namespace="shop",pod="api-1",owner_kind="ReplicaSet",owner_name="api-5d8f7",owner_is_controller="true",job="again"}` + "\t1x60",
			`container_cpu_cfs_periods_total{namespace="shop",pod="api-1",container="app",id="/old"}` + "\t0+600x60",
			`container_cpu_cfs_throttled_periods_total{namespace="shop",pod="api-1",container="app",id="/old"}` + "\t0x60",
		}}},
		want: []fires{{40, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{
		name: "kube-state-metrics without honor_labels",
		of: []bare{{limit: "none", throttled: 50, stalled: -1, more: []string{
			`kube_pod_container_resource_limits{namespace="monitoring",pod="ksm",container="ksm",exported_pod="api-1",exported_container="app",resource="cpu"}` + "\t2x60",
		}}},
		want: []fires{{40, "UnthrottleProgramNone==1"}},
	},
	{
		name:   "namespaces that are left out",
		change: func(o *Options) { o.Exempt = []string{"test", "shop"} },
		of:     []bare{{throttled: 50, stalled: 50}},
		want:   []fires{{40, "UnthrottleProgramNone==1"}},
	},
	{
		name:   "the same pod in two clusters",
		change: func(o *Options) { o.KeepLabels = []string{"cluster"} },
		of:     []bare{{throttled: 50, stalled: -1, labels: `,cluster="east"`}, {throttled: 0, stalled: -1, labels: `,cluster="west"`}},
		want:   []fires{{40, "UnthrottleProgramTooManyPs=Deployment/api=1"}},
	},
	{name: "nothing at all", want: []fires{{10, ""}, {40, "UnthrottleProgramNone==1"}}},
}

// TestExportedPromtool evaluates the rules without agents on series minute by minute.
func TestExportedPromtool(t *testing.T) {
	for _, c := range bareCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := fromPrograms()
			if c.change != nil {
				c.change(&o)
			}
			dir := written(t, o)
			var b strings.Builder
			b.WriteString("rule_files: [rules.yaml]\nevaluation_interval: 1m\ngroup_eval_order: [unthrottle.exported.records, unthrottle.exported]\ntests:\n- interval: 1m\n  input_series:\n  - {series: other, values: 1x60}\n")
			var all []string
			for _, x := range c.of {
				for _, s := range x.series() {
					if !slices.Contains(all, s) {
						all = append(all, s)
					}
				}
			}
			for _, s := range all {
				name, values, _ := strings.Cut(s, "\t")
				fmt.Fprintf(&b, "  - {series: '%s', values: '%s'}\n", name, values)
			}
			b.WriteString("  promql_expr_test:\n")
			for _, w := range c.want {
				// The pods of a workload are counted next to its alert.
				fmt.Fprintf(&b, `  - expr: >-
      count by (alertname, owner_kind, owner) (
        group by (rule, namespace, pod, owner_kind, owner) (unthrottle:program_verdict)
        * on (rule, owner_kind, owner) group_left (alertname) group by (rule, alertname, owner_kind, owner) (ALERTS{alertstate="firing"}))
      or count by (alertname) (ALERTS{alertstate="firing",rule=""})
    eval_time: %dm
    exp_samples:
`, w.minute)
				for _, a := range strings.Fields(w.alerts) {
					part := strings.Split(a, "=")
					labels := fmt.Sprintf(`alertname="%s"`, part[0])
					if kind, owner, ok := strings.Cut(part[1], "/"); ok {
						labels += fmt.Sprintf(`,owner_kind="%s",owner="%s"`, kind, owner)
					}
					fmt.Fprintf(&b, "    - {labels: '{%s}', value: %s}\n", labels, part[2])
				}
			}
			promtool(t, dir, b.String())
		})
	}
}

// The cases have each alert fire, and the rules speak of series that they record or that others export.
func TestExported(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range bareCases {
		for _, w := range c.want {
			for _, a := range strings.Fields(w.alerts) {
				name, _, _ := strings.Cut(a, "=")
				fired[name] = true
			}
		}
	}
	for _, g := range Groups(fromPrograms()) {
		for _, r := range g.Rules {
			if r.Alert != "" && !fired[r.Alert] {
				t.Errorf("no case has %s fire", r.Alert)
			}
		}
	}
	var b bytes.Buffer
	if err := Write(&b, fromPrograms()); err != nil {
		t.Fatal(err)
	}
	knownWithoutAgents(t, b.String())
}

// knownWithoutAgents looks whether the rules without agents record, or package metrics has, each of our series that a text names.
func knownWithoutAgents(t *testing.T, text string) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range metrics.Describe() {
		known[s.Name] = true
	}
	for _, g := range Groups(fromPrograms()) {
		for _, r := range g.Rules {
			known[r.Record] = true
		}
	}
	for _, name := range regexp.MustCompile(`\bunthrottle[_:][a-z0-9_:]+`).FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("nobody has %s without agents", name)
		}
	}
}
