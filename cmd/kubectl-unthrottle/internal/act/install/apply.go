package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// manager is who the API server thinks has set a field.
const manager = "unthrottle"

// madeBy is on a namespace that was made here, and so is deleted here.
const (
	madeBy = "unthrottle.dev/made-by"
	maker  = "kubectl-unthrottle"
)

// A Cluster is where agents are installed.
type Cluster struct {
	config   *rest.Config
	client   dynamic.Interface
	metadata metadata.Interface
	out      io.Writer // what is done, a line each
}

// Connect reads the kubeconfig. It asks nothing yet.
func Connect(o cluster.Options, out io.Writer) (*Cluster, error) {
	place, err := cluster.Locate(o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: place.Config, out: out}
	if c.client, err = dynamic.NewForConfig(place.Config); err != nil {
		return nil, err
	}
	c.metadata, err = metadata.NewForConfig(place.Config)
	return c, err
}

// of is where objects of a kind are asked for.
func (c *Cluster) of(k kind, namespace string) dynamic.ResourceInterface {
	if k.namespaced && namespace != "" {
		return c.client.Resource(k.GroupVersionResource).Namespace(namespace)
	}
	return c.client.Resource(k.GroupVersionResource)
}

// Apply installs. force takes over fields that someone else has set.
func (c *Cluster) Apply(ctx context.Context, o Options, force bool) error {
	objects, err := Objects(o)
	if err != nil {
		return err
	}
	if objects, err = c.prepare(ctx, o, objects); err != nil {
		return err
	}
	for i, object := range objects {
		done, err := c.apply(ctx, object, force)
		called := kindOf(object).called(object.GetName())
		if err != nil {
			return c.failed("applying "+called, err, i > 0)
		}
		fmt.Fprintf(c.out, "%s %s\n", called, done)
	}
	return nil
}

// prepare asks what is there, and refuses where agents could not run. A namespace that someone else made is left unchanged.
func (c *Cluster) prepare(ctx context.Context, o Options, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	namespace := objects[0]
	live, err := c.of(namespaces, "").Get(ctx, o.Namespace, v1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		namespace.SetAnnotations(map[string]string{madeBy: maker})
	case err != nil:
		return nil, c.failed("looking for the namespace "+o.Namespace, err, false)
	case live.GetDeletionTimestamp() != nil:
		return nil, hint.With(fmt.Errorf("the namespace %s is being deleted", o.Namespace), "try again when it is gone: kubectl get namespace "+o.Namespace)
	case o.Programs: // agents may be there, which need its label
		objects = objects[1:]
	case live.GetAnnotations()[madeBy] == maker:
		namespace.SetAnnotations(map[string]string{madeBy: maker})
	default:
		if enforced := live.GetLabels()[Enforce]; enforced != "" && enforced != "privileged" {
			return nil, hint.With(fmt.Errorf("the namespace %s admits %s pods only, and the agent sees the processes of its node", o.Namespace, enforced),
				"--namespace takes another one; or kubectl label --overwrite namespace "+o.Namespace+" "+Enforce+"=privileged")
		}
		fmt.Fprintf(c.out, "%s was there before and stays as it is\n", namespaces.called(o.Namespace))
		objects = objects[1:]
	}
	for _, object := range objects {
		k := kindOf(object)
		live, err := c.of(k, object.GetNamespace()).Get(ctx, object.GetName(), v1.GetOptions{})
		if err != nil {
			continue // applying it says why, unless it is just not there
		}
		if helm := release(live); helm != "" {
			return nil, hint.With(fmt.Errorf("%s is part of the Helm release %s", k.called(object.GetName()), helm), "helm upgrade changes it, and helm uninstall takes it out")
		}
		if other := boundTo(live); k.name == "ClusterRoleBinding" && other != "" && other != o.Namespace {
			return nil, hint.With(fmt.Errorf("agents are installed in the namespace %s already", other),
				"kubectl unthrottle install --namespace "+other+", or kubectl unthrottle uninstall first")
		}
	}
	return objects, nil
}

// release is the Helm release that an object is of; "": it is of none.
func release(object *unstructured.Unstructured) string {
	if object.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
		return ""
	}
	a := object.GetAnnotations()
	return strings.TrimPrefix(a["meta.helm.sh/release-namespace"]+"/"+a["meta.helm.sh/release-name"], "/")
}

// boundTo is the namespace of the service account that a binding is for.
func boundTo(binding *unstructured.Unstructured) string {
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	for _, s := range subjects {
		if s, ok := s.(map[string]any); ok {
			namespace, _ := s["namespace"].(string)
			return namespace
		}
	}
	return ""
}

// apply makes one object what it should be, and says what that took.
func (c *Cluster) apply(ctx context.Context, object *unstructured.Unstructured, force bool) (done string, err error) {
	at := c.of(kindOf(object), object.GetNamespace())
	before, err := at.Get(ctx, object.GetName(), v1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	after, applyErr := at.Apply(ctx, object.GetName(), object, v1.ApplyOptions{FieldManager: manager, Force: force})
	switch {
	case applyErr != nil:
		return "", applyErr
	case err != nil:
		return "created", nil
	case before.GetResourceVersion() == after.GetResourceVersion():
		return "unchanged", nil
	}
	return "configured", nil
}

// failed explains an error of the API server.
func (c *Cluster) failed(doing string, err error, begun bool) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var next []string
	switch {
	case apierrors.IsForbidden(err):
		next = []string{"it takes rights to make namespaces, cluster roles and a DaemonSet: kubectl auth can-i '*' '*' --all-namespaces; " +
			"kubectl unthrottle install --dry-run writes YAML for someone who has them"}
	case apierrors.IsConflict(err):
		next = []string{"another manager has set these fields; --force-conflicts takes them over"}
	case apierrors.IsNotFound(err) && strings.Contains(doing, "monitoring.coreos.com"):
		next = []string{"Prometheus' operator is not installed here: leave --operator out"}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), strings.Contains(err.Error(), "field not declared in schema"):
		next = []string{"the API server does not take the object: agents need Kubernetes 1.30 or later"}
	default:
		err = cluster.Explain("asking the API server at "+c.config.Host, err)
		next = hint.Of(err)
	}
	if begun {
		next = append(next, "what is there so far stays, and the same command again goes on from here; kubectl unthrottle uninstall takes it out")
	}
	return hint.With(fmt.Errorf("%s: %w", doing, err), next...)
}

// Wait waits until an agent is ready on each node that should have one.
func (c *Cluster) Wait(ctx context.Context, namespace string, most time.Duration) error {
	k := daemonSets()
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var set *unstructured.Unstructured
	var err error
	for {
		now, failed := c.of(k, namespace).Get(limited, name, v1.GetOptions{})
		if limited.Err() == nil || set == nil && err == nil { // one that the end of the wait cuts off says nothing new
			set, err = now, failed
		}
		if failed == nil {
			if wanted, ready, ok := rolledOut(now); ok {
				fmt.Fprintf(c.out, "%d of %d agents are ready\n", ready, wanted)
				return nil
			}
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.late(ctx, namespace, most, set, err)
		case <-time.After(time.Second / 2):
		}
	}
}

func daemonSets() kind {
	return kindOf(&unstructured.Unstructured{Object: map[string]any{"kind": "DaemonSet"}})
}

// rolledOut says how many agents there should be, how many are ready, and whether that is all.
func rolledOut(set *unstructured.Unstructured) (wanted, ready int64, ok bool) {
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(set.Object, "status", field)
		return n
	}
	wanted, ready = number("desiredNumberScheduled"), number("numberAvailable")
	seen := number("observedGeneration") >= set.GetGeneration() && set.GetGeneration() > 0
	return wanted, ready, seen && number("updatedNumberScheduled") == wanted && ready == wanted
}

// late says what keeps the agents from being ready.
func (c *Cluster) late(ctx context.Context, namespace string, most time.Duration, set *unstructured.Unstructured, err error) error {
	if err != nil {
		return c.failed(fmt.Sprintf("waiting for %v: looking at the DaemonSet", most), err, false)
	}
	wanted, ready, _ := rolledOut(set)
	err = fmt.Errorf("%d of %d agents are ready after %v", ready, wanted, most)
	why := c.waiting(ctx, namespace)
	if why == "" {
		why = c.refused(ctx, namespace)
	}
	if why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return hint.With(err, "everything is installed; kubectl -n "+namespace+" describe pods -l app.kubernetes.io/name="+name+" tells more",
		"the same command with a longer --wait waits on")
}

// waiting is what the first container that does not run waits for.
func (c *Cluster) waiting(ctx context.Context, namespace string) string {
	pods, err := c.of(podKind, namespace).List(ctx, v1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name, Limit: 500})
	if err != nil {
		return ""
	}
	for _, p := range pods.Items {
		statuses, _, _ := unstructured.NestedSlice(p.Object, "status", "containerStatuses")
		for _, s := range statuses {
			s, _ := s.(map[string]any)
			reason, _, _ := unstructured.NestedString(s, "state", "waiting", "reason")
			message, _, _ := unstructured.NestedString(s, "state", "waiting", "message")
			if code, ok, _ := unstructured.NestedInt64(s, "lastState", "terminated", "exitCode"); ok && reason == "CrashLoopBackOff" {
				why, _, _ := unstructured.NestedString(s, "lastState", "terminated", "reason")
				return fmt.Sprintf("pod %s ends with exit code %d (%s) each time: kubectl -n %s logs %s --previous says why", p.GetName(), code, why, namespace, p.GetName())
			}
			if reason != "" {
				return strings.TrimSuffix("pod "+p.GetName()+": "+reason+": "+message, ": ")
			}
		}
		conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
		for _, s := range conditions {
			if s, _ := s.(map[string]any); s["type"] == "PodScheduled" && s["status"] == "False" {
				return fmt.Sprintf("pod %s: %v", p.GetName(), s["message"])
			}
		}
	}
	return ""
}

// refused is why no pods could be made, as where an admission policy is against them.
func (c *Cluster) refused(ctx context.Context, namespace string) string {
	events, err := c.of(eventKind, namespace).List(ctx, v1.ListOptions{FieldSelector: "involvedObject.kind=DaemonSet,involvedObject.name=" + name + ",type=Warning", Limit: 500})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	message, _, _ := unstructured.NestedString(events.Items[len(events.Items)-1].Object, "message")
	return message
}
