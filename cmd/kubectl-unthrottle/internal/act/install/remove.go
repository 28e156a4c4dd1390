package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A thing is an object that is there.
type thing struct {
	kind   kind
	object unstructured.Unstructured
}

// Remove takes the agents out of a namespace, or out of the one that they are in where namespace is "". It deletes what has the
// labels of an installation, and at the end the namespace, if install has made it and nothing else is in it.
func (c *Cluster) Remove(ctx context.Context, namespace string, wait time.Duration) error {
	things, err := c.installed(ctx, namespace)
	if err != nil {
		return err
	}
	for i, t := range things {
		if err := c.delete(ctx, t); err != nil {
			return c.failed("deleting "+t.kind.called(t.object.GetName()), err, i > 0)
		}
		fmt.Fprintf(c.out, "%s deleted\n", t.kind.called(t.object.GetName()))
	}
	made, err := c.made(ctx, namespace)
	if err != nil {
		return err
	}
	if len(things)+len(made) == 0 {
		fmt.Fprintln(c.out, "there is nothing to take out")
	}
	for _, n := range made {
		if err := c.leave(ctx, n, wait); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, and not another one of its name that was made meanwhile.
func (c *Cluster) delete(ctx context.Context, t thing) error {
	uid, background := t.object.GetUID(), v1.DeletePropagationBackground
	err := c.of(t.kind, t.object.GetNamespace()).Delete(ctx, t.object.GetName(), v1.DeleteOptions{
		Preconditions: &v1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// installed are the objects of an installation, in the order in which they are deleted. What belongs to the whole cluster is of
// the only installation.
func (c *Cluster) installed(ctx context.Context, namespace string) (things []thing, err error) {
	var where []string // the namespaces of DaemonSets
	for _, k := range kinds {
		list, err := c.of(k, "").List(ctx, v1.ListOptions{LabelSelector: selector})
		switch {
		case apierrors.IsNotFound(err) && k.extra:
			continue
		case err != nil:
			return nil, c.failed("looking for "+k.Resource, err, false)
		}
		for _, object := range list.Items {
			if helm := release(&object); helm != "" {
				return nil, hint.With(fmt.Errorf("%s is part of the Helm release %s", k.called(object.GetName()), helm), "helm uninstall takes it out")
			}
			if object.GetDeletionTimestamp() == nil {
				things = append(things, thing{k, object})
			}
			if n := object.GetNamespace(); n != "" && !slices.Contains(where, n) {
				where = append(where, n)
			}
		}
	}
	slices.Sort(where)
	if namespace == "" && len(where) > 1 {
		return nil, hint.With(fmt.Errorf("there are agents in the namespaces %s", strings.Join(where, ", ")), "--namespace says which of them is meant")
	}
	return slices.DeleteFunc(things, func(t thing) bool {
		n := t.object.GetNamespace()
		if n == "" { // what another installation needs stays
			return namespace != "" && slices.ContainsFunc(where, func(other string) bool { return other != namespace })
		}
		return namespace != "" && n != namespace
	}), nil
}

// made are the namespaces that install has made, or the one that is named if it has.
func (c *Cluster) made(ctx context.Context, namespace string) (names []string, err error) {
	list, err := c.of(namespaces, "").List(ctx, v1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.failed("looking for namespaces", err, true)
	}
	for _, n := range list.Items {
		if n.GetAnnotations()[madeBy] == maker && (namespace == "" || namespace == n.GetName()) {
			names = append(names, n.GetName())
		}
	}
	return names, nil
}

// leave deletes a namespace, unless something else is in it.
func (c *Cluster) leave(ctx context.Context, namespace string, wait time.Duration) error {
	called := namespaces.called(namespace)
	others, err := c.others(ctx, namespace)
	if err != nil {
		return hint.With(fmt.Errorf("looking whether something else is in the namespace %s: %w", namespace, err),
			"everything else is taken out; kubectl delete namespace "+namespace+" deletes it with all that is in it")
	}
	if len(others) > 0 {
		fmt.Fprintf(c.out, "%s stays: it has %s, which is not the agents'\n", called, some(others))
		return nil
	}
	err = c.of(namespaces, "").Delete(ctx, namespace, v1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return c.failed("deleting "+called, err, true)
	}
	fmt.Fprintf(c.out, "%s deleted\n", called)
	if wait == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		if _, err := c.of(namespaces, "").Get(limited, namespace, v1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return hint.With(fmt.Errorf("the namespace %s is still there after %v", namespace, wait), "kubectl get namespace "+namespace+" -o yaml shows what it waits for")
		case <-time.After(time.Second / 2):
		}
	}
}

// some are a few names.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ")
}

// others are objects that someone has put into a namespace: not what every namespace has, and not what belongs to another
// object, which goes with that.
func (c *Cluster) others(ctx context.Context, namespace string) (names []string, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredNamespacedResources(client)
	if err != nil {
		return nil, err // a group that does not answer may have objects there
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || !keeps(r.Kind) {
				continue // what can't be deleted is a view of something else
			}
			found, err := c.metadata.Resource(version.WithResource(r.Name)).Namespace(namespace).List(ctx, v1.ListOptions{Limit: 500})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			} else if err != nil {
				return nil, err
			}
			for _, o := range found.Items {
				everywhere := r.Kind == "ConfigMap" && (o.Name == "kube-root-ca.crt" || o.Name == "openshift-service-ca.crt") ||
					r.Kind == "ServiceAccount" && (o.Name == "default" || o.Name == "builder" || o.Name == "deployer") ||
					o.Annotations["kubernetes.io/service-account.name"] != ""
				if !everywhere && len(o.OwnerReferences) == 0 && o.DeletionTimestamp == nil {
					names = append(names, kind{version.WithResource(r.Name), r.Kind, true, false}.called(o.Name))
				}
			}
		}
	}
	return names, nil
}

// keeps says whether objects of a kind are more than traces of other objects.
func keeps(kind string) bool {
	return kind != "Event" && kind != "Endpoints" && kind != "EndpointSlice" && kind != "PodMetrics" && kind != "Lease"
}
