// Package podtrial answers: what does one run of one setting give, in pods? In goes a setting of a study and the pod of a workload; a
// Job runs that pod under the setting, with a container next to it that counts what it uses, and other Jobs on the same node send it
// loads. Out comes the same as of a run on a host.
//
// What it makes is in a namespace of the study's own, or in one that is named, and belongs to one Job that runs nothing: Kubernetes
// ends that at a deadline, which is put off while the study is conducted, and removes all that it owns. It schedules nothing
// itself, and changes none of the user's own objects.
//
// How a container is seen, and what that takes, is in package sidecar; the manifests are pure functions of a Kit and a Template.
package podtrial

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/sidecar"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// LimitKind is how the limit of a run is made.
const LimitKind = "kubernetes"

// A Server runs a workload's pod under settings.
type Server struct {
	API      *API
	Kit      Kit
	Template *Template
	Load     []string // arguments of the verb load after the URL, without what a shot says
	Scheme   string   // http or https
	Path     string
	Timeout  time.Duration // to get ready; 0: 5 minutes
	Late     func(text string)
	Logs     *Logs         // keeps what a container wrote that failed; nil: it is not read
	Every    time.Duration // between two looks at a pod; 0: 300 ms
	Patience time.Duration // until a node takes a pod; 0: a minute

	tag     string   // begins the names of its runs, where it is not the only one
	company *company // nil: no other runs on its node
	runs    int
	told    sync.Once
}

// Another is the same server for another node, of several at which runs are made at the same time.
func (s *Server) Another(n int, avoid []string) *Server {
	other := s.like(fmt.Sprintf("n%d-", n))
	other.Kit.Node, other.Kit.Avoid = "", avoid
	return other
}

// like is the same server, whose runs have other names.
func (s *Server) like(tag string) *Server {
	return &Server{
		API: s.API, Kit: s.Kit, Template: s.Template, Load: s.Load, Scheme: s.Scheme, Path: s.Path, Timeout: s.Timeout, Late: s.Late, Logs: s.Logs, Every: s.Every,
		Patience: s.Patience, tag: tag,
	}
}

// How long things may take that take a moment when all is well. They are there so that a wait ends, and is reported.
const (
	usualPoll   = 300 * time.Millisecond
	scheduling  = time.Minute // or Patience
	lateAfter   = 5 * time.Second
	beside      = 3 * time.Minute // of a load, to start and to be seen
	mostRun     = time.Hour       // a server that is not ended
	ending      = (Grace + 30) * time.Second
	mostLogLine = 1 << 20
)

// Session is one pod of the server.
type Session struct {
	*Server
	run     string
	job     string
	pod     Pod
	setting lab.Setting
	trace   bool
	begin   time.Time
	ctx     context.Context // that of the study, without its end: to end a pod takes requests
	loads   int
	node    lab.Run // what the node did while loads were sent: marks and figures
	peak    int64
	dead    error // of the server
}

// Open starts a pod of the server under a setting, and waits until it is ready.
func (s *Server) Open(ctx context.Context, setting lab.Setting, trace bool) (tune.Session, error) {
	x, err := s.open(ctx, setting, trace)
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (s *Server) open(ctx context.Context, setting lab.Setting, trace bool) (*Session, error) {
	s.runs++
	run := s.tag + "run-" + strconv.Itoa(s.runs)
	job, err := s.Kit.ServerJob(s.Template, run, setting, trace, mostRun)
	if err != nil {
		return nil, err
	}
	x := &Session{
		Server: s, run: run, job: text(job, "metadata", "name"), setting: setting, trace: trace, begin: time.Now(), ctx: context.WithoutCancel(ctx),
	}
	if err := x.create(ctx, job); err != nil {
		return nil, err
	}
	if err := x.awaitReady(ctx); err != nil {
		x.keepLog(err)
		x.end()
		return nil, err
	}
	return x, nil
}

// create makes a Job. Once it is requested, ctx does not end that: it would not be known whether the Job exists, and it would not be deleted.
func (x *Session) create(ctx context.Context, job object) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(x.ctx, ending)
	defer cancel()
	return x.API.Create(within, job, nil)
}

// awaitReady waits until a pod of the Job is ready.
func (x *Session) awaitReady(ctx context.Context) error {
	return x.await(ctx, x.job, func(p *Pod, since time.Duration) (bool, error) {
		if err := p.Judge(); err != nil {
			return false, err
		}
		if p.Ready() {
			x.pod = *p
			return true, nil
		}
		if since > lateAfter {
			x.told.Do(func() { x.late("waiting for the server's pod: " + p.Waiting()) })
		}
		if p.Spec.NodeName == "" && since > x.patience() {
			if err := p.Unscheduled(since); err != nil {
				return false, err
			}
		}
		if most := cmp.Or(x.Timeout, usualTimeout); since > most {
			return false, fault(x.Template.Container, false, "%s: it was not ready within %v (%s)", x.Template, most, p.Waiting())
		}
		return false, nil
	})
}

func (s *Server) patience() time.Duration { return cmp.Or(s.Patience, scheduling) }

func (s *Server) poll() time.Duration { return cmp.Or(s.Every, usualPoll) }

func (s *Server) late(text string) {
	if s.Late != nil {
		s.Late(text)
	}
}

// await looks at the pod of a Job until it is what is wanted. The time is that since the Job was made.
func (x *Session) await(ctx context.Context, job string, done func(p *Pod, since time.Duration) (bool, error)) error {
	begin := time.Now()
	for {
		since := time.Since(begin)
		p, err := x.podOf(ctx, job)
		switch {
		case err != nil:
			return err
		case p == nil && since > 5*x.poll():
			if err := x.API.noPod(ctx, x.Kit.Namespace, job); err != nil {
				return err
			}
			if since > x.patience() {
				return trouble(true, "kubectl -n "+x.Kit.Namespace+" describe job "+job, "no pod was made of job %s within %v", job, x.patience())
			}
		case p != nil:
			if ok, err := done(p, since); ok || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(x.poll()):
		}
	}
}

// podOf is the pod of a Job; nil: none yet.
func (x *Session) podOf(ctx context.Context, job string) (*Pod, error) {
	var pods struct{ Items []Pod }
	if err := x.API.List(ctx, "/api/v1/namespaces/"+x.Kit.Namespace+"/pods", "batch.kubernetes.io/job-name="+job, &pods); err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[0], nil
}

// NoGo is not known about a container.
func (x *Session) NoGo() bool { return false }

// url is where the server is, as its node sees it.
func (x *Session) url() string {
	return x.Scheme + "://" + net.JoinHostPort(x.pod.Status.PodIP, x.port()) + x.Path
}

func (s *Server) port() string { return strconv.Itoa(s.Kit.Port) }

// Load sends a shot from a pod on the server's node. If the server has died, Close says so.
func (x *Session) Load(ctx context.Context, shot trial.Shot) (trial.Window, error) {
	own := x.company.send(x)
	defer own.end()
	g, err := x.generate(ctx, shot)
	for range lostMost {
		if !errors.Is(err, errLost) {
			break
		}
		g, err = x.generate(ctx, shot)
	}
	switch {
	case err != nil:
		return trial.Window{}, err
	case x.dead != nil:
		return trial.Window{Procs: x.procs(ctx)}, nil
	}
	begin, end, known := g.Span()
	if !known {
		return trial.Window{}, errors.New("generating load: its document does not say when it began")
	}
	seen, err := x.seen(ctx, begin, end)
	if err != nil {
		return trial.Window{}, err
	}
	generator := time.Duration(g.GeneratorCPU * float64(time.Second))
	sidecars := seen.Used(x.pod.sidecars(x.Template.Container))
	used := seen.Counters.CPU + sidecars + generator
	own.from, own.until, own.cpus = begin.Add(-shot.WarmUp), end, used.Seconds()/seen.Between.Seconds()
	company, err := x.company.used(ctx, own, begin, end)
	if err != nil {
		return trial.Window{}, err
	}
	x.node = lab.Run{}
	trial.Disturb(&x.node, seen.Begin.Host, seen.End.Host, used+company)
	sight := trial.Sight{Lasted: end.Sub(begin), Seen: seen.Between, Counters: seen.Counters, Procs: seen.Last.Procs}
	if x.trace { // by the times that the CPU time is of, which are not those of the window where lines of the meter are missing
		if sight.GC, err = x.collections(ctx, seen.Begin.At, seen.End.At); err != nil {
			return trial.Window{}, err
		}
		sight.GCSeen = seen.End.At.Sub(seen.Begin.At)
		sight.Procs = cmp.Or(sight.Procs, sight.GC.Procs)
	}
	w, err := sight.Window(g)
	w.Waits, w.Sending = seen.Waits, g.CPUShare*float64(g.GeneratorOf)+sidecars.Seconds()/seen.Between.Seconds()
	w.Others, w.OthersKnown = x.node.Others, seen.Begin.Host.Known && seen.End.Host.Known
	return w, err
}

// errLost is the error of a load that did what it should, and the end of whose output is nowhere: on a busy node a container runtime
// closes it before it has read all. Then the load is sent again.
var errLost = errors.New("its output is not whole")

const lostMost = 2 // times that it is sent again

// generate runs a pod that sends a load, and looks at the server's meanwhile.
func (x *Session) generate(ctx context.Context, shot trial.Shot) (g loadtest.Summary, err error) {
	x.loads++
	name := fmt.Sprintf("%sload-%d-%d", x.tag, x.runs, x.loads)
	args := append(append([]string{x.url()}, x.Server.Load...), shot.Flags()...)
	kit := x.Kit
	kit.Node = x.pod.Spec.NodeName
	job := kit.LoadJob(x.Template, x.run, name, args, shot.WarmUp+shot.Lasting+beside)
	name = text(job, "metadata", "name")
	if err := x.create(ctx, job); err != nil {
		return g, err
	}
	defer x.API.DeleteJob(x.ctx, x.Kit.Namespace, name)
	var pod *Pod
	err = x.await(ctx, name, func(p *Pod, since time.Duration) (bool, error) {
		if over, err := x.over(ctx); over || err != nil {
			return over, err
		}
		pod = p
		s := status(p.Status.Containers, loadName)
		if s != nil && s.State.Terminated != nil {
			return true, nil // what it says, and how it ended, is looked at below
		}
		if err := p.Judge(); err != nil {
			return false, fmt.Errorf("sending load: %w", err)
		}
		if p.Spec.NodeName == "" && since > x.patience() {
			return false, p.Unscheduled(since)
		}
		return false, nil
	})
	if err != nil || x.dead != nil {
		return g, err
	}
	const tries = 10 // the end of a log may come a moment after the end of its container
	for try := 1; ; try++ {
		out, err := x.API.Log(ctx, x.Kit.Namespace, pod.Metadata.Name, loadName, time.Time{}, false)
		if err != nil {
			return g, err
		}
		// Its end may have been the server's: then nothing more comes from it.
		if over, err := x.over(ctx); over || err != nil {
			return g, err
		}
		if g, err = readSummary(out); err == nil {
			return g, nil
		}
		if try == tries {
			end := status(pod.Status.Containers, loadName).State.Terminated
			if end.ExitCode == 0 {
				err = fmt.Errorf("%w: %w", errLost, err)
			}
			return g, fmt.Errorf("generating load: %s: %w", how(end), err)
		}
		select {
		case <-ctx.Done():
			return g, ctx.Err()
		case <-time.After(x.poll()):
		}
	}
}

// over reports whether the server's pod has ended on its own; Close says how. That someone removed it is an error.
func (x *Session) over(ctx context.Context) (bool, error) {
	p, err := x.podOf(ctx, x.job)
	if err != nil {
		return false, err
	}
	if p == nil {
		return false, trouble(true, "", "the server's pod %s on node %s is gone: it was deleted, or the node was lost", x.pod.Metadata.Name, x.pod.Spec.NodeName)
	}
	var own *Fault
	switch err := p.Judge(); {
	case err == nil:
		return false, nil
	case errors.As(err, &own):
		if x.dead == nil {
			x.keepLog(err)
		}
		x.dead = err
		return true, nil
	default:
		return false, err
	}
}

// readSummary finds the document of the verb load in a log, which has what it wrote to stderr as well.
func readSummary(log []byte) (g loadtest.Summary, err error) {
	at := bytes.IndexByte(log, '{')
	for ; at > 0 && log[at-1] != '\n'; at += 1 + bytes.IndexByte(log[at+1:], '{') {
		if bytes.IndexByte(log[at+1:], '{') < 0 {
			at = -1
			break
		}
	}
	if at < 0 {
		return g, fmt.Errorf("no document is in its log: %s", bytes.TrimSpace(log[:min(len(log), 500)]))
	}
	if err := json.NewDecoder(bytes.NewReader(log[at:])).Decode(&g); err != nil {
		return g, fmt.Errorf("its document: %w", err)
	}
	return g, nil
}

// seen is what the meter saw of the server between two times. The last lines of a log come a moment later.
func (x *Session) seen(ctx context.Context, begin, end time.Time) (s sidecar.Seen, err error) {
	const tries = 10
	id := x.pod.ContainerID(x.Template.Container)
	for range tries {
		var log []byte
		if log, err = x.API.Log(ctx, x.Kit.Namespace, x.pod.Metadata.Name, meterName, begin.Add(-2*time.Second), false); err != nil {
			return s, err
		}
		lines, err := sidecar.Read(bytes.NewReader(log))
		if err != nil {
			return s, err
		}
		if n := len(lines); n > 0 && lines[n-1].At.After(end) {
			s, err = sidecar.Between(lines, id, begin, end)
			var unseen *sidecar.ErrUnseen
			switch {
			case !errors.As(err, &unseen):
			case unseen.Passes:
				return s, &trial.Unseen{Why: unseen.Why}
			default:
				return s, trouble(false, "", "the server's CPU time can't be seen: %v", unseen)
			}
			x.peak = max(x.peak, s.Last.Peak)
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(x.poll()):
		}
	}
	return s, &trial.Unseen{Why: "the meter stood still: it has written nothing since the load ended"}
}

// procs is the GOMAXPROCS that the meter saw last of a server, which may have ended; 0: none.
func (x *Session) procs(ctx context.Context) (procs int) {
	log, err := x.API.Log(ctx, x.Kit.Namespace, x.pod.Metadata.Name, meterName, time.Time{}, false)
	if err != nil {
		return 0
	}
	lines, err := sidecar.Read(bytes.NewReader(log))
	if err != nil {
		return 0
	}
	id := x.pod.ContainerID(x.Template.Container)
	for _, l := range lines {
		for _, c := range l.Containers {
			if c.ID == id {
				procs = cmp.Or(c.Procs, procs)
			}
		}
	}
	return procs
}

// collections are those of the server's garbage collector between two times, from its log, where each line has its time.
func (x *Session) collections(ctx context.Context, begin, end time.Time) (sum goself.GCSummary, err error) {
	log, err := x.API.Log(ctx, x.Kit.Namespace, x.pod.Metadata.Name, x.Template.Container, begin.Add(-time.Second), true)
	if err != nil {
		return sum, err
	}
	return collectionsOf(log, begin, end)
}

// collectionsOf reads a log with times.
//
//	2026-01-02T03:04:05.678901234Z gc 7 @0.312s 2%: …
func collectionsOf(log []byte, begin, end time.Time) (sum goself.GCSummary, err error) {
	var cycles goself.GCLog
	s := bufio.NewScanner(bytes.NewReader(log))
	s.Buffer(nil, mostLogLine)
	for s.Scan() {
		stamp, line, ok := strings.Cut(s.Text(), " ")
		if !ok {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || at.Before(begin) || at.After(end) {
			continue
		}
		cycles.Line([]byte(line))
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) { // a program may write lines of any length
		return cycles.Since(0), nil
	}
	return cycles.Since(0), s.Err()
}

// Close ends the pod, and returns what is known about the whole run.
func (x *Session) Close() lab.Run {
	if x.dead == nil {
		x.over(x.ctx) // that the pod was removed after its last window does not matter
	}
	run := lab.Run{
		Start: x.begin.UTC().Round(time.Millisecond), GOMAXPROCS: x.setting.Procs, LimitKind: LimitKind, Metrics: map[string]float64{}, Marks: x.node.Marks, Others: x.node.Others, Stolen: x.node.Stolen,
	}
	if x.dead != nil {
		run.Error, run.Killed = x.dead.Error(), trial.Killed(x.dead)
	}
	if !x.end() {
		run.Marks = append(run.Marks, "its pod had not ended when the next run began")
	}
	run.Seconds = time.Since(x.begin).Seconds()
	if x.peak > 0 {
		lab.PeakMemory.Set(run.Metrics, float64(x.peak))
	}
	return run
}

// end deletes the Job and waits until its pod is gone, so that the next run has the node for itself.
func (x *Session) end() (gone bool) {
	x.company.leave(x)
	if err := x.API.DeleteJob(x.ctx, x.Kit.Namespace, x.job); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(x.ctx, ending)
	defer cancel()
	for {
		if p, err := x.podOf(ctx, x.job); err == nil && p == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(x.poll()):
		}
	}
}

// A Node is where the runs are.
type Node struct {
	Name                                   string
	CPUs                                   int
	CPUModel                               string
	Memory                                 int64
	Arch, OS, Kernel, Kubelet, RuntimeName string
}

// Differs says how a node differs from another of the same size.
func (n Node) Differs(from Node) string {
	var parts []string
	for _, f := range []struct{ what, own, other string }{
		{"the CPU", n.CPUModel, from.CPUModel}, {"kernel", n.Kernel, from.Kernel}, {"kubelet", n.Kubelet, from.Kubelet}, {"runtime", n.RuntimeName, from.RuntimeName}, {"architecture", n.Arch, from.Arch},
	} {
		if f.own != f.other && f.own != "" && f.other != "" {
			parts = append(parts, fmt.Sprintf("%s %s where %s has %s", f.what, f.own, from.Name, f.other))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("node %s is like %s, as far as is known", n.Name, from.Name)
	}
	return fmt.Sprintf("node %s has %s", n.Name, strings.Join(parts, ", "))
}

// Look runs the server once unchanged, so that its image is there, and returns the node that took it. All later runs are on that node.
func (s *Server) Look(ctx context.Context, cpus float64) (n Node, err error) {
	x, err := s.open(ctx, lab.Setting{CPUs: cpus}, false)
	if err != nil {
		return n, err
	}
	defer x.end()
	n, err = s.API.Node(ctx, x.pod.Spec.NodeName)
	if err != nil {
		return n, err
	}
	if err := x.askMeter(ctx, &n); err != nil {
		return n, err
	}
	s.Kit.Node, s.Kit.Avoid = n.Name, nil
	return n, nil
}

// askMeter asks the meter for what the API server does not say about a node: what CPUs it has, and, where nodes may not be looked at,
// how many.
func (x *Session) askMeter(ctx context.Context, n *Node) error {
	log, err := x.API.Log(ctx, x.Kit.Namespace, x.pod.Metadata.Name, meterName, time.Time{}, false)
	if err != nil {
		return err
	}
	lines, err := sidecar.Read(bytes.NewReader(log))
	if err != nil {
		return err
	}
	for _, l := range lines {
		n.CPUModel = cmp.Or(n.CPUModel, l.CPUModel)
		n.CPUs = cmp.Or(n.CPUs, l.Host.CPUs)
	}
	if n.CPUs == 0 {
		return hint.With(errors.New("how many CPUs the node has is not known"), "kubectl auth can-i get nodes")
	}
	return nil
}
