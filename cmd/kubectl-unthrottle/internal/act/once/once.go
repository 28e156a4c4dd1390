// Package once answers: what does a node without an agent say, if it is looked at once? In go the names of nodes and a namespace; out
// comes the document of an agent that looked for two seconds, as the log of a Job's pod on that node.
//
// The pod is that of package install's DaemonSet, less what only a long-running agent needs: it has no token, no probes and no port, so
// it needs no rights in the cluster. Each Job is deleted once its log was read, or won't be. If no one is left to delete it, it ends
// after two minutes and is removed by Kubernetes after two more. Nothing else is made, not even a namespace.
package once

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

const (
	// Lasting is how long a Job may take, its image included.
	Lasting = 2 * time.Minute
	// MostLog is how large a document may be, in bytes. A kubelet begins another file when a log has 10 MB, unless configured
	// otherwise, and gives what is in the last one.
	MostLog = 8 << 20

	slack    = 10 * time.Second // so that the waiting side here gives up first, and says so
	keeping  = 2 * time.Minute  // of a Job that has ended and was not deleted
	deleting = 10 * time.Second // for deleting one, after an interrupt too
	label    = "unthrottle.dev/once"
	named    = "unthrottle-once"
)

// A Look makes Jobs of one audit.
type Look struct {
	client    rest.Interface
	access    *cluster.Access // reads logs, bounded
	namespace string
	id        string
	template  map[string]any // of the pods

	every  time.Duration // between two looks at a Job
	within time.Duration // of a Job

	mu   sync.Mutex
	made int
	left []error // why Jobs could not be deleted
}

// New checks that a namespace takes pods that see the processes of their node, and says what they are. It makes nothing.
func New(ctx context.Context, client rest.Interface, access *cluster.Access, namespace, image string) (*Look, error) {
	if err := admits(ctx, client, namespace); err != nil {
		return nil, err
	}
	template, err := pod(namespace, image)
	if err != nil {
		return nil, err
	}
	return &Look{
		client: client, access: access, namespace: namespace, id: strings.ToLower(rand.Text()[:8]), template: template, every: time.Second, within: Lasting,
	}, nil
}

// admits says why a namespace does not take such pods.
func admits(ctx context.Context, client rest.Interface, namespace string) error {
	data, err := cluster.Raw(ctx, client.Get().AbsPath("/api/v1/namespaces/"+url.PathEscape(namespace)))
	const privileged = " " + install.Enforce + "=privileged"
	switch {
	case apierrors.IsNotFound(err):
		return hint.With(fmt.Errorf("there is no namespace %s for the pods that look at the nodes", namespace),
			"kubectl create namespace "+namespace+" && kubectl label namespace "+namespace+privileged, "--agents NAMESPACE names another")
	case apierrors.IsForbidden(err): // a user who may not look at it may be allowed to make Jobs there
		return nil
	case err != nil:
		return cluster.Explain("looking for the namespace "+namespace, err)
	}
	var got metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &got); err != nil {
		return fmt.Errorf("looking for the namespace %s: the answer: %w", namespace, err)
	}
	if level := got.Labels[install.Enforce]; level != "" && level != "privileged" {
		return hint.With(fmt.Errorf("the namespace %s admits %s pods only, and those that look at a node see its processes", namespace, level),
			"--agents NAMESPACE names another; or kubectl label --overwrite namespace "+namespace+privileged)
	}
	return nil
}

// pod is what the DaemonSet's pods are, as one that looks once.
func pod(namespace, image string) (map[string]any, error) {
	objects, err := install.Objects(install.Options{Namespace: namespace, Image: image})
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		spec, _, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if err != nil {
			return nil, err
		}
		for _, field := range []string{"serviceAccountName", "priorityClassName"} { // they are there only where agents are installed
			delete(spec, field)
		}
		spec["restartPolicy"], spec["automountServiceAccountToken"], spec["enableServiceLinks"] = "Never", false, false
		spec["terminationGracePeriodSeconds"] = int64(1)
		agent := spec["containers"].([]any)[0].(map[string]any)
		for _, field := range []string{"ports", "readinessProbe", "livenessProbe"} {
			delete(agent, field)
		}
		agent["args"] = []any{"agent", "--once", "--pods", "none"}
		return spec, nil
	}
	return nil, errors.New("an installation has no DaemonSet")
}

// Agents are those of some nodes: a Job each, which is made when it is asked.
func (l *Look) Agents(nodes []string) (all []agents.Agent) {
	for i, node := range nodes {
		all = append(all, agents.Agent{Namespace: l.namespace, Pod: fmt.Sprintf("%s-%s-%d", named, l.id, i), Node: node, Ready: true})
	}
	return all
}

// Ask makes the Job of a node, waits for its end, and reads its log. When that is closed, or can't be read, the Job is deleted.
func (l *Look) Ask(ctx context.Context, a agents.Agent) (io.ReadCloser, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, l.within+l.every)
	if err := l.make(limited, a); err != nil {
		cancel()
		return nil, cmp.Or(ctx.Err(), err)
	}
	pod := ""
	log, err := l.log(limited, a, &pod)
	if err == nil {
		return &answer{log, sync.OnceFunc(func() {
			cancel()
			l.remove(ctx, a.Pod, "")
		})}, nil
	}
	defer cancel()
	switch {
	case ctx.Err() != nil:
		err, pod = ctx.Err(), ""
	case limited.Err() == nil:
		pod = ""
	case pod == "":
		err = errNoPod
	default:
		err = errLate
	}
	l.remove(ctx, a.Pod, pod)
	return nil, err
}

// An answer takes its Job along.
type answer struct {
	io.ReadCloser
	end func()
}

func (a *answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}

// make makes a Job. One whose answer was lost on its way may be there, so it is removed.
func (l *Look) make(ctx context.Context, a agents.Agent) error {
	body, err := json.Marshal(l.job(a))
	if err != nil {
		return err
	}
	_, err = cluster.Raw(ctx, l.client.Post().AbsPath(l.jobs()).Body(body).MaxRetries(0))
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < 500 {
		return err
	}
	l.mu.Lock()
	l.made++
	l.mu.Unlock()
	if err != nil {
		l.remove(ctx, a.Pod, "")
	}
	return err
}

// log waits for the end of a Job, and reads its log. pod becomes the name of its pod, once there is one.
func (l *Look) log(ctx context.Context, a agents.Agent, pod *string) (io.ReadCloser, error) {
	if err := l.done(ctx, a.Pod, pod); err != nil {
		return nil, err
	}
	return l.access.Get(ctx, l.pods()+"/"+url.PathEscape(*pod)+"/log", url.Values{"container": {"agent"}, "limitBytes": {strconv.Itoa(MostLog + 1)}}, l.within)
}

func (l *Look) jobs() string {
	return "/apis/batch/v1/namespaces/" + url.PathEscape(l.namespace) + "/jobs"
}

func (l *Look) pods() string { return "/api/v1/namespaces/" + url.PathEscape(l.namespace) + "/pods" }

// job is that of a node. The pod goes to the node by name: a scheduler would leave it pending where a kubelet says why it refuses.
func (l *Look) job(a agents.Agent) map[string]any {
	labels := map[string]any{"app.kubernetes.io/name": named, "app.kubernetes.io/part-of": "unthrottle", label: l.id}
	spec := maps.Clone(l.template)
	spec["nodeName"] = a.Node
	return map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": a.Pod, "namespace": l.namespace, "labels": labels},
		"spec": map[string]any{
			"backoffLimit": 0, "activeDeadlineSeconds": int((Lasting + slack).Seconds()), "ttlSecondsAfterFinished": int(keeping.Seconds()),
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec},
		},
	}
}

// remove deletes a Job with its pod, also where it is not known to be there: an answer may have been lost on its way. The pod of a node
// that did not answer is named: it would be there until the node is back.
func (l *Look) remove(ctx context.Context, job, pod string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleting)
	defer cancel()
	err := l.delete(ctx, l.jobs()+"/"+job, `"propagationPolicy":"Background"`)
	if err == nil && pod != "" {
		err = l.delete(ctx, l.pods()+"/"+url.PathEscape(pod), `"gracePeriodSeconds":0`)
	}
	if err != nil {
		l.mu.Lock()
		l.left = append(l.left, err)
		l.mu.Unlock()
	}
}

func (l *Look) delete(ctx context.Context, path, how string) error {
	body := []byte(`{"kind":"DeleteOptions","apiVersion":"v1",` + how + `}`)
	_, err := cluster.Raw(ctx, l.client.Delete().AbsPath(path).Body(body).MaxRetries(3))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Said says what was made.
func (l *Look) Said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := "made " + quantity.Plural(l.made, "Job") + " in namespace " + l.namespace
	if l.made == 0 {
		text = "made no Job in namespace " + l.namespace
	} else if len(l.left) == 0 {
		text += ", and removed what was made"
	}
	return text
}

// Left is the error of Jobs, or of their pods, that could not be removed; nil: none.
func (l *Look) Left() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.left) == 0 {
		return nil
	}
	why, _ := cluster.Reason(l.left[0])
	return hint.With(fmt.Errorf("%s in namespace %s could not be removed, pods included: %s; Kubernetes removes Jobs within %v, and a pod once its node is back", quantity.Plural(len(l.left), "Job"), l.namespace, why, Lasting+slack+keeping),
		fmt.Sprintf("kubectl delete jobs,pods -n %s -l %s=%s", l.namespace, label, l.id))
}
