package alert

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agent"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

// tool is a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CLUSTER") == "1" {
			t.Fatalf("%v; on Debian: apt-get install prometheus", err)
		}
		t.Skipf("%v; on Debian: apt-get install prometheus", err)
	}
	return path
}

// written writes rules into a folder and lets promtool check them.
func written(t *testing.T, o Options) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var b bytes.Buffer
	if err := Write(&b, o); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool(t, "promtool"), "check", "rules", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// Each rule about programs has its alert, or a reason for none.
func TestRules(t *testing.T) {
	has := map[string]bool{stale: true, "pod-throttled": true, "node-throttled": true} // what package rule has no rule for
	for _, r := range rule.Rules() {
		has[r.Name] = true
		if i := slices.IndexFunc(alerts(), func(a alert) bool { return a.rule == r.Name }); (i >= 0) == (r.NoAlert != "") {
			t.Errorf("rule %s: an alert, or NoAlert, and not both", r.Name)
		}
	}
	for _, a := range alerts() {
		if !has[a.rule] {
			t.Errorf("%s is for %s, which is no rule", a.name, a.rule)
		}
	}
}

// The rules speak of metrics that agents have, and of series that they record.
func TestMetrics(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Default()); err != nil {
		t.Fatal(err)
	}
	unknown(t, b.String())
}

// unknown are series that don't exist.
func unknown(t *testing.T, text string) {
	t.Helper()
	names := map[string]bool{info: true, throttled: true, found: true, verdict: true}
	for _, m := range agent.Metrics() {
		names[m.Name] = true
	}
	for _, name := range regexp.MustCompile(`\bunthrottle(?:_|:container_)[a-z0-9_:]+`).FindAllString(text, -1) {
		if !names[name] {
			t.Errorf("there is no series %s", name)
		}
	}
}

// Each alert has a section of its own in the page that it points to, and there are no others.
func TestRunbook(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, g := range append(Groups(Default()), Groups(fromPrograms())...) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			want = append(want, r.Alert)
			if got := r.Annotations["runbook_url"]; got != Runbook+"#"+strings.ToLower(r.Alert) {
				t.Errorf("%s: %s", r.Alert, got)
			}
			for _, part := range []string{"summary", "description"} {
				if r.Annotations[part] == "" {
					t.Errorf("%s has no %s", r.Alert, part)
				}
			}
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^### (Unthrottle\w+)$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/runbook.md has sections for\n%q\nthe alerts are\n%q", got, want)
	}
}

// The scrape configurations of the pages are some. Debian's promtool does not know of Kubernetes, so it is given other targets, and a token
// that is there.
func TestScrape(t *testing.T) {
	for _, name := range []string{"alerts.md", "without-agents.md"} {
		page, err := os.ReadFile("../../../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile(`(?m)^    scrape_configs:\n(    .*\n)+`).Find(page)
		file := filepath.Join(t.TempDir(), "prometheus.yaml")
		text := strings.Replace(regexp.MustCompile(`(?m)^    `).ReplaceAllString(string(block), ""), "kubernetes_sd_configs: [{role: pod}]", "static_configs: [{targets: [localhost]}]", 1)
		token := filepath.Join(t.TempDir(), "token")
		text = strings.Replace(text, "/var/run/secrets/unthrottle/token", token, 1)
		if err := errors.Join(os.WriteFile(token, []byte("x"), 0o600), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool(t, "promtool"), "check", "config", file).CombinedOutput(); err != nil || len(block) == 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestGolden(t *testing.T) {
	other := Default()
	other.As, other.Name, other.Namespace, other.Labels = Object, "go", "monitoring", map[string]string{"release": "prometheus"}
	other.KeepLabels, other.Exempt, other.Throttled, other.WithCause = []string{"cluster"}, []string{"kube-system", "build"}, 0.5, 0.2
	for file, o := range map[string]Options{"rules.golden": Default(), "object.golden": other, "exported.golden": fromPrograms()} {
		var b bytes.Buffer
		if err := Write(&b, o); err != nil {
			t.Fatal(err)
		}
		file = "testdata/" + file
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || b.String() != string(want) {
			t.Errorf("the rules are others than in %s (%v); -update writes it", file, err)
		}
	}
}

// An object has the same rules as a file.
func TestObject(t *testing.T) {
	o := Default()
	var file, object bytes.Buffer
	var want groups
	var got struct{ Spec groups }
	err := Write(&file, o)
	o.As = Object
	if err := errors.Join(err, Write(&object, o), yaml.Unmarshal(file.Bytes(), &want), yaml.Unmarshal(object.Bytes(), &got)); err != nil {
		t.Fatal(err)
	}
	if len(want.Groups) != 3 || !reflect.DeepEqual(got.Spec, want) {
		t.Error("they differ")
	}
}

func TestCheck(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.Throttled = 1 },
		func(o *Options) { o.WithCause = 0 },
		func(o *Options) { o.WithCause = 0.3 },
		func(o *Options) { o.Window = 0 },
		func(o *Options) { o.For = -1 },
		func(o *Options) { o.For = 1500000 },
		func(o *Options) { o.Exempt = []string{`a"b`} },
		func(o *Options) { o.Name = "A" },
		func(o *Options) { o.Namespace = "" },
		func(o *Options) { o.KeepLabels = []string{"pod"} },
		func(o *Options) { o.KeepLabels = []string{"a b"} },
	} {
		o := Default()
		change(&o)
		if o.Check() == nil || Write(nil, o) == nil {
			t.Errorf("no error for %+v", o)
		}
	}
}

// A seen container is what an agent exposes of one, minute by minute.
type seen struct {
	pod, agent string // "": api-1, by the agent at a:9435
	owner      string // "": api; "none": not known
	from, to   int    // minutes; to 0: the end
	findings   []string
	muted      []string
	level      string // whose limit throttles it: "": none's
	share      int    // of 100 periods
	spells     [][2]int
	extra      string // more labels
}

const end = 60

// series are a container's, in promtool's words.
func (s seen) series() (lines []string) {
	pod, agent, owner, to := or(s.pod, "api-1"), or(s.agent, "a:9435"), or(s.owner, "api"), s.to
	if to == 0 {
		to = end
	}
	by := `kind="Deployment",owner_kind="Deployment",owner="` + owner + `"`
	by = strings.TrimPrefix(by, `kind="Deployment",`)
	if owner == "none" {
		by = `owner_kind="",owner=""`
	}
	begin := ""
	if s.from > 0 {
		begin = fmt.Sprintf("_x%d ", s.from)
	}
	steady := func(v string) string { return fmt.Sprintf("%s%sx%d stale", begin, v, to-s.from) }
	add := func(metric, labels, values string) {
		own := fmt.Sprintf(`namespace="shop",pod="%s",container="app",instance="%s",job="unthrottle-agent"%s`, pod, agent, s.extra)
		if labels != "" {
			own += "," + labels
		}
		lines = append(lines, fmt.Sprintf("unthrottle_container_%s{%s}\t%s", metric, own, values))
	}
	add("info", by+`,go_version="go1.24.3",go_line="1.24",gomaxprocs_from="default",node="node-1"`, steady("1"))
	add("gomaxprocs", "", steady("16"))
	add("gomaxprocs_expected", "", steady("2"))
	add("limit_cpus", `level="`+or(s.level, "container")+`"`, steady("0.5"))
	for _, f := range s.findings {
		name, severity, _ := strings.Cut(f, "/")
		add("finding", fmt.Sprintf(`rule="%s",severity="%s"`, name, or(severity, "warning")), steady("1"))
	}
	for _, m := range s.muted {
		add("muted", `rule="`+m+`"`, steady("1"))
	}
	if s.level == "" {
		return lines
	}
	if s.level != "container" { // a quota of its own, which never stops it
		add("periods_total", `level="container"`, steady("0+600"))
		add("throttled_periods_total", `level="container"`, steady("0"))
	}
	add("periods_total", `level="`+s.level+`"`, steady("0+600"))
	var counted strings.Builder
	counted.WriteString(begin)
	spells, at, sum := s.spells, s.from, 0
	if spells == nil {
		spells = [][2]int{{s.from, to}}
	}
	for _, spell := range spells {
		if spell[0] > at {
			fmt.Fprintf(&counted, "%dx%d ", sum, spell[0]-at-1)
		}
		n := spell[1] - spell[0]
		fmt.Fprintf(&counted, "%d+%dx%d ", sum, 6*s.share, n)
		sum, at = sum+6*s.share*n, spell[1]+1
	}
	if at < to {
		fmt.Fprintf(&counted, "%dx%d ", sum, to-at)
	}
	add("throttled_periods_total", `level="`+s.level+`"`, counted.String()+"stale")
	return lines
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// fires is which alerts fire at a minute, each with the number of pods.
type fires struct {
	minute int
	alerts string
}

var cases = []struct {
	name   string
	seen   []seen
	series []string
	want   []fires
	change func(*Options)
}{
	{
		name: "the cause is known, until it is throttled no more",
		seen: []seen{{findings: []string{"too-many-ps"}, level: "container", share: 50, spells: [][2]int{{0, 30}}}},
		want: []fires{{10, ""}, {20, "UnthrottleTooManyPs=1"}, {33, "UnthrottleTooManyPs=1"}, {45, ""}},
	},
	{
		name: "a pause does not clear it",
		seen: []seen{{findings: []string{"too-many-ps"}, level: "container", share: 50, spells: [][2]int{{0, 20}, {25, 60}}}},
		want: []fires{{20, "UnthrottleTooManyPs=1"}, {25, "UnthrottleTooManyPs=1"}, {30, "UnthrottleTooManyPs=1"}},
	},
	{
		name: "a finding that does no harm",
		seen: []seen{{findings: []string{"too-many-ps", "limit-not-seen"}, level: "container", share: 2}},
		want: []fires{{40, ""}},
	},
	{
		name: "the same finding where there is no limit",
		seen: []seen{{findings: []string{"too-many-ps"}}},
		want: []fires{{40, ""}},
	},
	{
		name: "a finding of an idle program, and throttled for another reason",
		seen: []seen{{findings: []string{"not-following/info", "throttled"}, level: "container", share: 50}},
		want: []fires{{40, "UnthrottleThrottled=1"}},
	},
	{
		name: "throttled, and nothing says why",
		seen: []seen{{findings: []string{"throttled/critical"}, level: "container", share: 50}},
		want: []fires{{10, ""}, {20, "UnthrottleThrottled=1"}},
	},
	{
		name: "a short spell",
		seen: []seen{{findings: []string{"throttled/critical"}, level: "container", share: 90, spells: [][2]int{{10, 14}}}},
		want: []fires{{20, ""}, {30, ""}},
	},
	{
		name: "throttled now and then, far below what is told",
		seen: []seen{{findings: []string{"throttled"}, level: "container", share: 15}},
		want: []fires{{40, ""}},
	},
	{
		name: "of several causes the first speaks",
		seen: []seen{{findings: []string{"sweeper-spin", "limit-not-seen", "too-many-ps/critical", "throttled"}, level: "container", share: 50}},
		want: []fires{{40, "UnthrottleTooManyPs=1"}},
	},
	{
		name: "each cause",
		seen: []seen{
			{pod: "a-1", owner: "a", findings: []string{"limit-not-seen"}, level: "container", share: 15},
			{pod: "b-1", owner: "b", findings: []string{"not-following"}, level: "pod", share: 50},
			{pod: "c-1", owner: "c", findings: []string{"sweeper-spin"}, level: "container", share: 15},
			{pod: "d-1", owner: "d", findings: []string{"stale/info"}},
			{pod: "e-1", owner: "e", findings: []string{"too-few-ps"}},
			{pod: "f-1", owner: "f", findings: []string{"contended"}},
			{pod: "g-1", owner: "g", findings: []string{"stale", "too-few-ps", "too-many-ps", "throttled"}, level: "container", share: 50},
			{pod: "h-1", owner: "h", findings: []string{"memory-too-tight"}},
			{pod: "i-1", owner: "i", findings: []string{"memory-too-tight/critical", "throttled"}, level: "container", share: 50},
			{pod: "j-1", owner: "j", findings: []string{"no-gomemlimit", "gomemlimit-too-high"}},
		},
		want: []fires{{40, "UnthrottleLimitNotSeen=1 UnthrottleMemoryTooTight=2 UnthrottleNotFollowing=1 UnthrottleStale=2 UnthrottleSweeperSpin=1 UnthrottleTooFewPs=1"}},
	},
	{
		name: "muted",
		seen: []seen{{muted: []string{"too-many-ps"}, level: "container", share: 50}},
		want: []fires{{20, ""}, {40, ""}},
	},
	{
		name: "muted later, while the finding is still in the window",
		seen: []seen{
			{findings: []string{"too-many-ps"}, level: "container", share: 50, to: 30},
			{agent: "b:9435", muted: []string{"too-many-ps"}, level: "container", share: 50, from: 30},
		},
		want: []fires{{29, "UnthrottleTooManyPs=1"}, {32, ""}, {40, ""}},
	},
	{
		name: "throttled is muted, another cause is not",
		seen: []seen{
			{findings: []string{"limit-not-seen"}, muted: []string{"throttled"}, level: "container", share: 50},
			{pod: "b-1", owner: "b", muted: []string{"throttled"}, level: "container", share: 50},
			{pod: "c-1", owner: "c", muted: []string{"throttled"}, level: "pod", share: 50},
		},
		want: []fires{{40, "UnthrottleLimitNotSeen=1"}},
	},
	{
		name: "pods that live for some minutes each",
		seen: []seen{
			{pod: "api-1", to: 9, findings: []string{"too-many-ps"}, level: "container", share: 50},
			{pod: "api-2", from: 8, to: 17, findings: []string{"too-many-ps"}, level: "container", share: 50},
			{pod: "api-3", from: 15, to: 26, findings: []string{"too-many-ps"}, level: "container", share: 50},
			{pod: "api-4", from: 23, to: 36, findings: []string{"too-many-ps"}, level: "container", share: 50},
		},
		want: []fires{{12, ""}, {20, "UnthrottleTooManyPs=1"}, {24, "UnthrottleTooManyPs=2"}, {35, "UnthrottleTooManyPs=1"}, {37, ""}},
	},
	{
		name: "many pods are one alert",
		seen: []seen{
			{pod: "api-1", findings: []string{"too-many-ps"}, level: "container", share: 50},
			{pod: "api-2", findings: []string{"too-many-ps"}, level: "container", share: 60},
			{pod: "api-3", findings: []string{"too-many-ps"}, level: "container", share: 70},
			{pod: "api-4", level: "container", share: 1},
		},
		want: []fires{{40, "UnthrottleTooManyPs=3"}},
	},
	{
		name: "two agents see a pod while one takes over from the other, and one of them does not know the owner yet",
		seen: []seen{
			{findings: []string{"too-many-ps"}, level: "container", share: 50, to: 30},
			{agent: "b:9435", owner: "none", findings: []string{"too-many-ps/critical"}, level: "container", share: 50, from: 20},
			{agent: "c:9435", findings: []string{"too-many-ps"}, level: "container", share: 50, from: 22},
		},
		want: []fires{{19, "UnthrottleTooManyPs=1"}, {25, "UnthrottleTooManyPs=1"}, {35, "UnthrottleTooManyPs=1"}},
	},
	{
		name: "nobody knows whose it is",
		seen: []seen{{owner: "none", findings: []string{"too-many-ps"}, level: "container", share: 50}},
		want: []fires{{40, "UnthrottleTooManyPs=1"}},
	},
	{
		name: "the pod's limit, which its containers do not show",
		seen: []seen{{level: "pod", share: 98}},
		want: []fires{{10, ""}, {20, "UnthrottlePodThrottled=1"}},
	},
	{
		name: "a pod whose containers have the limits: their sum is used up, too",
		seen: []seen{{level: "pod", share: 30}, {agent: "b:9435", level: "container", share: 20}},
		want: []fires{{40, ""}},
	},
	{
		name: "a limit above the pod",
		seen: []seen{{level: "above", share: 98}, {pod: "api-2", level: "above", share: 98}},
		want: []fires{{40, "UnthrottleNodeThrottled=2"}},
	},
	{
		name:   "namespaces that are left out, and shares of one's own",
		change: func(o *Options) { o.Exempt = []string{"test", "shop"} },
		seen: []seen{
			{findings: []string{"too-many-ps"}, level: "container", share: 50},
			{pod: "b-1", owner: "b", level: "pod", share: 50},
			{pod: "c-1", owner: "c", level: "container", share: 50},
			{pod: "d-1", owner: "d", findings: []string{"stale"}},
		},
		want: []fires{{40, ""}},
	},
	{
		name:   "the same pod in two clusters",
		change: func(o *Options) { o.KeepLabels = []string{"cluster"} },
		seen: []seen{
			{findings: []string{"too-many-ps"}, level: "container", share: 50, extra: `,cluster="east"`},
			{level: "container", share: 5, extra: `,cluster="west"`},
			{pod: "b-1", owner: "b", level: "container", share: 5, extra: `,cluster="east"`},
			{pod: "b-1", owner: "b", level: "pod", share: 50, extra: `,cluster="west"`},
		},
		want: []fires{{40, "UnthrottlePodThrottled=1 UnthrottleTooManyPs=1"}},
	},
	{
		name: "labels that the scrape has renamed",
		series: []string{
			`unthrottle_container_info{namespace="unthrottle",pod="unthrottle-agent-x",exported_namespace="shop",exported_pod="api-1",exported_container="app",owner="api",owner_kind="Deployment",job="pods"}	1x60`,
			`unthrottle_container_finding{namespace="unthrottle",pod="unthrottle-agent-x",exported_namespace="shop",exported_pod="api-1",exported_container="app",rule="stale",severity="warning",job="pods"}	1x60`,
		},
		want: []fires{{40, "UnthrottleLabelsRenamed=1"}},
	},
	{
		name: "agents that are down, late, stuck, blind, and know no pods",
		series: []string{
			`up{job="unthrottle/unthrottle-agent",instance="a:9435"}	0x60`,
			`up{job="pods",pod="unthrottle-agent-x7k2p",instance="b:9435"}	0x60`,
			`up{job="pods",pod="other",instance="c:9435"}	0x60`,
			`unthrottle_agent_info{job="j",instance="d",node="late"}	1x60`,
			`unthrottle_agent_scans_total{job="j",instance="d"}	0+6x60`,
			`unthrottle_agent_scans_late_total{job="j",instance="d"}	0+5x60`,
			`unthrottle_agent_info{job="j",instance="e",node="stuck"}	1x60`,
			`unthrottle_agent_scans_total{job="j",instance="e"}	7x60`,
			`unthrottle_agent_info{job="j",instance="f",node="blind"}	1x60`,
			`unthrottle_agent_info{job="k",instance="f",node="blind"}	1x60`,
			`unthrottle_agent_processes{job="j",instance="f",kind="refused"}	3x60`,
			`unthrottle_agent_processes{job="j",instance="f",kind="go"}	3x60`,
			`unthrottle_agent_processes{job="j",instance="f",kind="stuck"}	2x60`,
			`unthrottle_agent_pods_known{job="j",instance="f"}	0x60`,
			`unthrottle_agent_containers_dropped{job="j",instance="f"}	4x60`,
			`unthrottle_agent_info{job="j",instance="g",node="good"}	1x60`,
			`unthrottle_agent_scans_total{job="j",instance="g"}	0+6x60`,
			`unthrottle_agent_scans_late_total{job="j",instance="g"}	0x60`,
			`unthrottle_agent_processes{job="j",instance="g",kind="refused"}	0x60`,
			`unthrottle_agent_pods_known{job="j",instance="g"}	1x60`,
			`unthrottle_agent_containers_dropped{job="j",instance="g"}	0x60`,
		},
		want: []fires{
			{10, ""},
			{40, "UnthrottleAgentBlind=1 UnthrottleAgentDown=2 UnthrottleAgentDrops=1 UnthrottleAgentLate=2 UnthrottleAgentNoPods=1 UnthrottleAgentStuck=1"},
		},
	},
	{
		name:   "no agents at all",
		series: []string{`up{job="node-exporter",instance="a:9100"}	1x60`},
		want:   []fires{{10, ""}, {40, "UnthrottleNoAgents=1"}},
	},
}

// TestPromtool evaluates the rules on series minute by minute. An evaluation that fails, as when a join finds several series for
// one, fails the test too.
func TestPromtool(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Default()
			if c.change != nil {
				c.change(&o)
			}
			dir := written(t, o)
			series := c.series
			for _, s := range c.seen {
				series = append(series, s.series()...)
			}
			if len(c.seen) > 0 {
				series = append(series, `unthrottle_agent_info{job="unthrottle-agent",instance="a:9435",node="node-1"}	1x60`)
			} else if !strings.Contains(c.name, "no agents") {
				series = append(series, `unthrottle_agent_info{job="other",instance="a:9435",node="node-1"}	1x60`)
			}
			var b strings.Builder
			b.WriteString("rule_files: [rules.yaml]\nevaluation_interval: 1m\ngroup_eval_order: [unthrottle.records, unthrottle.programs, unthrottle.agents]\ntests:\n- interval: 1m\n  input_series:\n")
			for _, s := range series {
				name, values, _ := strings.Cut(s, "\t")
				fmt.Fprintf(&b, "  - {series: '%s', values: '%s'}\n", name, values)
			}
			b.WriteString("  promql_expr_test:\n")
			for _, w := range c.want {
				// For alerts about workloads the pods are counted, for the rest the alerts.
				fmt.Fprintf(&b, `  - expr: >-
      sum by (alertname) (
        label_replace(count by (rule) (max by (rule, namespace, pod, container, owner, cluster) (unthrottle:container_verdict)), "r", "$1", "rule", "(.*)")
        * on (rule) group_left (alertname) group by (rule, alertname) (ALERTS{alertstate="firing"}))
      or count by (alertname) (ALERTS{alertstate="firing",rule=""})
    eval_time: %dm
    exp_samples:
`, w.minute)
				for _, a := range strings.Fields(w.alerts) {
					name, n, _ := strings.Cut(a, "=")
					fmt.Fprintf(&b, "    - {labels: '{alertname=\"%s\"}', value: %s}\n", name, n)
				}
			}
			promtool(t, dir, b.String())
		})
	}
}

// fromPrograms are the options of rules that need no agent.
func fromPrograms() Options {
	o := Default()
	o.From = Programs
	return o
}

func promtool(t *testing.T, dir, test string) {
	t.Helper()
	file := filepath.Join(dir, "test.yaml")
	if err := os.WriteFile(file, []byte(test), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool(t, "promtool"), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTexts holds what people read to the letter.
func TestTexts(t *testing.T) {
	for file, o := range map[string]Options{"texts.yaml": Default(), "exported.yaml": fromPrograms()} {
		data, err := os.ReadFile("testdata/promtool/" + file)
		if err != nil {
			t.Fatal(err)
		}
		promtool(t, written(t, o), string(data))
	}
}

// The cases have each alert fire.
func TestCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases {
		for _, w := range c.want {
			for _, a := range strings.Fields(w.alerts) {
				name, _, _ := strings.Cut(a, "=")
				names[name] = true
			}
		}
	}
	for _, g := range Groups(Default()) {
		for _, r := range g.Rules {
			if r.Alert != "" && !names[r.Alert] {
				t.Errorf("no case has %s fire", r.Alert)
			}
			delete(names, r.Alert)
		}
	}
	if len(names) > 0 {
		t.Errorf("there are no alerts %q", slices.Collect(maps.Keys(names)))
	}
}
