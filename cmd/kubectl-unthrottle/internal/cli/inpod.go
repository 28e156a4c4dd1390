package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/inpod"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// What the verbs about one pod have in common: who looks at the program is asked, and the document is shown here.
const inPodHelp = `%s

Usage:
  kubectl unthrottle %s [FLAGS] POD      mypod, or deployment/api for one of its pods

%s

--way exec runs unthrottle in the container, if its image has it; nothing stays. --way ephemeral adds a container that sees the
program's processes. It ends with the command, but it stays in the pod's spec until the pod is deleted.

{{flags}}

Exit codes:
  0 done   1 %s   2 usage   3 see --fail-on   130 interrupted

Example:
  kubectl unthrottle %s
`

const inPodPprof = `The program has to serve net/http/pprof, on a port that its container declares or on 6060; --process localhost:6061 names
another. It is asked through a forwarded port, as by kubectl port-forward, and nothing is done to the pod. An agent tells the limit and
what the kernel counts meanwhile.`

// A podVerb is a verb about one pod.
type podVerb[D verb.Checked] struct {
	name, about, more, example string
	fails                      string // what exit code 1 says
	sheet                      func(D) *sheet.Sheet
	length                     func(*pflag.FlagSet) func() (time.Duration, error)        // adds --for
	found                      func(D) (findings []finding.Finding, least, most float64) // for how much of the time it stood still
	stopped                    func(D) bool                                              // by Ctrl-C; nil: then no document
	blind                      func(D) error                                             // why nothing could be found; nil: it is always seen
	frozen                     string                                                    // what --fail-share is about; "": none
}

func newExplainPod(stdio verb.IO) *cobra.Command {
	return newPodVerb(stdio, podVerb[*report.Explain]{
		name: "explain", about: "The CPU limit of a container's program, its GOMAXPROCS, and why.",
		more: `It asks the agent of the pod's node, and does nothing to the pod. Where no agent can answer, it tells what the pod's spec and
status say, and that nothing was measured.`,
		fails:   "failed, or --fail-on and nothing was measured",
		example: "explain mypod -c api",
		sheet:   view.Explain, length: looksFor(time.Second, "D\thow long to observe the program (1s)"),
		found: func(d *report.Explain) ([]finding.Finding, float64, float64) { return d.Findings, 0, 0 },
		blind: (*report.Explain).Blind,
	})
}

func newWatchPod(stdio verb.IO) *cobra.Command {
	return newPodVerb(stdio, podVerb[*report.Watch]{
		name: "watch", about: "How often and for how long the CPU limit of a container stops it, as the kernel counts it.",
		more: `It asks the agent of the pod's node once a second, and does nothing to the pod. What happens within a period takes a heartbeat
inside the container's cgroup, by --way exec, or from an ephemeral container with --privileged.`,
		fails:   "failed, or nothing was measured",
		example: "watch mypod --for 30s --fail-share 5%",
		sheet:   view.Watch, length: looksFor(10*time.Second, "D\thow long (10s)"), frozen: "frozen",
		found: func(d *report.Watch) ([]finding.Finding, float64, float64) {
			least, most := d.Frozen()
			return d.Findings, least, most
		},
		stopped: func(d *report.Watch) bool { return d.Stopped },
		blind:   (*report.Watch).Blind,
	})
}

func newTracePod(stdio verb.IO) *cobra.Command {
	return newPodVerb(stdio, podVerb[*report.Trace]{
		name: "trace", about: "When a container's program stood still although it had work to do, and whether a CPU quota was the cause.",
		more:    inPodPprof,
		fails:   "failed, or nothing was measured",
		example: "trace mypod --process localhost:6060 -o trace.html",
		sheet:   view.Trace, length: takes(5), frozen: "throttled",
		found: func(d *report.Trace) ([]finding.Finding, float64, float64) {
			return d.Findings, d.Throttled, d.Throttled
		},
	})
}

func newProfilePod(stdio verb.IO) *cobra.Command {
	return newPodVerb(stdio, podVerb[*report.Profile]{
		name: "profile", about: "Which part of a container's CPU time grows with GOMAXPROCS, and how the CPU time compares with the limit.",
		more:    inPodPprof,
		fails:   "failed, or nothing was measured",
		example: "profile mypod -o profile.html",
		sheet:   view.Profile, length: takes(10),
		found: func(d *report.Profile) ([]finding.Finding, float64, float64) { return d.Findings, 0, 0 },
	})
}

// looksFor adds --for.
func looksFor(usual time.Duration, usage string) func(*pflag.FlagSet) func() (time.Duration, error) {
	return func(flags *pflag.FlagSet) func() (time.Duration, error) {
		lasting := usual
		verb.Duration(flags, &lasting, "for", time.Millisecond, usage)
		return func() (time.Duration, error) {
			if lasting > time.Hour {
				return 0, hint.Usage("write --for=10s", "--for=%v is longer than an hour", lasting)
			}
			return lasting, nil
		}
	}
}

// takes adds --for in whole seconds.
func takes(usual int) func(*pflag.FlagSet) func() (time.Duration, error) {
	return func(flags *pflag.FlagSet) func() (time.Duration, error) {
		seconds := usual
		verb.Seconds(flags, &seconds, fmt.Sprintf("D\thow long, in whole seconds (%ds)", usual))
		return func() (time.Duration, error) { return time.Duration(seconds) * time.Second, nil }
	}
}

// An inPod is what the flags say about where it runs.
type inPod struct {
	live
	container, process, way, image string
	save, base                     string // of a trace or a profile
	agents                         string
	privileged                     bool
}

func (o *inPod) flags(flags *pflag.FlagSet, verbName string) {
	o.way = string(inpod.Auto)
	flags.StringVarP(&o.container, "container", "c", "", "NAME\tthe container (the pod's default one, or the first)")
	flags.StringVar(&o.process, "process", "", "P\tthe program's pid or name in the container, or where it listens (the first process)")
	untouched, usual := inpod.Forward, "auto: a forwarded port"
	if asksAgent(verbName) {
		untouched, usual = inpod.Agent, "auto: the agent, or else what the pod's spec says"
	}
	ways := []string{string(inpod.Auto), string(untouched), string(inpod.Exec), string(inpod.Ephemeral)}
	about := "W\thow to reach the program: " + quantity.Either(ways) + " (" + usual + ")"
	flags.Var(verb.OneOf(&o.way, ways...), "way", about)
	flags.StringVar(&o.agents, "agents", agentsAuto, agentsUsage)
	if !asksAgent(verbName) {
		flags.StringVar(&o.save, "save", "", "F\tkeep the "+verbName+" as file F")
	}
	if verbName == "profile" {
		flags.StringVar(&o.base, "base", "", "FILE\tthe profile to compare it with, per unit of work")
	}
	flags.StringVar(&o.image, "image", "", "I\tthe image of the ephemeral container "+imageUsage)
	flags.BoolVar(&o.privileged, "privileged", false, "make the ephemeral container privileged")
}

// check refuses what does not go together, before a pod is touched.
func (o *inPod) check(l *verb.Flags, verbName string) error {
	inside := o.way == string(inpod.Exec) || o.way == string(inpod.Ephemeral)
	if given := l.FirstGiven("save", "base"); given != "" && inside {
		return hint.Usage("leave --way out", "--%s is for what comes through a forwarded port", given)
	}
	switch given := l.FirstGiven("image", "privileged"); {
	case o.agents == agentsNone && o.way == string(inpod.Agent):
		return hint.Usage("--agents "+install.Namespace, "--way agent and --agents none exclude each other")
	case given != "" && o.way != string(inpod.Ephemeral):
		return hint.Usage("add --way ephemeral, or leave --"+given+" out", "--%s is of a container that is added to the pod, which only --way ephemeral does", given)
	case verbName == "watch" && o.way == string(inpod.Ephemeral) && !o.privileged:
		return hint.Usage("add --privileged, or use --way exec if the container's image has unthrottle",
			"watch puts a heartbeat into the program's cgroup, which no ephemeral container may enter without --privileged")
	}
	return nil
}

// asksAgent reports whether agents answer a verb.
func asksAgent(verbName string) bool { return verbName == "explain" || verbName == "watch" }

// waysOn say how to look at a program that nothing is known about, and what each way leaves behind.
func waysOn(verbName string) []string {
	privileged := ""
	if verbName == "watch" {
		privileged = " --privileged"
	}
	ways := []string{
		"--way exec runs unthrottle in the container, if its image has it; nothing stays",
		"--way ephemeral" + privileged + " adds a container to the pod, which ends with the command and stays in the pod's spec until the pod is deleted",
	}
	if asksAgent(verbName) {
		return append([]string{"kubectl unthrottle install puts an agent on each node, which sees programs without touching their pods"}, ways...)
	}
	return append([]string{"--process localhost:PORT says where the program serves net/http/pprof, if it does"}, ways...)
}

func newPodVerb[D verb.Checked](stdio verb.IO, v podVerb[D]) *cobra.Command {
	return verb.New(v.name, fmt.Sprintf(inPodHelp, v.about, v.name, v.more, v.fails, v.example), func(l *verb.Flags) func(context.Context, []string) error {
		results, fail, where := verb.NewResults(stdio, verb.SheetFormats(v.sheet)), verb.Threshold{}, inPod{}
		likeKubectl(results, v.sheet, nil)
		flags := l.Section("Flags:")
		own := v.length(flags)
		where.flags(flags, v.name)
		fail.FailOn(flags)
		if v.frozen != "" {
			fail.FailShare(flags, v.frozen)
		}
		results.JSONFlag(flags)
		results.FilesFlag(flags)
		results.ColorFlag(flags)
		where.connection(l, l.Section("Cluster:"))
		l.Cmd.ValidArgsFunction = completes(&where.live)
		return func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return hint.Usage("kubectl unthrottle "+v.name+" mypod", "%s takes one pod, got %s", v.name, quantity.Plural(len(args), "argument"))
			}
			length, err := own()
			if err != nil {
				return err
			}
			if err := checkAgents(where.agents); err != nil {
				return err
			}
			if err := where.check(l, v.name); err != nil {
				return err
			}
			if err := results.Open(); err != nil {
				return err
			}
			doc, err := lookInPod[D](ctx, stdio, where, args[0], v.name, length)
			if err := results.Finish(doc, err); err != nil {
				return err
			}
			if v.stopped != nil && v.stopped(doc) {
				return verb.ExitCode{Code: verb.Interrupted}
			}
			findings, least, most := v.found(doc)
			if err := fail.Verdict(findings, least); err != nil {
				return err
			}
			if fail.Open(least, most) {
				return fmt.Errorf("--fail-share: can't tell: it stood still for %s to %s of the time", quantity.Share(least), quantity.Share(most))
			}
			if v.blind == nil || v.name == "explain" && fail.Severity == "" { // what its pod says is an answer
				return nil
			}
			return v.blind(doc)
		}
	})
}

// lookInPod runs the verb there and reads its document.
func lookInPod[D any](ctx context.Context, stdio verb.IO, where inPod, what, verbName string, length time.Duration) (doc D, err error) {
	place, client, err := cluster.Connect(where.Options)
	if err != nil {
		return doc, err
	}
	if where.way == string(inpod.Ephemeral) {
		image, from, err := ourImage(ctx, where.image, stdio.Env, client, agentsOf(where.agents))
		if err != nil {
			return doc, err
		}
		if where.image == "" {
			fmt.Fprintln(stdio.Err, "unthrottle: "+plain.Line("image "+image+", "+from))
		}
		where.image = image
	}
	p := inpod.Pod{
		Config: place.Config, REST: client, Namespace: place.Namespace, Container: where.container, Process: where.process,
		Way: inpod.Way(where.way), Image: where.image, Privileged: where.privileged, Start: 2 * time.Minute,
		Agents: agentsOf(where.agents),
		Say:    func(text string) { fmt.Fprintln(stdio.Err, "unthrottle: "+plain.Line(text)) },
	}
	if where.base != "" {
		if p.Base, err = readBase(ctx, where.base, stdio.In); err != nil {
			return doc, err
		}
		p.BaseSource = where.base
	}
	if err := p.Find(ctx, what); err != nil {
		return doc, err
	}
	done, err := kept(where.save, &p, func() (*inpod.Done, error) { return p.Run(ctx, verbName, length) })
	if err != nil {
		return doc, err
	}
	if done.Unmeasured != nil {
		if err := unmeasured(stdio, verbName, p.Name, done); err != nil {
			return doc, err
		}
	}
	said := strings.TrimSpace(done.Said)
	if done.Document == nil {
		if said == "" {
			said = "it wrote nothing"
		}
		return doc, refused(verbName, p.Name, said)
	}
	if said != "" {
		fmt.Fprintln(stdio.Err, plain.Lines(said, ""))
	}
	var head report.Header
	if err := json.Unmarshal(done.Document, &head); err == nil && head.Version != report.Version {
		return doc, hint.With(fmt.Errorf("unthrottle in pod %s writes format %d, and this one reads format %d", p.Name, head.Version, report.Version),
			"--image names one of this version")
	}
	read, err := report.Read(done.Document)
	if err != nil {
		return doc, err
	}
	doc, ok := read.(D)
	if !ok {
		return doc, errors.New("the answer is another verb's document")
	}
	switch d := any(doc).(type) {
	case *report.Trace:
		d.Pod = p.Namespace + "/" + p.Name
	case *report.Profile:
		d.Pod = p.Namespace + "/" + p.Name
	}
	return doc, nil
}

// readBase reads the profile that another one is compared with.
func readBase(ctx context.Context, name string, stdin io.Reader) (*cpuprofile.Profile, error) {
	data, err := attach.ReadFile(ctx, name, stdin)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the base: %w", err), "--base takes a file that --save has written")
	}
	base, err := attach.ReadProfile(name, data)
	if err != nil {
		return nil, fmt.Errorf("reading the base: %w", err)
	}
	return base, nil
}

// kept keeps what is taken in a file, which is there when all of it is.
func kept(file string, p *inpod.Pod, run func() (*inpod.Done, error)) (*inpod.Done, error) {
	if file == "" {
		return run()
	}
	saved, err := verb.NewOutput(file, io.Discard)
	if err != nil {
		return nil, err
	}
	p.Save, p.SavedAs = saved.W, file
	done, err := run()
	nothing := err
	switch {
	case p.Saved: // regardless of what came then, such as a trace that can't be read
		nothing = nil
	case err == nil:
		nothing = done.Unmeasured
	}
	if saveErr := saved.Finish(nothing); err == nil && nothing == nil {
		err = saveErr
	}
	return done, err
}

// unmeasured reports a program that was not looked at. For explain, what its pod says is an answer; for the other verbs it isn't.
func unmeasured(stdio verb.IO, verbName, pod string, done *inpod.Done) error {
	next := hint.Of(done.Unmeasured)
	if len(next) == 0 {
		next = waysOn(verbName)
	}
	if verbName == "explain" {
		for _, way := range next {
			fmt.Fprintln(stdio.Err, "unthrottle: hint: "+way)
		}
		return nil
	}
	read, err := report.Read(done.Document)
	if err != nil {
		return err
	}
	if d, ok := read.(*report.Explain); ok {
		fmt.Fprintln(stdio.Err, "unthrottle: "+plain.Line("pod "+pod+", as its spec says: "+d.Verdict().Text))
	}
	return hint.With(fmt.Errorf("nothing was measured in pod %s: %w", pod, done.Unmeasured), next...)
}

// refused is the error of the command in the pod, and its hint.
func refused(verb, pod, said string) error {
	text, next := said, ""
	for line := range strings.Lines(said) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "unthrottle: ")
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			text = rest
		}
		if rest, ok := strings.CutPrefix(line, "hint: "); ok {
			next = rest
		}
	}
	err := fmt.Errorf("unthrottle %s in pod %s: %s", verb, pod, text)
	switch {
	case strings.Contains(text, "joining the cgroup"):
		next = "--way exec needs no right for it, if the container's image has unthrottle"
	case next == "":
		next = "--process NAME names another process than the first"
	}
	return hint.With(err, next)
}
