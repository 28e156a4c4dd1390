package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/podtrial"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

const tuneHelp = `Find the best GOMAXPROCS for a workload under its CPU limit, by trials on the cluster, and say how sure that is.

Usage:
  kubectl unthrottle tune deployment/NAME [-c CONTAINER] [FLAGS]
  kubectl unthrottle tune -f pod.yaml [FLAGS]
  kubectl unthrottle tune --resume FILE [--budget D]     continue an interrupted run, or extend a finished one

Each run is a fresh pod of the workload, created by a Job; the load comes from another pod on the same node. None of your
objects is changed, and no Service finds the trials. They run in their own namespace, which is deleted when tune is done, or
soon after it is killed. But the trials do what the program does: whatever it writes to, they write to as well.
docs/tune-cluster.md says more.

{{flags}}

Exit codes:
  0 there is a verdict, which may be "undecided"   1 failed   2 usage   3 see --fail-on   130 interrupted

Example:
  kubectl unthrottle tune deployment/api --path /search?q=go --slo p99=50ms
`

// tuner is one call of the verb.
type tuner struct {
	*conduct.Study
	stdio        verb.IO
	results      *verb.Results[*report.Tune]
	asked        conduct.Tune
	requests     loadtest.Requests
	requestFlags *pflag.FlagSet
	live         live

	file, container string
	cpus            []float64
	port            int
	path            string
	https           bool
	in, node        string
	timeout         time.Duration
	loadCPUs        float64
	image, pull     string
	nodes           int
	atOnce          string
	dryRun          bool
	deadline        time.Duration
	logs            string // where what a failed container wrote is kept; "": nowhere

	goal   *tune.Reach
	server *podtrial.Server
	places []tune.Place  // empty: one node
	sides  []tune.Server // pods that may run on it at the same time
	space  *podtrial.Space
	soFar  *tune.Study
}

func newTune(stdio verb.IO) *cobra.Command {
	cmd, _ := tuneVerb(stdio)
	return cmd
}

func tuneVerb(stdio verb.IO) (*cobra.Command, *tuner) {
	t := &tuner{stdio: stdio, results: verb.NewResults(stdio, conduct.TuneFormats()), asked: conduct.Tune{Command: "kubectl unthrottle tune", NoShort: true}}
	t.Study = &conduct.Study{
		Program: "kubectl-unthrottle", Verb: "tune", Example: "kubectl unthrottle tune --resume FILE [--budget D | --pairs N | --blocks N]", IO: stdio, Drop: t.results.Drop,
	}
	return verb.New("tune", tuneHelp, func(l *verb.Flags) func(context.Context, []string) error {
		t.Flags = l
		t.register(l)
		return func(ctx context.Context, args []string) error {
			if t.dryRun {
				return t.print(ctx, args)
			}
			return conduct.Run(ctx, t, args, func() (*cobra.Command, *tuner) { return tuneVerb(stdio) })
		}
	}), t
}

func (t *tuner) register(l *verb.Flags) {
	t.path, t.timeout, t.loadCPUs = "/", 5*time.Minute, 1
	in := l.Section("What is tuned:")
	in.StringVarP(&t.file, "filename", "f", "", "FILE\tthe workload, or a pod, from a file instead of the cluster; - is standard input")
	in.StringVarP(&t.container, "container", "c", "", "NAME\tthe container that is the server, if there are several")
	in.Var(quantity.Value(&t.cpus, conduct.ParseLimits, "1, or --cpus 0.5,1,2"), "cpus", "N\tCPUs (the container's own limit); with a list, which of them is enough")
	verb.Number(in, &t.port, "port", "", 1, "N\tthe port that the server listens on (the container's only port)")
	in.StringVar(&t.path, "path", "/", "PATH\tthe path to load (/)")
	in.BoolVar(&t.https, "https", false, "the server speaks TLS; --insecure doesn't check its certificate")
	verb.Duration(in, &t.timeout, "ready-timeout", time.Millisecond, "D\thow long a pod may take to become ready (5m)")
	in.StringVar(&t.Resume, "resume", "", "FILE\tcontinue an interrupted run")
	t.requestFlags = l.Like("unthrottle load")
	conduct.Requests(l, t.requestFlags, &t.requests)
	in = l.Section("Where the trials run:")
	in.StringVar(&t.in, "in", "", "NAME\tin this existing namespace (a new one of their own)")
	in.StringVar(&t.node, "node", "", "NAME\ton this node (the one that the scheduler chooses for the first run)")
	conduct.AtOnce(in, &t.atOnce, "if two pods don't disturb each other")
	verb.Number(in, &t.nodes, "nodes", "", 1, "N\ton N nodes of the same size, which take turns at the blocks, to save time (1)")
	in.StringVar(&t.image, "image", "", "IMAGE\tthe image of the pods that send the load and count CPU time "+imageUsage)
	in.Var(verb.OneOf(&t.pull, "Always", "IfNotPresent", "Never"), "image-pull-policy", "P\twhen to pull that image: Always, IfNotPresent or Never")
	in.Var(quantity.Value(&t.loadCPUs, quantity.ParseCPUs, "2"), "load-cpus", "N\tCPU limit of the load, if a quota requires one (1)")
	t.deadline = podtrial.Lease
	verb.Duration(in, &t.deadline, "deadline", 10*time.Second, "D\thow long until everything is deleted if this command is killed (10m)")
	in.BoolVar(&t.dryRun, "dry-run", false, "print the manifests of a run, and create nothing")
	t.asked.Load(l, l.Section("The load:"))
	t.asked.Tried(l, l.Section("What is tried:"), 0)
	t.asked.Judged(l.Section("How it is judged:"))
	in = l.Section("Results:")
	t.Fail.FailOnVerdict(in, "a change is advised", "if there is a trade")
	t.results.FilesFlag(in)
	t.results.JSONFlag(in)
	in.StringVar(&t.Runs, "runs", "", "F\twrite each run to F as it finishes")
	in.StringVar(&t.logs, "logs", "", "F\twrite what failed containers logged last to F, a new file; it may hold secrets")
	t.results.ColorFlag(in)
	t.live.connection(l, l.Section("The cluster:"), "user") // --user is of the requests
}

// Name begins the journal's name.
func (t *tuner) Name() string { return "tune-" + t.soFar.Plan.Name }

// Read reads a journal.
func (t *tuner) Read(data []byte) (command []string, dir string, cut int, err error) {
	if t.soFar, cut, err = tune.Read(data); err != nil {
		return nil, "", 0, err
	}
	return t.soFar.Plan.Command, t.soFar.Plan.Dir, cut, nil
}

// Inherit takes what --resume goes with: where the results go to.
func (t *tuner) Inherit(from *tuner) {
	verb.Inherit(t.results, from.results)
	t.Fail, t.logs = from.Fail, from.logs
	if from.Flags.Given("token") { // it is in no file of runs
		t.live.Instead.AuthInfo.Token = from.live.Instead.AuthInfo.Token
	}
}

// withoutToken is a command line as others may see it, in a file of runs and on a page. --resume takes a token again.
func withoutToken(command []string) (shown []string) {
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == "--token":
			i++
		case !strings.HasPrefix(command[i], "--token="):
			shown = append(shown, command[i])
		}
	}
	return shown
}

// GoOn takes the runs of an interrupted one. They go on on the node that they began on.
func (t *tuner) GoOn(from *tuner) (err error) {
	old := from.soFar
	if t.goal, err = from.asked.Goal(from.Flags, from.Resume, old); err != nil {
		return err
	}
	t.soFar = old
	t.server.Kit.Node = old.Environment.Node
	return nil
}

// Plan checks the command line, reads the workload, and opens the files of -o before anything runs.
func (t *tuner) Plan(ctx context.Context, args, command []string) error {
	t.Progress = conduct.NewProgress(t.stdio, t.results.JSON)
	p := t.asked.Plan
	p.Kind, p.Redirects = tune.ServerKind, t.Flags.Given("redirects")
	if len(t.cpus) > 1 {
		p.Limits = t.cpus
	}
	if t.nodes > 1 {
		p.Places = t.nodes
	}
	if t.atOnce != "auto" {
		p.AtOnce = t.atOnce
	}
	t.asked.Take(&p)
	if err := t.check(args, command, p); err != nil {
		return err
	}
	if err := t.prepareServer(ctx, args); err != nil {
		return err
	}
	p.Name, p.CPUs = t.server.Template.String(), t.server.Template.CPUs()
	p.URL = fmt.Sprintf("%s://POD-IP:%d%s", t.server.Scheme, t.server.Kit.Port, t.server.Path)
	if len(t.cpus) > 0 {
		p.CPUs = t.cpus[0]
	}
	if _, set, _ := t.server.Template.Env("GOGC"); set {
		t.asked.KeepGOGC(&p)
	}
	p.Seed, p.Command = t.Seeded(p.Seed)
	p.Command = withoutToken(p.Command)
	var err error
	if p.Dir, err = conduct.WorkDir(); err != nil {
		return err
	}
	t.soFar = &tune.Study{Version: report.Version, Verb: "tune", MadeBy: verb.MadeBy(), Time: verb.Now(), Plan: p}
	return t.results.Open()
}

// check checks the command line, before the cluster is asked for anything.
func (t *tuner) check(args, command []string, p tune.Plan) error {
	const example = "kubectl unthrottle tune deployment/NAME"
	switch {
	case len(command) > 0:
		return hint.Usage("unthrottle tune -- "+strings.Join(command, " "), "a program of this machine is tuned by unthrottle tune: %q", command[0])
	case len(args) > 1, len(args) == 0 && t.file == "":
		return hint.Usage(example, "tune takes one workload, got %d", len(args))
	case len(args) == 1 && t.file != "":
		return hint.Usage("use one of them", "%s and --filename cannot be used together", args[0])
	case !strings.HasPrefix(t.path, "/"):
		return hint.Usage("--path /"+t.path, "--path %s does not begin with /", t.path)
	case t.atOnce == tune.AtOnceYes && t.nodes > 1:
		return hint.Usage("leave one of them out", "--at-once yes and --nodes %d cannot be used together: settings take turns on each of several nodes", t.nodes)
	}
	if name := t.Flags.FirstGiven("targets", "descriptors", "unix", "proxy", "cacert", "cert", "key"); name != "" {
		return hint.Usage("leave it out", "--%s is of this machine, and the load is sent from a pod", name)
	}
	if strings.HasPrefix(t.requests.Data, "@") {
		return hint.Usage("--data TEXT", "--data %s is a file of this machine, and the load is sent from a pod", t.requests.Data)
	}
	if err := t.asked.Check(p); err != nil {
		return err
	}
	if len(p.Limits) == 0 {
		return nil
	}
	return t.asked.CheckLimits(t.Flags, p, "deployment/NAME", "conns")
}

// prepareServer says which pods there will be. It asks the cluster for the workload, and changes nothing.
func (t *tuner) prepareServer(ctx context.Context, args []string) error {
	place, client, err := cluster.Connect(t.live.Options)
	if err != nil {
		return err
	}
	api := &podtrial.API{Client: client}
	template, err := t.template(ctx, api, place.Namespace, args)
	if err != nil {
		return err
	}
	port, ok := template.Port()
	if t.port > 0 {
		port, ok = t.port, true
	}
	if !ok {
		return hint.Usage("--port 8080", "container %s of %s does not name one port: where does it listen?", template.Container, template)
	}
	var known rest.Interface // nil: to print the manifests of a file, no cluster is asked
	if t.file == "" || !t.dryRun {
		known = client
	}
	image, from, err := ourImage(ctx, t.image, t.stdio.Env, known, install.Namespace)
	if err != nil {
		return err
	}
	if t.image == "" && !t.dryRun {
		t.note("image " + image + ", " + from)
	}
	study := podtrial.NewStudy()
	kit := podtrial.Kit{
		Study: study, Namespace: t.in, Image: image, PullPolicy: t.pull, LoadCPUs: t.loadCPUs, Port: port, Node: t.node,
	}
	if t.in == "" {
		kit.Namespace, kit.Owned = "unthrottle-tune-"+study, true
	}
	scheme := "http"
	if t.https {
		scheme = "https"
	}
	send := append(conduct.RequestArgs(t.requestFlags), "--grace", "3s")
	if !t.Flags.Given("timeout") {
		send = append(send, "--timeout", "10s")
	}
	t.server = &podtrial.Server{API: api, Kit: kit, Template: template, Load: send, Scheme: scheme, Path: t.path, Timeout: t.timeout, Late: t.note}
	return nil
}

func (t *tuner) note(text string) { t.Progress.Note(text) }

// mostManifest is the most of a file of -f: an API server takes no object of more than 3 MiB.
const mostManifest = 16 << 20

// template gets the workload.
func (t *tuner) template(ctx context.Context, api *podtrial.API, namespace string, args []string) (*podtrial.Template, error) {
	if t.file == "" {
		data, err := api.Workload(ctx, namespace, args[0])
		if err != nil {
			return nil, err
		}
		return podtrial.ParseTemplate(data, t.container)
	}
	data, err := input.ReadAll(ctx, t.file, t.stdio.In, mostManifest)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the workload: %w", err), "-f takes a file with a Deployment, a Pod, or anything else that makes pods")
	}
	template, err := podtrial.ReadTemplate(data, t.container)
	if err == nil && template.Namespace == "" {
		template.Namespace = namespace
	}
	return template, err
}

// print writes the manifests of a run.
func (t *tuner) print(ctx context.Context, args []string) error {
	args, command := t.Flags.Split(args)
	if err := t.Plan(ctx, args, command); err != nil {
		return err
	}
	p := t.soFar.Plan
	setting := lab.Setting{CPUs: p.CPUs}
	if len(p.Procs) > 0 {
		setting.Procs = p.Procs[0]
	}
	shot := trial.Shot{Rate: p.Rate, From: p.From, Conns: p.Conns, Const: p.Const, WarmUp: p.WarmUp, Lasting: p.Window, Seed: p.Seed, SLO: p.SLO}
	if shot.Lasting == 0 {
		shot.Lasting = 5 * time.Second
	}
	if shot.Rate == 0 && shot.Conns == 0 {
		shot.Conns = 8 // the first of the pilot's
	}
	all, err := t.server.Manifests(setting, shot, t.deadline)
	if err != nil {
		return err
	}
	return podtrial.Print(t.stdio.Out, all)
}

// Prepare makes the study's namespace, and runs the server once, by which its node is chosen and has the image.
func (t *tuner) Prepare(ctx context.Context) error {
	if err := t.openLogs(); err != nil {
		return err
	}
	var err error
	kit := &t.server.Kit
	if t.space, err = podtrial.OpenSpace(ctx, t.server.API, kit, t.server.Template, t.deadline); err != nil {
		return err
	}
	t.Cleanup = append(t.Cleanup, t.leave)
	t.note("starting " + t.soFar.Plan.Name + " once in namespace " + kit.Namespace)
	p := &t.soFar.Plan
	node, err := t.server.Look(ctx, p.CPUs)
	if err != nil {
		return t.explain(err)
	}
	if before := t.soFar.Environment; before.CPUs != 0 && before.CPUs != node.CPUs {
		return hint.With(fmt.Errorf("node %s has %d CPUs, but the tune was started with %d", node.Name, node.CPUs, before.CPUs), "start a new one")
	}
	t.soFar.Environment = lab.Environment{
		OS: node.OS, Arch: node.Arch, Kernel: node.Kernel, CPU: node.CPUModel, CPUs: node.CPUs, Memory: node.Memory, Go: runtime.Version(), LimitKind: podtrial.LimitKind, Node: node.Name,
		Notes: append(notes(node), t.space.Notes...),
	}
	for _, text := range t.space.Notes {
		if !t.results.JSON {
			t.Progress.Say(text)
		}
	}
	if err := t.moreNodes(ctx, node); err != nil {
		return err
	}
	if t.nodes < 2 && !p.AsksLimit() && p.CPUs > 0 {
		for _, s := range t.server.Besides(min(lab.MostAtOnce, int(float64(node.CPUs)/p.CPUs))) {
			t.sides = append(t.sides, s)
		}
	}
	if t.soFar.Defaults != nil { // it goes on
		return nil
	}
	for _, cpus := range p.Limits {
		t.soFar.Defaults = append(t.soFar.Defaults, t.foresee(cpus).GoDefault)
	}
	return nil
}

// openLogs makes the file of --logs, which is for this user alone; one that is there is not written over. Where nothing failed it is taken
// away again.
func (t *tuner) openLogs() error {
	if t.logs == "" {
		return nil
	}
	f, err := os.OpenFile(t.logs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return hint.With(fmt.Errorf("opening the file of logs: %w", err), "--logs needs a new file")
	}
	t.server.Logs = podtrial.NewLogs(f)
	t.Cleanup = append(t.Cleanup, func() {
		info, err := f.Stat()
		f.Close()
		if err == nil && info.Size() == 0 {
			os.Remove(f.Name())
		}
	})
	return nil
}

// aboutLogs says where what failed containers wrote is.
func (t *tuner) aboutLogs() string {
	if t.logs == "" {
		return "what failed containers logged is not kept, as it may hold secrets: --logs FILE keeps it"
	}
	return "what failed containers logged last is in " + report.ShellWord(t.logs)
}

// moreNodes has the server run on other nodes too, where blocks should take turns at them.
func (t *tuner) moreNodes(ctx context.Context, one podtrial.Node) error {
	if t.nodes < 2 {
		return nil
	}
	t.places = []tune.Place{{Name: one.Name, Server: t.server}}
	names := []string{one.Name}
	for n := 2; n <= t.nodes; n++ {
		t.note(fmt.Sprintf("starting it on node %d of %d", n, t.nodes))
		server := t.server.Another(n, slices.Clone(names))
		node, err := server.Look(ctx, t.soFar.Plan.CPUs)
		if err != nil {
			return t.explain(fmt.Errorf("looking for node %d of %d: %w", n, t.nodes, err))
		}
		if node.CPUs != one.CPUs {
			return hint.With(fmt.Errorf("node %s has %d CPUs and %s has %d: runs on them are not alike", node.Name, node.CPUs, one.Name, one.CPUs),
				"a nodeSelector in the workload, or in a copy of it for -f, says which nodes are; or fewer --nodes")
		}
		names = append(names, node.Name)
		t.places = append(t.places, tune.Place{Name: node.Name, Server: server})
		differs := node.Differs(one)
		if !t.results.JSON {
			t.Progress.Say(differs)
		}
		t.soFar.Environment.Notes = append(t.soFar.Environment.Notes, differs)
	}
	return nil
}

// notes are what else a node says.
func notes(n podtrial.Node) (all []string) {
	if n.Kubelet != "" {
		all = append(all, "kubelet "+n.Kubelet)
	}
	if n.RuntimeName != "" {
		all = append(all, n.RuntimeName)
	}
	return all
}

// leave removes what was made.
func (t *tuner) leave() {
	if err := t.space.Close(context.Background()); err != nil {
		fmt.Fprintf(t.stdio.Err, "unthrottle: %s: it goes by itself within %v\n", plain.Line(err.Error()), t.deadline)
	}
}

// foresee says which GOMAXPROCS the container has under a limit, as far as its manifest says.
func (t *tuner) foresee(cpus float64) tune.Foresight {
	system := choice.Under(cpus, t.soFar.Environment.CPUs, unthrottle.Policy{})
	f := tune.Foresight{GoDefault: system.Of(choice.Go126).Procs}
	value, set, known := t.server.Template.Env("GOMAXPROCS")
	if n, err := strconv.Atoi(value); set && known && err == nil && n > 0 {
		f.Procs, f.Why = n, "its manifest says so"
	}
	return f
}

// Head is the journal's.
func (t *tuner) Head() any { return t.soFar }

// Execute does the runs that are missing.
func (t *tuner) Execute(ctx context.Context, record func(any) error) error {
	_, own, _ := t.server.Template.Env("GOMEMLIMIT")
	l := tune.Lab{
		OwnGOMEMLIMIT: own, Server: t.server, Sides: t.sides, Places: t.places, Foresee: t.foresee, Clock: time.Now, Memory: t.server.Template.Memory(),
		Record: func(r tune.Record) error { return record(r) },
		Tell:   func(p tune.Progress) { t.Progress.Tune(t.soFar, p) },
	}
	if t.goal != nil {
		if err := l.Record(tune.Record{Reach: t.goal}); err != nil {
			return err
		}
	}
	if t.soFar.Plan.AsksLimit() {
		return t.explain(t.soFar.ExecuteLimits(ctx, l))
	}
	return t.explain(t.soFar.Execute(ctx, l))
}

// explain says what to do about what ended a study.
func (t *tuner) explain(err error) error {
	if lost := t.space.Err(); err != nil && lost != nil {
		err = hint.With(fmt.Errorf("%w; and before that the end of all could not be put off: %w", err, lost), hint.Of(err)...)
	}
	var hopeless *tune.Hopeless
	isHopeless := errors.As(err, &hopeless)
	_, failed := trial.Failed(err)
	var hints []string
	switch {
	case isHopeless && hopeless.Next != "":
		hints = []string{hopeless.Next}
	case isHopeless:
		hints = []string{"look at a run by itself: kubectl unthrottle tune --dry-run prints its manifests"}
	case failed:
		hints = []string{"does it run so in the cluster? --dry-run prints its manifests; --port and --path say what to load, --ready-timeout how long to wait"}
	default:
		return err
	}
	if failed || isHopeless && hopeless.Failed {
		hints = append(hints, t.aboutLogs())
	}
	return hint.With(err, hints...)
}

// Measured reports whether there is anything to show.
func (t *tuner) Measured() bool { return t.soFar.Pilot != nil || len(t.soFar.Windows) > 0 }

// Show shows what there is.
func (t *tuner) Show(journal, next string, interrupted bool) error {
	var more []string
	if t.soFar.AnyFailed() {
		more = append(more, t.aboutLogs())
	}
	return t.ShowTune(t.results, t.soFar, journal, next, interrupted, more...)
}
