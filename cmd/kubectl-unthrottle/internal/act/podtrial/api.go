package podtrial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// An API asks an API server.
type API struct{ Client *rest.RESTClient }

// mostRetries is how often a request is made again where the connection broke or the server asks for patience.
const mostRetries = 5

func (a *API) do(ctx context.Context, doing string, r *rest.Request, out any) error {
	data, err := cluster.Raw(ctx, r.MaxRetries(mostRetries))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return cluster.Explain(doing, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s: the answer: %w", doing, err)
	}
	return nil
}

// Get asks for an object.
func (a *API) Get(ctx context.Context, path string, out any) error {
	return a.do(ctx, "getting "+name(path), a.Client.Get().AbsPath(path), out)
}

// List asks for the objects of a path with labels.
func (a *API) List(ctx context.Context, path, labels string, out any) error {
	r := a.Client.Get().AbsPath(path)
	if labels != "" {
		r.Param("labelSelector", labels)
	}
	return a.do(ctx, "listing "+name(path), r, out)
}

// Create makes an object; out becomes what the server has made of it.
func (a *API) Create(ctx context.Context, o object, out any) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return a.do(ctx, "creating "+strings.ToLower(text(o, "kind"))+" "+text(o, "metadata", "name"), a.Client.Post().AbsPath(collection(o)).Body(body), out)
}

// Merge changes what a patch names of an object.
func (a *API) Merge(ctx context.Context, path string, patch object) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return a.do(ctx, "changing "+name(path), a.Client.Patch(types.MergePatchType).AbsPath(path).Body(body), nil)
}

// Delete deletes an object, and then what it owns. That it is already gone is not an error.
func (a *API) Delete(ctx context.Context, path string) error {
	body := []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	err := a.do(ctx, "deleting "+name(path), a.Client.Delete().AbsPath(path).Body(body), nil)
	if gone(err) {
		return nil
	}
	return err
}

// DeleteJob deletes a Job with its pod.
func (a *API) DeleteJob(ctx context.Context, namespace, job string) error {
	return a.Delete(ctx, jobs(namespace)+"/"+job)
}

func jobs(namespace string) string { return "/apis/batch/v1/namespaces/" + namespace + "/jobs" }

// Log is what a container has written since a time, each line with its time if that is asked for. It asks for as much as an answer
// may have; a server that sends more is not believed.
func (a *API) Log(ctx context.Context, namespace, pod, container string, since time.Time, times bool) ([]byte, error) {
	r := a.logOf(namespace, pod, container)
	if !since.IsZero() {
		r.Param("sinceTime", since.UTC().Format(time.RFC3339))
	}
	if times {
		r.Param("timestamps", "true")
	}
	return a.readLog(ctx, r, pod)
}

// LastLog are the last lines of a container's log, by the same bound.
func (a *API) LastLog(ctx context.Context, namespace, pod, container string, lines int) ([]byte, error) {
	return a.readLog(ctx, a.logOf(namespace, pod, container).Param("tailLines", strconv.Itoa(lines)), pod)
}

func (a *API) logOf(namespace, pod, container string) *rest.Request {
	return a.Client.Get().AbsPath("/api/v1/namespaces/"+namespace+"/pods/"+pod+"/log").Param("container", container).Param("limitBytes", strconv.Itoa(cluster.MostPage))
}

func (a *API) readLog(ctx context.Context, r *rest.Request, pod string) ([]byte, error) {
	data, err := cluster.Raw(ctx, r.MaxRetries(mostRetries))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, cluster.Explain("reading the log of pod "+pod, err)
	}
	return data, nil
}

// noPod is why no pod is made of a Job, by its events; nil: they don't say, or may not be read.
func (a *API) noPod(ctx context.Context, namespace, job string) error {
	var events struct{ Items []corev1.Event }
	r := a.Client.Get().AbsPath("/api/v1/namespaces/"+namespace+"/events").Param("fieldSelector", "involvedObject.kind=Job,involvedObject.name="+job)
	if err := a.do(ctx, "listing events", r, &events); err != nil {
		return nil
	}
	return NoPod(events.Items)
}

// Node is what is known about a node. A user who may not look at nodes gets its name.
func (a *API) Node(ctx context.Context, node string) (n Node, err error) {
	var o struct {
		Status struct {
			Capacity struct{ CPU, Memory string }
			NodeInfo corev1.NodeSystemInfo
		}
	}
	n.Name = node
	if err := a.Get(ctx, "/api/v1/nodes/"+url.PathEscape(node), &o); err != nil {
		if apierrors.IsForbidden(errors.Unwrap(unhinted(err))) {
			return n, nil
		}
		return n, err
	}
	i := o.Status.NodeInfo
	n.Arch, n.OS, n.Kernel, n.Kubelet, n.RuntimeName = i.Architecture, i.OperatingSystem, i.KernelVersion, i.KubeletVersion, i.ContainerRuntimeVersion
	if q, err := quantity.ParseResource(o.Status.Capacity.CPU); err == nil {
		n.CPUs = int(q.Float())
	}
	if q, err := quantity.ParseResource(o.Status.Capacity.Memory); err == nil {
		n.Memory = int64(q.Float())
	}
	return n, nil
}

func unhinted(err error) error {
	var r *cluster.RequestError
	if errors.As(err, &r) {
		return r
	}
	return err
}

func gone(err error) bool { return err != nil && apierrors.IsNotFound(errors.Unwrap(unhinted(err))) }

func refused(err error) bool {
	return err != nil && apierrors.IsForbidden(errors.Unwrap(unhinted(err)))
}

// plurals are the resources that are made here, by kind.
var plurals = map[string]string{
	"Namespace": "namespaces", "Job": "jobs", "ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings",
	"ConfigMap": "configmaps", "Secret": "secrets", "ResourceQuota": "resourcequotas", "LimitRange": "limitranges",
}

// collection is where an object is made.
func collection(o object) string {
	version := text(o, "apiVersion")
	path := "/api/" + version
	if strings.Contains(version, "/") {
		path = "/apis/" + version
	}
	if kind := text(o, "kind"); kind != "Namespace" {
		path += "/namespaces/" + text(o, "metadata", "namespace")
	}
	return path + "/" + plurals[text(o, "kind")]
}

// name names what is at a path, for errors: job run-1 in team.
func name(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	where := ""
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		where, parts = " in "+parts[i+1], parts[i+2:]
	} else if i >= 0 {
		parts = parts[i:]
	} else if i := slices.Index(parts, "nodes"); i >= 0 {
		parts = parts[i:]
	}
	if len(parts) > 1 {
		return strings.TrimSuffix(parts[0], "s") + " " + strings.Join(parts[1:], " ") + where
	}
	return strings.Join(parts, "/") + where
}

// Workload gets the workload that is named as kubectl names it: deployment/api, deploy/api, statefulsets.apps/db.
func (a *API) Workload(ctx context.Context, namespace, named string) ([]byte, error) {
	resource, name, ok := cluster.Named(named)
	if !ok {
		return nil, hint.Usage("deployment/NAME, statefulset/NAME, daemonset/NAME, job/NAME, cronjob/NAME or pod/NAME", "%q names no workload", named)
	}
	var o json.RawMessage
	err := a.Get(ctx, resource.Path(url.PathEscape(namespace))+"/"+url.PathEscape(name), &o)
	if gone(err) {
		return nil, hint.With(fmt.Errorf("there is no %s in namespace %s", named, namespace), "kubectl get "+resource.Plural+" -n "+namespace)
	}
	return o, err
}
