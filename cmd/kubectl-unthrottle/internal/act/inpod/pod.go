package inpod

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A pod is what has to be known of one.
type pod struct {
	data     []byte // as the API server has sent it
	Metadata struct {
		Name              string            `json:"name"`
		Annotations       map[string]string `json:"annotations"`
		CreationTimestamp string            `json:"creationTimestamp"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		ManagedFields     []struct {
			Subresource string `json:"subresource"`
			Time        string `json:"time"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		NodeName              string           `json:"nodeName"`
		Resources             resources        `json:"resources"`
		HostUsers             *bool            `json:"hostUsers"`
		HostPID               bool             `json:"hostPID"`
		ShareProcessNamespace bool             `json:"shareProcessNamespace"`
		SecurityContext       *securityContext `json:"securityContext"`
		OS                    struct {
			Name string `json:"name"`
		} `json:"os"`
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase                      string      `json:"phase"`
		Conditions                 []condition `json:"conditions"`
		ContainerStatuses          []status    `json:"containerStatuses"`
		InitContainerStatuses      []status    `json:"initContainerStatuses"`
		EphemeralContainerStatuses []status    `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

type container struct {
	Name            string           `json:"name"`
	SecurityContext *securityContext `json:"securityContext"`
	Ports           []struct {
		ContainerPort int    `json:"containerPort"`
		Protocol      string `json:"protocol"`
	} `json:"ports"`
}

// tcpPorts are the first of those that it declares.
func (c *container) tcpPorts() (ports []int) {
	for _, port := range c.Ports {
		if n := port.ContainerPort; n > 0 && n < 1<<16 && (port.Protocol == "" || port.Protocol == "TCP") && len(ports) < mostPorts {
			ports = append(ports, n)
		}
	}
	return ports
}

// portDoubts say why the program at a port may be another container's, as those of a pod share their ports.
func (p *pod) portDoubts(of *container, port int) []string {
	if slices.Contains(of.tcpPorts(), port) {
		return nil
	}
	declared := fmt.Sprintf("container %s does not declare port %d", of.Name, port)
	if owner := p.declarer(port); owner != "" {
		return []string{fmt.Sprintf("%s, and %s does: the program is probably that one's", declared, owner)}
	}
	const named = 4 // a list of hundreds tells nothing
	var others []string
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if s.Name != of.Name && s.State.Running != nil {
			others = append(others, s.Name)
		}
	}
	switch n := len(others); {
	case n == 0:
		return nil
	case n > named:
		others = []string{fmt.Sprintf("any of %d others", n)}
	}
	return []string{fmt.Sprintf("%s: the program may be that of %s", declared, quantity.Either(others))}
}

// declarer is the container that declares a port; "": none does.
func (p *pod) declarer(port int) string {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if slices.Contains(c.tcpPorts(), port) {
			return c.Name
		}
	}
	return ""
}

// resources are amounts as they are written, by what they are of. The API server writes an amount in one way only.
type resources struct {
	Limits map[string]string `json:"limits"`
}

type securityContext struct {
	RunAsUser    *int64 `json:"runAsUser,omitempty"`
	RunAsGroup   *int64 `json:"runAsGroup,omitempty"`
	RunAsNonRoot *bool  `json:"runAsNonRoot,omitempty"`
}

// A status is that of a container.
type status struct {
	Name         string    `json:"name"`
	ContainerID  string    `json:"containerID"`
	RestartCount int       `json:"restartCount"`
	Resources    resources `json:"resources"` // that are in force, as the kubelet says
	State        state     `json:"state"`
	LastState    state     `json:"lastState"`
}

type state struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running *struct {
		StartedAt string `json:"startedAt"`
	} `json:"running"`
	Terminated *struct {
		ExitCode int    `json:"exitCode"`
		Reason   string `json:"reason"`
		Message  string `json:"message"`
	} `json:"terminated"`
}

const defaultContainer = "kubectl.kubernetes.io/default-container"

// choose is the container that is meant: the one that is named, the pod's default as kubectl knows it, or its first.
func (p *pod) choose(name string) (*container, error) {
	all := p.Spec.Containers
	if name == "" {
		name = p.Metadata.Annotations[defaultContainer]
	}
	if name == "" && len(all) > 0 {
		return &all[0], nil
	}
	for _, list := range [][]container{all, p.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c container) bool { return c.Name == name }); i >= 0 {
			return &list[i], nil
		}
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return nil, hint.With(fmt.Errorf("the pod has no container %s", name), "-c "+quantity.Either(names))
}

// running says why a container does not run; nil: it does.
func (p *pod) running(name string) error {
	if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return fmt.Errorf("the pod is over (%s)", strings.ToLower(p.Status.Phase))
	}
	if s := p.status(name); s != nil {
		switch {
		case s.State.Running != nil:
			return nil
		case s.State.Waiting != nil:
			return fmt.Errorf("container %s does not run: %s", name, why(s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Terminated != nil:
			return fmt.Errorf("container %s does not run: ended with exit code %d", name, s.State.Terminated.ExitCode)
		}
	}
	return fmt.Errorf("container %s does not run yet", name)
}

// readySince is when it became ready, in a form that sorts; "": it is not ready.
func (p *pod) readySince() string {
	if i := slices.IndexFunc(p.Status.Conditions, condition.ready); i >= 0 {
		return p.Status.Conditions[i].LastTransitionTime
	}
	return ""
}

func (c condition) ready() bool { return c.Type == "Ready" && c.Status == "True" }

// rank is how well a pod stands for the others of its kind, less being better.
func (p *pod) rank() int {
	ready := slices.ContainsFunc(p.Status.Conditions, condition.ready)
	switch {
	case p.Status.Phase == "Running" && p.Metadata.DeletionTimestamp != "":
		return 2 // it is ending
	case p.Status.Phase == "Running" && ready:
		return 0
	case p.Status.Phase == "Running":
		return 1
	case p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
		return 4
	}
	return 3
}

// restarts are those of the container that was started again most often.
func (p *pod) restarts() (most int) {
	for _, s := range p.Status.ContainerStatuses {
		most = max(most, s.RestartCount)
	}
	return most
}

// status is that of a container; nil: there is none yet.
func (p *pod) status(name string) *status {
	all := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	if i := slices.IndexFunc(all, func(s status) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// resized says whether the limit of the spec, as it is written, is not the one in force: a resize is not done, or can't be.
func (p *pod) resized(name, spec string) (written, inForce string, is bool) {
	s := p.status(name)
	if s == nil || s.State.Running == nil {
		return "", "", false
	}
	now := s.Resources.Limits["cpu"]
	return spec, now, spec != "" && now != "" && now != spec
}

// resizedSince says whether the pod was resized after a container had started, whose environment is as it was then.
func (p *pod) resizedSince(name string) bool {
	s := p.status(name)
	if s == nil || s.State.Running == nil || s.State.Running.StartedAt == "" {
		return false
	}
	for _, f := range p.Metadata.ManagedFields {
		if f.Subresource == "resize" && f.Time > s.State.Running.StartedAt { // both are in UTC, to the second
			return true
		}
	}
	return false
}

// doubts are what its status says of how well it runs.
func (p *pod) doubts(name string) []string {
	doubts := []string{}
	if s := p.status(name); s != nil && s.LastState.Terminated != nil {
		last := s.LastState.Terminated
		doubts = append(doubts, fmt.Sprintf("it was started again %s; the last run ended with exit code %d (%s)", quantity.Plural(s.RestartCount, "time"), last.ExitCode, last.Reason))
	}
	return doubts
}

// refuses says why a verb can't work there, before anything is done to the pod; nil: it may.
func (p *pod) refuses(verb string, way Way) error {
	switch {
	case p.Spec.OS.Name == "windows":
		return errors.New("the pod is on Windows, which has no cgroups")
	case verb == "watch" && way == Ephemeral && p.Spec.HostUsers != nil && !*p.Spec.HostUsers:
		return hint.With(errors.New("the pod has a user namespace of its own, so no container beside it may enter the program's cgroup"),
			"--way exec runs the heartbeat in the container, if its image has unthrottle")
	}
	return nil
}

// first is the process ID of the container's first process, seen from a container in its process namespace; 0: it can't be told.
func (p *pod) first() int {
	if p.Spec.HostPID || p.Spec.ShareProcessNamespace {
		return 0
	}
	return 1
}

// mayBeRoot reports whether the kubelet starts a container as root beside this one.
func (p *pod) mayBeRoot() bool {
	s := p.Spec.SecurityContext
	return s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot
}

// user is as whom a container's processes run, as far as the pod's spec says it.
func (p *pod) user(c *container) *securityContext {
	u := &securityContext{}
	for _, s := range []*securityContext{p.Spec.SecurityContext, c.SecurityContext} {
		if s == nil {
			continue
		}
		if s.RunAsUser != nil {
			u.RunAsUser = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			u.RunAsGroup = s.RunAsGroup
		}
	}
	return u
}

func why(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
