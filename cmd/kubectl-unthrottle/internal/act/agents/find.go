package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Getter asks an API server for a path. The answer is bounded.
type Getter interface {
	Get(ctx context.Context, path string, query url.Values, within time.Duration) (io.ReadCloser, error)
}

// An Agent is a pod that Kubernetes says is one.
type Agent struct {
	Namespace, Pod, Node string
	Scheme               string // "": that of an installation
	Port                 int
	Ready                bool
}

// String is how an agent is called.
func (a Agent) String() string {
	return fmt.Sprintf("%s in %s, on node %s", a.Pod, a.Namespace, a.Node)
}

// Path is where the API server's proxy answers for the agent. This is the one place that knows how it is reached.
func (a Agent) Path(page string) string {
	scheme := a.Scheme
	if scheme == "" {
		scheme = usualScheme
	}
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s:%d/proxy/api/v1/%s", url.PathEscape(a.Namespace), scheme, url.PathEscape(a.Pod), a.Port, page)
}

// A Stranger is a pod with an agent's label that isn't one as far as Kubernetes knows, and that isn't asked.
type Stranger struct{ Namespace, Pod, Why string }

// String is how it is called.
func (s Stranger) String() string { return s.Pod + " in " + s.Namespace }

// Found are the agents of an installation.
type Found struct {
	Agents    []Agent
	Strangers []Stranger
	Installed bool // there is a DaemonSet of agents
}

// A Search says where agents are.
type Search struct {
	Namespace string
	Node      string // "": any
	Within    time.Duration
}

const (
	label       = "app.kubernetes.io/name=unthrottle-agent"
	usualPort   = 9435
	usualScheme = "https"
	inPage      = 500
	mostPages   = 100 // 50,000 agents; Kubernetes has 5,000 nodes at most
	mostOthers  = 50  // strangers of other namespaces that are looked for: some are named, and there should be none
)

// A set is a DaemonSet of agents.
type set struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Template struct {
			Spec struct{ ServiceAccountName string }
		}
	}
}

// A pod is one with an agent's label. Its amounts are not read: a resource.Quantity takes minutes to parse 7e-77777771, and a server may
// answer anything.
type pod struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		NodeName, ServiceAccountName string
		Containers                   []struct{ Ports []corev1.ContainerPort }
	}
	Status struct {
		Phase      corev1.PodPhase
		Conditions []corev1.PodCondition
	}
}

// Find asks which pods are agents: those of the namespace where they are installed that belong to their DaemonSet and run as its
// service account. A label is no proof: anyone who may create a pod anywhere can set it.
func Find(ctx context.Context, from Getter, s Search) (found Found, err error) {
	namespace := "/namespaces/" + url.PathEscape(s.Namespace)
	query := url.Values{"labelSelector": {label}}
	var sets []set
	if err := each(ctx, from, "/apis/apps/v1"+namespace+"/daemonsets", query, s.Within, func(x set) { sets = append(sets, x) }); err != nil {
		return found, err
	}
	found.Installed = len(sets) > 0
	if s.Node != "" {
		query.Set("fieldSelector", "spec.nodeName="+s.Node)
	}
	err = each(ctx, from, "/api/v1"+namespace+"/pods", query, s.Within, func(p pod) {
		switch why := p.stranger(s.Namespace, sets); {
		case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		case why != "":
			found.Strangers = append(found.Strangers, Stranger{p.Metadata.Namespace, p.Metadata.Name, why})
		case s.Node == "" || s.Node == p.Spec.NodeName:
			found.Agents = append(found.Agents, p.agent())
		}
	})
	return found, err
}

// Others are the pods of other namespaces that have an agent's label, or some of them: they aren't agents. A caller who may not
// look there doesn't hear of them.
func Others(ctx context.Context, from Getter, s Search) (all []Stranger) {
	query := url.Values{"labelSelector": {label}, "fieldSelector": {"metadata.namespace!=" + s.Namespace}, "limit": {strconv.Itoa(mostOthers)}}
	page[pod](ctx, from, "/api/v1/pods", query, s.Within, func(p pod) {
		if p.Metadata.Namespace != s.Namespace && len(all) < mostOthers {
			all = append(all, Stranger{p.Metadata.Namespace, p.Metadata.Name, "it is not in namespace " + s.Namespace + ", where agents are looked for"})
		}
	})
	return all
}

// stranger is why a pod isn't an agent; "": it is one.
func (p *pod) stranger(namespace string, sets []set) string {
	i := slices.IndexFunc(sets, func(s set) bool {
		o := metav1.GetControllerOfNoCopy(&p.Metadata)
		return o != nil && o.Kind == "DaemonSet" && o.APIVersion == "apps/v1" && o.UID != "" && o.UID == s.Metadata.UID
	})
	switch {
	case i < 0:
		return "it does not belong to a DaemonSet of agents in namespace " + namespace
	case p.Metadata.Namespace != namespace: // the server was asked for another one
		return "it is in another namespace"
	case cmp.Or(p.Spec.ServiceAccountName, "default") != cmp.Or(sets[i].Spec.Template.Spec.ServiceAccountName, "default"):
		return "it does not run as the service account of its DaemonSet"
	}
	return ""
}

func (p *pod) agent() Agent {
	a := Agent{Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Node: p.Spec.NodeName, Port: usualPort}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if (port.Name == "http" || port.Name == "https") && port.ContainerPort > 0 && port.ContainerPort < 1<<16 {
				a.Scheme, a.Port = port.Name, int(port.ContainerPort)
			}
		}
	}
	for _, c := range p.Status.Conditions {
		a.Ready = a.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return a
}

var errNoEnd = errors.New("its list of agents does not end")

// each reads all pages of a list.
func each[T any](ctx context.Context, from Getter, path string, query url.Values, within time.Duration, got func(T)) error {
	ask := url.Values{"limit": {strconv.Itoa(inPage)}}
	maps.Copy(ask, query)
	turned := map[string]bool{}
	for range mostPages {
		next, err := page(ctx, from, path, ask, within, got)
		if err != nil || next == "" {
			return err
		}
		if turned[next] {
			return errNoEnd
		}
		turned[next] = true
		ask.Set("continue", next)
	}
	return errNoEnd
}

func page[T any](ctx context.Context, from Getter, path string, query url.Values, within time.Duration, got func(T)) (next string, err error) {
	body, err := from.Get(ctx, path, query, within)
	if err != nil {
		return "", err
	}
	defer body.Close()
	var list struct {
		Metadata metav1.ListMeta
		Items    []T
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return "", fmt.Errorf("its answer is not a list: %w", err)
	}
	for _, x := range list.Items {
		got(x)
	}
	return list.Metadata.Continue, nil
}
