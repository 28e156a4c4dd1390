package clustertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Pod is what tests want to know of one. The API server knows the rest.
type Pod struct {
	Namespace, Name, UID, Node string
	IP                         string // the test reaches it, and the other pods do
	Phase                      string // Pending, Running, Succeeded, Failed
	Containers                 []Container
}

// A Container is one of a pod's, of any kind.
type Container struct {
	Name     string
	Kind     string // container, init, ephemeral
	ID       string // without the name of the runtime
	Ready    bool   // never, of an ephemeral container
	Restarts int
	State    string // waiting, running, terminated, with the reason if there is one
}

const podTimeout = 8 * time.Minute // it judges no speed

// WaitPods waits until a namespace has as many pods of a label selector as it should and all are in a phase: Running, which
// here means that all containers are ready or have ended, Succeeded or Failed. An empty selector means all. It returns them by name.
func (c *Cluster) WaitPods(t testing.TB, namespace, selector string, count int, phase string) (pods []Pod) {
	t.Helper()
	WaitFor(t, podTimeout, func() (err error) {
		if pods, err = c.Pods(namespace, selector); err != nil {
			return err
		}
		if len(pods) != count || slices.ContainsFunc(pods, func(p Pod) bool { return !p.in(phase) }) {
			return fmt.Errorf("pods %s of %s are %+v, want %d in phase %s\n%s", selector, namespace, pods, count, phase, c.events(namespace))
		}
		return nil
	})
	return pods
}

func (p Pod) in(phase string) bool {
	return p.Phase == phase && (phase != "Running" || !slices.ContainsFunc(p.Containers, Container.late))
}

// late tells whether a container should run and does not yet.
func (c Container) late() bool {
	if c.Kind == "ephemeral" && c.State == "running" {
		return false
	}
	return !c.Ready && !strings.HasPrefix(c.State, "terminated")
}

// Pods returns the pods of a namespace that a label selector selects, by name.
func (c *Cluster) Pods(namespace, selector string) (pods []Pod, err error) {
	body, err := c.Get("/api/v1/namespaces/" + namespace + "/pods?labelSelector=" + url.QueryEscape(selector))
	if err != nil {
		return nil, err
	}
	type status struct {
		Name, ContainerID string
		Ready             bool
		RestartCount      int
		State             map[string]struct{ Reason string }
	}
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name, UID string }
			Spec     struct{ NodeName string }
			Status   struct {
				Phase, PodIP                                                         string
				ContainerStatuses, InitContainerStatuses, EphemeralContainerStatuses []status
			}
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading the pods of %s: %w", namespace, err)
	}
	for _, i := range list.Items {
		p := Pod{
			Namespace: i.Metadata.Namespace, Name: i.Metadata.Name, UID: i.Metadata.UID,
			Node: i.Spec.NodeName, IP: i.Status.PodIP, Phase: i.Status.Phase,
		}
		add := func(kind string, all []status) {
			for _, s := range all {
				_, id, _ := strings.Cut(s.ContainerID, "://")
				c := Container{Name: s.Name, Kind: kind, ID: id, Ready: s.Ready, Restarts: s.RestartCount}
				for state, why := range s.State {
					c.State = strings.TrimSpace(state + " " + why.Reason)
				}
				p.Containers = append(p.Containers, c)
			}
		}
		add("init", i.Status.InitContainerStatuses)
		add("container", i.Status.ContainerStatuses)
		add("ephemeral", i.Status.EphemeralContainerStatuses)
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// events are the warnings of a namespace.
func (c *Cluster) events(namespace string) string {
	body, err := c.Get("/api/v1/namespaces/" + namespace + "/events?fieldSelector=type%3DWarning")
	if err != nil {
		return err.Error()
	}
	var list struct {
		Items []struct {
			Message        string
			InvolvedObject struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&text, "%s: %s\n", e.InvolvedObject.Name, e.Message)
	}
	return text.String()
}

// Logs returns what a container has written.
func (c *Cluster) Logs(namespace, pod, container string) (string, error) {
	body, err := c.Get("/api/v1/namespaces/" + namespace + "/pods/" + pod + "/log?container=" + url.QueryEscape(container))
	return string(body), err
}

// Proxy asks a port of a pod by way of the API server.
func (c *Cluster) Proxy(namespace, pod string, port int, path string) ([]byte, error) {
	return c.Get(fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:%d/proxy/%s", namespace, pod, port, strings.TrimPrefix(path, "/")))
}
