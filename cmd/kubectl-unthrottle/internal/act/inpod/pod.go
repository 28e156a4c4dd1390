package inpod

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A pod is what must be known about one. Its parts are Kubernetes' own types, except for those with amounts: a resource.Quantity
// takes minutes to parse 7e-77777771, and a server may answer anything.
type pod struct {
	data     []byte // as the API server has sent it
	Metadata metav1.ObjectMeta
	Spec     struct {
		NodeName                       string
		Resources                      resources
		HostUsers                      *bool
		HostPID, ShareProcessNamespace bool
		SecurityContext                *corev1.PodSecurityContext
		OS                             corev1.PodOS
		Containers, InitContainers     []container
	}
	Status struct {
		Phase                                                                corev1.PodPhase
		Conditions                                                           []corev1.PodCondition
		ContainerStatuses, InitContainerStatuses, EphemeralContainerStatuses []status
	}
}

type container struct {
	Name            string
	SecurityContext *corev1.SecurityContext
	Ports           []corev1.ContainerPort
}

// tcpPorts are the first of those that it declares.
func (c *container) tcpPorts() (ports []int) {
	for _, port := range c.Ports {
		if n := port.ContainerPort; n > 0 && n < 1<<16 && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) && len(ports) < mostPorts {
			ports = append(ports, int(n))
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
	const named = 4 // a list of hundreds says nothing
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

// resources are amounts as written, by what they are of. The API server writes an amount in one way only.
type resources struct{ Limits map[string]string }

// A status is that of a container.
type status struct {
	Name, ContainerID string
	RestartCount      int
	Resources         resources // that are in force, as the kubelet says
	State, LastState  corev1.ContainerState
}

const defaultContainer = "kubectl.kubernetes.io/default-container"

// choose is the wanted container: the one that is named, the pod's default as kubectl knows it, or its first.
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
	if how := p.over(); how != "" {
		return fmt.Errorf("the pod is over (%s)", how)
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

// over is how the pod has ended, succeeded or failed; "": it has not.
func (p *pod) over() string {
	if phase := p.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return strings.ToLower(string(phase))
	}
	return ""
}

// readySince is when it became ready; zero: it is not ready.
func (p *pod) readySince() (since time.Time) {
	if i := slices.IndexFunc(p.Status.Conditions, ready); i >= 0 {
		since = p.Status.Conditions[i].LastTransitionTime.Time
	}
	return since
}

func ready(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
}

// rank is how well a pod stands for the others of its kind, less being better.
func (p *pod) rank() int {
	running := p.Status.Phase == corev1.PodRunning
	switch {
	case running && p.Metadata.DeletionTimestamp != nil:
		return 2 // it is ending
	case running && slices.ContainsFunc(p.Status.Conditions, ready):
		return 0
	case running:
		return 1
	case p.over() != "":
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

// status is that of a container; nil: none yet.
func (p *pod) status(name string) *status {
	all := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	if i := slices.IndexFunc(all, func(s status) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// resized says whether the limit of the spec, as written, is not the one in force: a resize is not done, or can't be.
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
	if s == nil || s.State.Running == nil || s.State.Running.StartedAt.IsZero() {
		return false
	}
	return slices.ContainsFunc(p.Metadata.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource == "resize" && f.Time != nil && f.Time.After(s.State.Running.StartedAt.Time)
	})
}

// doubts are what its status says about how well it runs.
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
	case p.Spec.OS.Name == corev1.Windows:
		return errors.New("the pod is on Windows, which has no cgroups")
	case verb == "watch" && way == Ephemeral && p.Spec.HostUsers != nil && !*p.Spec.HostUsers:
		return hint.With(errors.New("the pod has a user namespace of its own, so no container beside it may enter the program's cgroup"),
			"--way exec runs the heartbeat in the container, if its image has unthrottle")
	}
	return nil
}

// first is the process ID of the container's first process, seen from a container in its process namespace; 0: unknown.
func (p *pod) first() int {
	if p.Spec.HostPID || p.Spec.ShareProcessNamespace {
		return 0
	}
	return 1
}

// mayBeRoot reports whether the kubelet starts a container as root next to this one.
func (p *pod) mayBeRoot() bool {
	s := p.Spec.SecurityContext
	return s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot
}

// user is the user and group that a container's processes run as, if the pod's spec says so.
func (p *pod) user(c *container) (uid, gid *int64) {
	if s := p.Spec.SecurityContext; s != nil {
		uid, gid = s.RunAsUser, s.RunAsGroup
	}
	if s := c.SecurityContext; s != nil {
		uid, gid = cmp.Or(s.RunAsUser, uid), cmp.Or(s.RunAsGroup, gid)
	}
	return uid, gid
}

func why(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
