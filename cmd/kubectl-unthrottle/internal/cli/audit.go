package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/gitops"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/registry"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/prom"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/page"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const auditHelp = `What is wrong with GOMAXPROCS in a whole cluster, what it costs, and what would help.

Usage:
  kubectl unthrottle audit [FLAGS]

Audit reads the objects of a namespace, or of all with -A. It queries the agents of the nodes, if there are any, through the
API server, and Prometheus, if you name it. It changes nothing, but for the Jobs of --once, which it removes. Values that were
not measured are marked as such.
What is wrong now comes before what the objects say. A number that is right wherever it was measured, and would not be
elsewhere, is a finding of severity info. docs/audit.md says what each verdict and column means.

{{flags}}

Exit codes:
  0 done   1 something could not be read, or no workload was found   2 usage   3 see --fail-on   130 interrupted

Examples:
  kubectl unthrottle audit -A -o audit.html
  kubectl unthrottle audit -n shop --prometheus http://prometheus:9090 --since 7d --fail-on critical
`

type auditor struct {
	stdio   verb.IO
	results *verb.Results[*result.Audit]
	fail    verb.Threshold
	given   given
	live    live
	agents  string
	once    bool
	image   string // of --once

	contexts []string    // of several clusters
	turn     *sync.Mutex // of what they share
	prom     prom.Options
	images   bool
	floor    int
	top      int
	whatIf   bool
}

func newAudit(stdio verb.IO) *cobra.Command {
	return verb.New("audit", auditHelp, func(l *verb.Flags) func(context.Context, []string) error {
		formats := verb.SheetFormats(page.Audit)
		formats["csv"] = verb.Plainly(page.AuditCSV)
		o := &auditor{stdio: stdio, results: verb.NewResults(stdio, formats), agents: "auto", floor: 1, top: 20, turn: &sync.Mutex{}}
		likeKubectl(o.results, page.AuditAll, (*result.Audit).Names)
		o.prom.Since = 24 * time.Hour
		flags := l.Section("Flags:")
		o.live.where(l, flags)
		flags.StringSliceVar(&o.contexts, "contexts", nil, "NAME,…\tthese contexts of the kubeconfig, in one audit")
		l.Exclude("-A, or -n NAME", "all-namespaces", "namespace")
		o.fail.FailOn(flags)
		verb.Number(flags, &o.top, "top", "", 0, "N\tshow at most N workloads, the most important first; 0: all that are wrong or open (20)")
		flags.BoolVar(&o.whatIf, "what-if", false, "show what would change under Go 1.26, CRI-O and our policy, and what OpenShift asks")
		o.given.emptyFlag(flags)
		o.results.FilesFlag(flags)
		o.results.JSONFlag(flags)
		o.results.ColorFlag(flags)
		more := l.Section("What else is known:")
		more.StringVar(&o.agents, "agents", agentsAuto, agentsUsage)
		more.BoolVar(&o.once, "once", false, onceUsage)
		more.StringVar(&o.image, "once-image", "", "IMAGE\tthe image of kubectl-unthrottle for --once (the one beside "+imageVariable+", or that of this release)")
		more.StringVar(&o.prom.URL, "prometheus", "", "URL\ta Prometheus server with the programs' own metrics, cAdvisor's or kube-state-metrics'")
		more.Var(quantity.Value(&o.prom.Since, parseSince, "24h"), "since", "T\thow far Prometheus looks back: 90m, 24h, 7d (24h)")
		more.BoolVar(&o.images, "registry", false, "pull the images of programs that no agent has seen, and examine them")
		verb.Number(more, &o.floor, "crio-floor", "", 1, "N\tCRI-O's min_injected_gomaxprocs, for --what-if and JSON (1)")
		o.given.programs(more)
		return func(ctx context.Context, args []string) error {
			if err := o.checkContexts(l); err != nil {
				return err
			}
			return o.run(ctx, args)
		}
	})
}

// mostDays is how far back it makes sense to look.
const mostDays = 3650

// parseSince reads a time to look back, in days too.
func parseSince(text string) (time.Duration, error) {
	var d time.Duration
	days, ok := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(days)
	if ok && err == nil && n <= mostDays {
		d = time.Duration(n) * 24 * time.Hour
	} else if d, err = time.ParseDuration(text); err != nil {
		return 0, err
	}
	if d < time.Minute || d > mostDays*24*time.Hour {
		return 0, fmt.Errorf("%s is not between a minute and %d days", text, mostDays)
	}
	return d, nil
}

func (o *auditor) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return hint.Usage("kubectl unthrottle audit -n NAMESPACE, or lint "+args[0]+" for a file", "audit looks at live objects, and takes no argument: %s", args[0])
	}
	if err := checkAgents(o.agents); err != nil {
		return err
	}
	if err := o.checkOnce(); err != nil {
		return err
	}
	if o.prom.URL != "" {
		if err := prom.Check(o.prom.URL); err != nil {
			return err
		}
	}
	known, err := o.given.known(ctx)
	if err != nil {
		return err
	}
	if len(o.contexts) > 1 {
		return o.several(ctx, known)
	}
	if len(o.contexts) == 1 {
		o.live.Context = o.contexts[0]
	}
	access, err := cluster.Open(o.live.Options, mostOfAgent)
	if err != nil {
		return err
	}
	if err := o.results.Open(); err != nil {
		return err
	}
	doc, _, err := o.look(ctx, access, known)
	if err != nil {
		return o.results.Drop(err)
	}
	return o.finish(doc)
}

// look looks at one cluster. The result has the workloads of the document.
func (o *auditor) look(ctx context.Context, access *cluster.Access, known lint.Known) (*result.Audit, *audit.Result, error) {
	o.live.Pods = true
	found, err := cluster.Read(ctx, o.live.Options)
	if err != nil {
		return nil, nil, err
	}
	a := audit.New(found, known, audit.Options{Floor: o.floor})
	var problems []result.Problem
	heard := result.AuditAgents{Asked: o.agents != agentsNone}
	if heard.Asked {
		problems = o.hear(ctx, access, found, a, &heard)
	}
	history, more := o.history(ctx, a)
	joined, pulled, failed, err := o.judge(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	more = append(more, failed...)
	gitops.Read(ctx, access, joined.FromGit())
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	doc := result.NewAudit(found, joined, heard, history, append(problems, more...))
	doc.Registry = pulled
	return doc, joined, nil
}

// judge asks registries and joins what was read. Clusters take turns: what is known about images is kept for the next one.
func (o *auditor) judge(ctx context.Context, a *audit.Audit) (*audit.Result, *result.AuditRegistry, []result.Problem, error) {
	o.turn.Lock()
	defer o.turn.Unlock()
	pulled, failed := o.pull(ctx, a)
	if ctx.Err() != nil {
		return nil, nil, nil, ctx.Err()
	}
	joined, err := a.Result(ctx)
	return joined, pulled, failed, err
}

// finish writes the document, and says what is wrong with it by the exit code.
func (o *auditor) finish(doc *result.Audit) error {
	doc.Header = verb.NewHeader("audit")
	doc.Top, doc.WhatIf = o.top, o.whatIf
	if err := o.results.Finish(doc, nil); err != nil {
		return err
	}
	if err := o.fail.Verdict(doc.Findings(), 0); err != nil {
		return err
	}
	if n := doc.Unread(); n > 0 {
		return fmt.Errorf("%d of the problems above kept something from being read", n)
	}
	return o.given.looked(doc.Nothing(), "-A looks at all namespaces, -n NAME at another one, and -l QUERY only at objects with these labels")
}

const (
	mostOfAgent = 32 << 20 // bytes of an agent's answer, and of a page of agents
	withinAgent = 5 * time.Second
	withinAll   = time.Minute // for all agents together
)

// hear asks the agents. What could not be heard is reported once for all agents with the same trouble.
func (o *auditor) hear(ctx context.Context, access *cluster.Access, objects *cluster.Found, a *audit.Audit, heard *result.AuditAgents) []result.Problem {
	search := agents.Search{Namespace: agentsIn(o.agents), Within: cmp.Or(o.live.Timeout, withinAll)}
	found, err := agents.Find(ctx, access, search)
	heard.Found = len(found.Agents)
	if err != nil {
		why, next := cluster.Reason(err)
		if cluster.Forbidden(err) {
			next = "kubectl auth can-i list daemonsets,pods -n " + search.Namespace + "; --agents none does without them"
		}
		severity := manifest.Warning
		if o.once { // it is not known whether to make Jobs, and that was asked for
			severity = manifest.Error
		}
		return []result.Problem{{At: "agents", Severity: string(severity), Text: "looking for them in namespace " + search.Namespace + ": " + why, Hint: next}}
	}
	problems := notAsked(append(found.Strangers, agents.Others(ctx, access, search)...), found.Installed)
	if o.once && found.Installed {
		fmt.Fprintf(o.stdio.Err, "unthrottle: agents are installed in namespace %s: they were asked, and no Job was made\n", search.Namespace)
	} else if o.once {
		return append(problems, o.lookOnce(ctx, access, objects, a, heard)...)
	}
	if len(found.Agents) == 0 && o.agents != agentsAuto { // they were asked for by name
		return append(problems, result.Problem{
			At: "agents", Severity: string(manifest.Error), Text: "none found in namespace " + search.Namespace,
			Hint: "kubectl unthrottle install --namespace " + search.Namespace + " installs them; without --agents they are asked where there are any",
		})
	}
	var told troubles
	within := withinAgent
	if o.live.Timeout > 0 {
		within = min(within, o.live.Timeout)
	}
	limited, cancel := context.WithTimeout(ctx, withinAll)
	defer cancel()
	agents.Read(limited, access, found.Agents, agents.Options{Within: within}, a.Saw, o.heard(limited, a, heard, &told))
	slices.SortFunc(heard.Failed, failuresFirst)
	return append(problems, told.problems()...)
}

// heard takes what became of an agent.
func (o *auditor) heard(ctx context.Context, a *audit.Audit, heard *result.AuditAgents, told *troubles) func(*agents.Answer) {
	return func(t *agents.Answer) {
		heard.Programs += t.Programs
		if t.Trusted() {
			a.Answered(t.Node)
		}
		if t.Doubted() {
			a.Doubted(t.Node)
		}
		if t.Err == nil {
			heard.Answered++
		}
		for _, x := range troubleOf(ctx, t, heard.Once) {
			told.add(t, x)
			if x.severity == manifest.Error {
				heard.Failed = append(heard.Failed, result.AuditFailure{Agent: t.Namespace + "/" + t.Pod, Node: t.Node, Why: x.text})
			}
		}
	}
}

func failuresFirst(a, b result.AuditFailure) int {
	return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Why, b.Why))
}

// notAsked names pods that have an agent's label and aren't agents. Anyone who may create a pod may give it that label.
func notAsked(strangers []agents.Stranger, installed bool) (problems []result.Problem) {
	of := map[string][]string{} // names by what is wrong with them
	for _, s := range strangers {
		of[s.Why] = append(of[s.Why], s.String())
	}
	for why, names := range of {
		slices.Sort(names)
		next := "look at who made it, and why it has an agent's label"
		if !installed {
			next = "--agents NAMESPACE says where agents are installed, if that is there"
		}
		problems = append(problems, result.Problem{At: someOf("pod", names), Severity: string(manifest.Warning), Text: "not asked, though it has an agent's label: " + why, Hint: next})
	}
	slices.SortFunc(problems, func(a, b result.Problem) int { return strings.Compare(a.Text, b.Text) })
	return problems
}

const (
	agentsAuto  = "auto"
	agentsNone  = "none"
	agentsUsage = "WHERE\tthe namespace of the agents; auto: " + install.Namespace + "; none: don't ask them (auto)"
)

// agentsIn is the namespace in which agents are looked for.
func agentsIn(where string) string {
	if where == agentsAuto {
		return install.Namespace
	}
	return where
}

// agentsOf is the same where none may be asked: "".
func agentsOf(where string) string {
	if where == agentsNone {
		return ""
	}
	return agentsIn(where)
}

// checkAgents says what is wrong with --agents.
func checkAgents(where string) error {
	if err := (&install.Options{Namespace: where}).Check(); err != nil {
		return hint.Usage("--agents "+install.Namespace, "--agents: %v", err)
	}
	return nil
}

// A trouble is what went wrong with some agents.
type trouble struct {
	severity   manifest.Severity
	text, hint string
}

// troubleOf is what went wrong with one.
func troubleOf(ctx context.Context, t *agents.Answer, once bool) (all []trouble) {
	add := func(severity manifest.Severity, text, hint string) { all = append(all, trouble{severity, text, hint}) }
	switch {
	case errors.Is(t.Err, agents.ErrNotReady):
		add(manifest.Warning, t.Err.Error()+", so not asked", "kubectl describe pod says why; what runs on its node was not measured")
	case t.Err != nil && ctx.Err() != nil:
		add(manifest.Error, "no time was left to ask it", "ask for one namespace, or look at what keeps the others from answering")
	case t.Err != nil && once:
		why, next := cluster.Reason(t.Err)
		if cluster.Forbidden(t.Err) {
			next = "--once takes create and delete for jobs, list and delete for pods, and get for pods/log: kubectl auth can-i create jobs -n " + t.Namespace
		}
		add(manifest.Error, "not looked at: "+short(why), cmp.Or(strings.Join(hint.Of(t.Err), "; "), next))
	case t.Err != nil:
		why, next := cluster.Reason(t.Err)
		if cluster.Forbidden(t.Err) {
			next = "kubectl auth can-i get pods/proxy -n " + t.Namespace + "; --agents none does without them"
		}
		add(manifest.Error, "no usable answer: "+short(why), cmp.Or(next, "kubectl logs shows what it does; what runs on its node was not measured, or not all of it"))
	}
	const liar = "look at what runs there: it is not an agent of that node"
	if t.WrongNode != "" {
		add(manifest.Error, "claims to be on another node", liar)
	}
	if t.Elsewhere > 0 {
		add(manifest.Error, "it reports programs in pods of other nodes; they were left out", liar)
	}
	if t.Strange > 0 {
		add(manifest.Error, "it reports programs in containers that their pods do not have; they were left out", liar)
	}
	if t.Otherwise > 0 {
		add(manifest.Error, "it contradicts another agent of its node; the first report counts", "look at both: a node should have one agent")
	}
	told := 0 // of what it says itself
	if t.Unnamed > 0 {
		told++
		add(manifest.Warning, "it can't name the containers of some programs yet; they were left out", "audit again in a minute; the pause container of a pod never gets a name, and kubectl logs says what else it may be")
	}
	if t.NewRules > 0 {
		add(manifest.Warning, "it names rules that this command does not know; they were left out", "this command and the agents should be of one version")
	}
	if t.Refused > 0 {
		told++
		add(manifest.Warning, "it may not look into all processes", "it needs CAP_SYS_PTRACE for that")
	}
	if t.Stuck > 0 {
		told++
		add(manifest.Warning, "the kernel does not answer about "+quantity.Plural(t.Stuck, "process"), "perhaps a file system that they use hangs")
	}
	if t.Problems > told && once {
		add(manifest.Warning, "not everything that runs there could be seen", "an installed agent says what is missing, at /api/v1/processes")
	} else if t.Problems > told {
		add(manifest.Warning, "it could not see everything", "kubectl logs, or its own page /api/v1/processes, says what is missing")
	}
	return all
}

// short is a text from elsewhere, cut to a useful length.
func short(text string) string {
	if letters := []rune(text); len(letters) > 300 {
		return string(letters[:300]) + "…"
	}
	return text
}

// troubles are those of all agents, each with the agents that have it.
type troubles struct {
	once  bool // there aren't any: nodes were looked at
	of    map[trouble][]string
	order []trouble
}

// mostTroubles is how many different troubles are reported.
const mostTroubles = 50

func (x *troubles) add(t *agents.Answer, one trouble) {
	if x.of == nil {
		x.of = map[trouble][]string{}
	}
	if _, ok := x.of[one]; !ok {
		if len(x.order) == mostTroubles {
			one = trouble{one.severity, "something else went wrong", "--agents none does without them"}
		}
		if _, ok := x.of[one]; !ok {
			x.order = append(x.order, one)
		}
	}
	name := t.String()
	if x.once {
		name = t.Node
	}
	x.of[one] = append(x.of[one], name)
}

// problems name some agents for each trouble; the document has all that failed.
func (x *troubles) problems() (all []result.Problem) {
	what := "agent"
	if x.once {
		what = "node"
	}
	for _, one := range x.order {
		names := x.of[one]
		slices.Sort(names)
		all = append(all, result.Problem{At: someOf(what, names), Severity: string(one.severity), Text: one.text, Hint: one.hint})
	}
	slices.SortFunc(all, func(a, b result.Problem) int {
		return cmp.Or(strings.Compare(a.Text, b.Text), strings.Compare(a.At, b.At))
	})
	return all
}

// pull asks registries for images whose programs haven't been seen.
func (o *auditor) pull(ctx context.Context, a *audit.Audit) (*result.AuditRegistry, []result.Problem) {
	if !o.images {
		return nil, nil
	}
	var images []registry.Image
	for name, containers := range a.Unseen() {
		images = append(images, registry.Image{Name: name, Containers: containers})
	}
	slices.SortFunc(images, func(a, b registry.Image) int { return strings.Compare(a.Name, b.Name) })
	out := &result.AuditRegistry{Images: len(images)}
	failed := map[string][]string{} // images by what went wrong
	registry.Read(ctx, images, registry.Options{}, func(p registry.Program) {
		if p.Err != nil {
			why := short(p.Err.Error())
			failed[why] = append(failed[why], p.Image)
			return
		}
		out.Read++
		a.Named(p.Image, p.Binary)
	})
	var problems []result.Problem
	for why, names := range failed {
		slices.Sort(names)
		problems = append(problems, result.Problem{At: someOf("image", names), Severity: string(manifest.Warning), Text: why, Hint: "--image IMAGE=FILE names it by hand"})
	}
	slices.SortFunc(problems, func(a, b result.Problem) int { return strings.Compare(a.Text, b.Text) })
	return out, problems
}

// someOf names some of many.
func someOf(what string, names []string) string {
	const some = 5
	n := len(names)
	if n == 1 {
		return what + " " + names[0]
	}
	text := quantity.Plural(n, what) + " (" + strings.Join(names[:min(n, some)], "; ")
	if n > some {
		text += "; and " + quantity.Count(n-some) + " more"
	}
	return text + ")"
}

// history asks Prometheus, if it is named.
func (o *auditor) history(ctx context.Context, a *audit.Audit) (*result.AuditPrometheus, []result.Problem) {
	if o.prom.URL == "" || ctx.Err() != nil {
		return nil, nil
	}
	o.prom.Within = o.live.Timeout
	at := &result.AuditPrometheus{URL: prom.Shown(o.prom.URL), Since: o.prom.Since.Seconds(), Empty: []string{}}
	found, err := prom.Read(ctx, o.prom)
	if err != nil {
		return at, []result.Problem{{At: "Prometheus", Severity: string(manifest.Error), Text: err.Error(), Hint: strings.Join(hint.Of(err), "; ")}}
	}
	at.Series, at.Empty = found.Series, append(at.Empty, found.Empty...)
	for _, h := range found.Containers {
		if a.History(h) {
			at.Joined++
		}
	}
	var problems []result.Problem
	for _, p := range found.Problems {
		problems = append(problems, result.Problem{At: "Prometheus, " + p.About, Severity: string(manifest.Error), Text: p.Text, Hint: p.Hint})
	}
	if found.Series == 0 {
		problems = append(problems, result.Problem{
			At: "Prometheus", Severity: string(manifest.Warning), Text: "it has no series of what was asked for",
			Hint: "is it this cluster's? its series need the labels namespace, pod and container",
		})
	}
	return at, problems
}
