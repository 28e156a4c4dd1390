package inpod

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A pod is what has to be known of one.
type pod struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName              string           `json:"nodeName"`
		HostPID               bool             `json:"hostPID"`
		ShareProcessNamespace bool             `json:"shareProcessNamespace"`
		SecurityContext       *securityContext `json:"securityContext"`
		Containers            []container      `json:"containers"`
		InitContainers        []container      `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase                      string   `json:"phase"`
		ContainerStatuses          []status `json:"containerStatuses"`
		InitContainerStatuses      []status `json:"initContainerStatuses"`
		EphemeralContainerStatuses []status `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type container struct {
	Name            string           `json:"name"`
	SecurityContext *securityContext `json:"securityContext"`
}

type securityContext struct {
	RunAsUser    *int64 `json:"runAsUser,omitempty"`
	RunAsGroup   *int64 `json:"runAsGroup,omitempty"`
	RunAsNonRoot *bool  `json:"runAsNonRoot,omitempty"`
}

// A status is that of a container.
type status struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"`
	State       struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running    *json.RawMessage `json:"running"`
		Terminated *struct {
			ExitCode int    `json:"exitCode"`
			Reason   string `json:"reason"`
			Message  string `json:"message"`
		} `json:"terminated"`
	} `json:"state"`
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
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		switch {
		case s.Name != name:
		case s.State.Running != nil:
			return nil
		case s.State.Waiting != nil:
			return fmt.Errorf("container %s does not run: %s", name, why(s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Terminated != nil:
			return fmt.Errorf("container %s does not run: it ended with exit code %d", name, s.State.Terminated.ExitCode)
		}
	}
	return fmt.Errorf("container %s does not run yet", name)
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
