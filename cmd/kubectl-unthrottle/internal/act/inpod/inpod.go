// Package inpod answers: what does unthrottle say about a container's program? In go a pod, a container and a verb; out comes a document.
// The agent of its node may know, and a trace or a profile is taken through a forwarded port. If neither can be, it is what the pod's
// spec and status say. Nothing is done to the pod. Only on request does the verb run in the container itself, if the command is there, or
// in an ephemeral container in that one's process namespace, which can't be removed from the pod again.
package inpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// A Way is how the command gets to the program.
type Way string

const (
	Auto      Way = "auto"      // the agent or a forwarded port, or else the pod's spec
	Agent     Way = "agent"     // that of its node explains it, or reports what the kernel counts
	Forward   Way = "forward"   // a trace or a profile comes through a port of the pod
	Exec      Way = "exec"      // it is in the container
	Ephemeral Way = "ephemeral" // a container next to it
)

// A Pod is where to run it.
type Pod struct {
	Config    *rest.Config
	REST      rest.Interface
	Namespace string
	Name      string // of Find
	Container string // "": its default one
	Process   string // a pid or a name in the container, or where it listens; "": its first process

	// For a trace or a profile through a forwarded port.
	Save       io.Writer           // keeps it; nil: it is not kept
	SavedAs    string              // in the document
	Saved      bool                // Run sets it, even if it fails then
	Base       *cpuprofile.Profile // that a profile is compared with; nil: none
	BaseSource string

	Way        Way
	Agents     string        // namespace in which they are installed; "": none is asked
	Image      string        // of an ephemeral container
	Privileged bool          // with all rights, which watch needs to enter another container's group
	Start      time.Duration // how long an ephemeral container may take to start
	Say        func(string)  // says what is done
}

// A Done is what came of a call.
type Done struct {
	Document []byte // "" if it wrote none
	Said     string // what it wrote besides
	Code     int    // of its exit

	Unmeasured error // nil: the program was looked at; or else why not, and the document is what its pod says
}

// Find finds the wanted pod, as kubectl does: mypod, pod/mypod, or one of deployment/api, a ready one if there is one.
func (p *Pod) Find(ctx context.Context, what string) error {
	if !strings.Contains(what, "/") {
		p.Name = what
		return nil
	}
	kind, name, ok := cluster.Named(what)
	switch {
	case ok && kind.Plural == "pods":
		p.Name = name
		return nil
	case !ok || !kind.Selects:
		return hint.Usage("mypod, or deployment/api", "%s is neither a pod nor something that has pods", what)
	}
	data, err := cluster.Raw(ctx, p.REST.Get().AbsPath(kind.Path(p.Namespace), name))
	if apierrors.IsNotFound(err) {
		return hint.With(fmt.Errorf("there is no %s in namespace %s", what, p.Namespace), "kubectl get "+kind.Plural+" -n "+p.Namespace)
	} else if err != nil {
		return cluster.Explain("reading "+what, err)
	}
	var owner struct {
		Spec struct{ Selector metav1.LabelSelector }
	}
	if err := json.Unmarshal(data, &owner); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&owner.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	of, more, err := p.list(ctx, selector.String())
	if err != nil {
		return cluster.Explain("listing the pods of "+what, err)
	}
	if len(of) == 0 {
		return hint.With(fmt.Errorf("%s has no pod", what), "kubectl get pods -n "+p.Namespace)
	}
	p.Name = slices.MinFunc(of, better).Metadata.Name
	p.Say("pod " + p.Name + " of " + what + ", " + among(of, more))
	return nil
}

// mostPods is how many pods of one object are compared.
const mostPods = 500

// list is the pods with labels. more says that there are more than were read.
func (p *Pod) list(ctx context.Context, selector string) (pods []pod, more bool, err error) {
	r := p.REST.Get().AbsPath("api", "v1", "namespaces", p.Namespace, "pods").Param("labelSelector", selector).Param("limit", strconv.Itoa(mostPods))
	data, err := cluster.Raw(ctx, r)
	if err != nil {
		return nil, false, err
	}
	var list struct {
		Metadata metav1.ListMeta
		Items    []pod
	}
	err = json.Unmarshal(data, &list)
	return list.Items, list.Metadata.Continue != "", err
}

// better orders pods as kubectl logs and exec do: ready before running, running before what is still to run and what is over, then
// which has been ready for longest, has restarted least, and is oldest.
func better(a, b pod) int {
	return cmp.Or(
		cmp.Compare(a.rank(), b.rank()), a.readySince().Compare(b.readySince()), cmp.Compare(a.restarts(), b.restarts()),
		a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp.Time), strings.Compare(a.Metadata.Name, b.Metadata.Name),
	)
}

// among says how many pods one was taken from, and how many of them are ready.
func among(pods []pod, more bool) string {
	if len(pods) == 1 {
		return "its only pod"
	}
	ready := 0
	for i := range pods {
		if pods[i].rank() == 0 {
			ready++
		}
	}
	all, of := quantity.Plural(len(pods), "pod"), quantity.Count(ready)
	if more {
		all = "at least " + all
	}
	if ready == 0 {
		of = "none"
	}
	return "one of " + all + ", " + of + " of them ready"
}

// Run is what a verb of unthrottle says about the program, which it looks at for that long.
func (p *Pod) Run(ctx context.Context, verb string, length time.Duration) (*Done, error) {
	pod, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	c, err := pod.choose(p.Container)
	if err != nil {
		return nil, err
	}
	running := pod.running(c.Name)
	if running != nil {
		running = hint.With(running, "kubectl describe pod "+p.Name+" -n "+p.Namespace+" says more")
	}
	if p.Way == Auto || p.Way == Agent || p.Way == Forward {
		done, err := p.untouched(ctx, pod, c, verb, running, length)
		if p.Way == Auto && errors.Is(err, errNotThere) {
			why := running // with what to do about it: there is no other way
			if why == nil {
				why = errors.New(strings.TrimPrefix(err.Error(), errNotThere.Error()+": "))
			}
			return p.written(ctx, pod, c.Name, why)
		}
		if p.Way == Forward {
			return done, hintAt(err, "--process localhost:PORT says where the program serves net/http/pprof", "kubectl unthrottle explain needs no help from the program")
		}
		return done, hintAt(err, "without --way agent, the pod's spec and status answer")
	}
	if running != nil {
		return nil, running
	}
	if err := pod.refuses(verb, p.Way); err != nil {
		return nil, err
	}
	process := p.Process
	if process == "" {
		if pod.first() == 0 {
			return nil, hint.Usage("add --process NAME", "the containers of this pod see each other's processes, so process 1 does not belong to this container")
		}
		process = strconv.Itoa(pod.first())
	}
	args := []string{verb, "--json", "--for=" + length.String(), process}
	if p.Way == Ephemeral {
		return p.beside(ctx, pod, c, args)
	}
	done, err := p.exec(ctx, c.Name, args)
	if errors.Is(err, errNotThere) {
		return nil, hint.With(fmt.Errorf("container %s has no unthrottle in its PATH", c.Name), "--way ephemeral runs it beside it; that container stays in the pod's spec")
	}
	return done, err
}

// untouched asks who knows the program without anything being done to its pod. errNotThere: none does.
func (p *Pod) untouched(ctx context.Context, pod *pod, c *container, verb string, running error, length time.Duration) (*Done, error) {
	switch {
	case running != nil:
		return nil, fmt.Errorf("%w: %w", errNotThere, running)
	case verb == "trace" || verb == "profile":
		return p.take(ctx, pod, c, verb, length)
	case p.Process != "":
		return nil, fmt.Errorf("%w: agents are asked for a container, and --process names a program in it", errNotThere)
	case p.Agents == "":
		return nil, fmt.Errorf("%w: no agent was asked", errNotThere)
	}
	done, err := p.agent(ctx, pod, c.Name, verb, length)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return done, err
}

// hintAt adds a hint to an error of what is not there.
func hintAt(err error, texts ...string) error {
	if errors.Is(err, errNotThere) {
		return hint.With(err, texts...)
	}
	return err
}

func (p *Pod) path(parts ...string) []string {
	return append([]string{"api", "v1", "namespaces", p.Namespace, "pods", p.Name}, parts...)
}

func (p *Pod) get(ctx context.Context) (*pod, error) {
	data, err := cluster.Raw(ctx, p.REST.Get().AbsPath(p.path()...))
	switch {
	case apierrors.IsNotFound(err):
		return nil, hint.With(fmt.Errorf("there is no pod %s in namespace %s", p.Name, p.Namespace), "kubectl get pods -n "+p.Namespace)
	case err != nil:
		return nil, cluster.Explain("reading pod "+p.Name, err)
	}
	found := new(pod)
	if err := json.Unmarshal(data, found); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	found.data = data
	return found, nil
}

// errNotThere: this way there is nothing.
var errNotThere = errors.New("not available there")

// exec runs the command in the container.
func (p *Pod) exec(ctx context.Context, name string, args []string) (*Done, error) {
	query := url.Values{"container": {name}, "stdout": {"true"}, "stderr": {"true"}, "command": append([]string{"unthrottle"}, args...)}
	where := p.REST.Get().AbsPath(p.path("exec")...).URL()
	where.RawQuery = query.Encode()
	socket, err := remotecommand.NewWebSocketExecutor(p.Config, http.MethodGet, where.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(p.Config, http.MethodPost, where)
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(error) bool { return true })
	if err != nil {
		return nil, err
	}
	stdout, stderr := text{left: mostWritten}, text{left: mostSaid}
	err = until(ctx, func() error {
		return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	})
	var exit interface{ ExitStatus() int }
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.left < 0 || stderr.left < 0:
		return nil, fmt.Errorf("running unthrottle in container %s: what it writes does not end", name)
	case err == nil:
		return parse(stdout.Bytes(), stderr.String(), 0), nil
	case isNotThere(err.Error()):
		return nil, errNotThere
	case errors.As(err, &exit) && exit.ExitStatus() != 126 && exit.ExitStatus() != 127:
		return parse(stdout.Bytes(), stderr.String(), exit.ExitStatus()), nil
	case errors.As(err, &exit):
		return nil, errNotThere
	}
	return nil, hint.With(fmt.Errorf("running unthrottle in container %s: %w", name, brief(err)), "--way ephemeral runs it beside it")
}

// What a container writes is up to whatever runs there.
const (
	mostWritten = 64 << 20 // bytes of a document; that of a trace has some MB
	mostSaid    = 1 << 20  // of what it says besides
)

// A text is what a container writes, up to the room there is.
type text struct {
	bytes.Buffer
	left int // less than 0: there was more
}

var errNoEnd = errors.New("there is no room for more")

func (t *text) Write(p []byte) (int, error) {
	if t.left -= len(p); t.left < 0 {
		return 0, errNoEnd
	}
	return t.Buffer.Write(p)
}

// isNotThere reports whether a runtime says that it has not found a program.
func isNotThere(text string) bool {
	for _, part := range []string{"executable file not found", "no such file or directory", "not found in $PATH", "exec format error"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// beside runs the command in an ephemeral container.
func (p *Pod) beside(ctx context.Context, at *pod, c *container, args []string) (*Done, error) {
	name := fmt.Sprintf("unthrottle-%05x", rand.IntN(1<<20))
	who := p.securityContext(at, c)
	patch := func(who *corev1.SecurityContext) ([]byte, error) {
		return json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []any{map[string]any{
			"name": name, "image": p.Image, "args": args, "targetContainerName": c.Name, "securityContext": who,
		}}}})
	}
	p.Say("starting an ephemeral container beside " + c.Name + "; it stays in the pod's spec when it is over")
	err := p.add(ctx, patch, who)
	if apierrors.IsForbidden(err) && !p.Privileged && strings.Contains(err.Error(), "violates PodSecurity") {
		// What may not be root may still be the program's own user.
		err = p.add(ctx, patch, restricted(at.user(c)))
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, hint.With(errors.New("the API server knows no ephemeral containers"), "they are there from Kubernetes 1.25 on; --way exec runs what the container's image holds")
	case err != nil:
		return nil, cluster.Explain("adding an ephemeral container to pod "+p.Name, err)
	}
	code, err := p.await(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := cluster.Raw(ctx, p.REST.Get().AbsPath(p.path("log")...).Param("container", name))
	if err != nil {
		return nil, cluster.Explain("reading what container "+name+" wrote", err)
	}
	return parse(data, "", code), nil
}

func (p *Pod) add(ctx context.Context, patch func(*corev1.SecurityContext) ([]byte, error), who *corev1.SecurityContext) error {
	body, err := patch(who)
	if err != nil {
		return err
	}
	return p.REST.Patch(types.StrategicMergePatchType).AbsPath(p.path("ephemeralcontainers")...).Body(body).Do(ctx).Error()
}

// securityContext is what the command needs to read another process's memory: to be root with SYS_PTRACE, or the same user.
func (p *Pod) securityContext(at *pod, c *container) *corev1.SecurityContext {
	switch {
	case p.Privileged:
		return &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0)), RunAsNonRoot: new(false)}
	case at.mayBeRoot():
		return &corev1.SecurityContext{RunAsUser: new(int64(0)), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}
	}
	return restricted(at.user(c))
}

// restricted is what PodSecurity's strictest level takes.
func restricted(uid, gid *int64) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, RunAsNonRoot: new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, RunAsUser: uid, RunAsGroup: gid,
	}
}

// often is how often the pod is read until the container has ended.
const often = 300 * time.Millisecond

// await waits until an ephemeral container has ended, and says with which code.
func (p *Pod) await(ctx context.Context, name string) (code int, err error) {
	begin, last := time.Now(), ""
	for {
		now, err := p.get(ctx)
		if err != nil {
			return 0, err
		}
		i := slices.IndexFunc(now.Status.EphemeralContainerStatuses, func(s status) bool { return s.Name == name })
		running := false
		if i >= 0 {
			state := now.Status.EphemeralContainerStatuses[i].State
			switch {
			case state.Terminated != nil && state.Terminated.Reason == "StartError":
				return 0, fmt.Errorf("container %s did not start: %s", name, state.Terminated.Message)
			case state.Terminated != nil:
				return int(state.Terminated.ExitCode), nil
			case state.Waiting != nil && hopeless(state.Waiting.Reason):
				return 0, hint.With(fmt.Errorf("container %s does not start: %s", name, why(state.Waiting.Reason, state.Waiting.Message)),
					"--image names the image of unthrottle that the node can get")
			case state.Waiting != nil:
				last = ": " + why(state.Waiting.Reason, state.Waiting.Message)
			}
			running = state.Running != nil
		}
		switch {
		case now.over() != "":
			return 0, fmt.Errorf("the pod ended meanwhile (%s)", now.over())
		case !running && time.Since(begin) > p.Start:
			return 0, hint.With(fmt.Errorf("container %s did not start within %v%s", name, p.Start, last), "kubectl describe pod "+p.Name+" says more")
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(often):
		}
	}
}

// hopeless are the reasons of a container that waits for what will not come.
func hopeless(reason string) bool {
	return slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}, reason)
}

// parse takes the document out of what was written. In a log it is among what was said.
func parse(out []byte, said string, code int) *Done {
	done := &Done{Said: said, Code: code}
	at := 0
	if !bytes.HasPrefix(out, []byte("{")) {
		if at = bytes.Index(out, []byte("\n{")) + 1; at == 0 {
			done.Said += string(out)
			return done
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(out[at:]))
	var document json.RawMessage
	if err := decoder.Decode(&document); err != nil {
		done.Said += string(out)
		return done
	}
	after := out[at:][decoder.InputOffset():]
	done.Document = document
	done.Said += string(out[:at]) + strings.TrimLeft(string(after), "\n")
	return done
}
