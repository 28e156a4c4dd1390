package podtrial

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
)

// A Pod is what counts of a pod's state. Its amounts are texts: a resource.Quantity takes minutes to parse 7e-77777771, and a server may
// answer anything.
type Pod struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		NodeName   string
		Init       []Container `json:"initContainers"`
		Containers []Container
	}
	Status struct {
		Phase                  corev1.PodPhase
		Reason, Message, PodIP string
		Conditions             []corev1.PodCondition
		Init                   []Status `json:"initContainerStatuses"`
		Containers             []Status `json:"containerStatuses"`
	}
}

// A Container is what counts of one in a pod's spec.
type Container struct {
	Name      string
	Resources struct{ Limits map[string]any }
}

// A Status is that of a container.
type Status struct {
	Name, Image, ContainerID string
	State                    corev1.ContainerState
}

// A Trouble is neither the program's fault nor a setting's: going on with the next run would come to the same, or make a
// setting look bad for what the cluster did.
type Trouble struct {
	Why   string
	Later bool // the same may work later, without anything being changed
}

func (t *Trouble) Error() string { return t.Why }

// trouble is an error with what to do about it.
func trouble(later bool, next, format string, args ...any) error {
	err := &Trouble{Why: fmt.Sprintf(format, args...), Later: later}
	if next == "" {
		return err
	}
	return hint.With(err, next)
}

// condition is a pod's; nil: it does not hold.
func (p *Pod) condition(kind corev1.PodConditionType, status corev1.ConditionStatus) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == status {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func status(all []Status, name string) *Status {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// ContainerID is a container's, without the runtime's name before it; "": it does not run yet.
func (p *Pod) ContainerID(name string) string {
	if s := status(p.Status.Containers, name); s != nil {
		return s.id()
	}
	return ""
}

func (s Status) id() string {
	_, id, _ := strings.Cut(s.ContainerID, "://")
	return id
}

// sidecars are the IDs of a pod's containers other than one, and than the meter.
func (p *Pod) sidecars(name string) (ids []string) {
	for _, s := range slices.Concat(p.Status.Init, p.Status.Containers) { // they may be of either kind
		if s.Name != name && s.Name != meterName {
			ids = append(ids, s.id())
		}
	}
	return ids
}

// Ready reports whether a pod is, in all of its containers.
func (p *Pod) Ready() bool {
	return p.condition("Ready", "True") != nil && p.Metadata.DeletionTimestamp == nil
}

// Waiting is what a pod waits for that is not ready, in a few words.
func (p *Pod) Waiting() string {
	if c := p.condition("PodScheduled", "False"); c != nil {
		return "no node has room for it yet: " + c.Message
	}
	for _, s := range append(append([]Status{}, p.Status.Init...), p.Status.Containers...) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s: %s", s.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
		}
	}
	for _, s := range p.Status.Init {
		if s.State.Terminated == nil {
			return "its init container " + s.Name + " is at work"
		}
	}
	if p.Status.Phase == "Running" {
		return "its readiness probe does not succeed yet"
	}
	return "its containers are being made"
}

// hopeless are states of waiting that don't pass on their own, or not in a time that anyone waits for.
var hopeless = map[string]string{
	"ErrImagePull":               "is the name right, and may the node pull it? imagePullSecrets of the pod are taken along, those of its service account are not",
	"ImagePullBackOff":           "is the name right, and may the node pull it? imagePullSecrets of the pod are taken along, those of its service account are not",
	"InvalidImageName":           "the name of an image is such as registry.example.com/team/server:1.2",
	"ErrImageNeverPull":          "its imagePullPolicy is Never, so the node must have it already",
	"RegistryUnavailable":        "try again when the registry can be reached",
	"CreateContainerConfigError": "something that the manifest refers to is missing, or not as it should be",
	"CreateContainerError":       "the container runtime on the node refuses it",
	"RunContainerError":          "the container runtime on the node refuses it; is its command right?",
}

// A Fault is what a container of the user's did itself. It says nothing of what the container wrote.
type Fault struct {
	Container string
	Err       *service.Error
}

func (f *Fault) Error() string { return f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

func fault(container string, killed bool, format string, args ...any) *Fault {
	return &Fault{container, &service.Error{Why: fmt.Sprintf(format, args...), Killed: killed, Apart: true}}
}

// ended is the fault of a container that has ended. What it said as it ended is what it wrote, or the last of its log: only a runtime that
// could not start it says something of its own.
func (p *Pod) ended(container, as string, e *corev1.ContainerStateTerminated) *Fault {
	if e.Reason == "OOMKilled" {
		return fault(container, true, "%s", p.outOfMemory(container))
	}
	return fault(container, false, as, container, how(e))
}

// outOfMemory says so of a container, with its limit as the pod's spec has it, and with its name where there are others.
func (p *Pod) outOfMemory(container string) string {
	text, others := runner.OutOfMemory, false
	for _, c := range slices.Concat(p.Spec.Init, p.Spec.Containers) {
		if limit, ok := c.Resources.Limits["memory"]; ok && c.Name == container {
			text += fmt.Sprintf(": limit %v", limit)
		}
		others = others || c.Name != container && c.Name != meterName
	}
	if others {
		text += ", in container " + container
	}
	return text
}

// Judge is why a pod can't go on, or nil. What its containers did themselves is a *Fault; all else is a *Trouble.
func (p *Pod) Judge() error {
	if err := p.taken(); err != nil {
		return err
	}
	for _, s := range append(append([]Status{}, p.Status.Init...), p.Status.Containers...) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		next, is := hopeless[w.Reason]
		if !is {
			continue
		}
		if strings.Contains(w.Reason, "Image") || w.Reason == "RegistryUnavailable" {
			return trouble(w.Reason == "RegistryUnavailable", next, "image %s of container %s can't be had: %s", s.Image, s.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
		}
		return trouble(false, next, "container %s can't be started: %s", s.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
	}
	for _, s := range p.Status.Init {
		if e := s.State.Terminated; e != nil && e.ExitCode != 0 {
			return p.ended(s.Name, "its init container %s failed: %s", e)
		}
	}
	for _, s := range p.Status.Containers {
		e := s.State.Terminated
		switch {
		case e == nil:
		case s.Name == meterName:
			return trouble(false, "", "the meter of the server's CPU time has ended: %s", how(e))
		case e.Reason == "ContainerStatusUnknown":
			return trouble(true, "", "the node lost sight of container %s", s.Name)
		default:
			return p.ended(s.Name, "container %s ended: %s", e)
		}
	}
	if p.Status.Phase == "Failed" {
		return trouble(true, "", "the pod failed: %s", strings.TrimPrefix(strings.TrimSuffix(p.Status.Reason+": "+p.Status.Message, ": "), ": "))
	}
	return nil
}

// taken is why something else removed a pod.
func (p *Pod) taken() error {
	if c := p.condition("DisruptionTarget", "True"); c != nil {
		switch c.Reason {
		case "PreemptionByScheduler":
			return trouble(true, "trials have the default priority; try when there is more room, or on another node with --node",
				"the pod had to make room on node %s for one of a higher priority", p.Spec.NodeName)
		case "DeletionByTaintManager":
			return trouble(true, "kubectl describe node "+p.Spec.NodeName, "node %s was lost: %s", p.Spec.NodeName, c.Message)
		case "EvictionByEvictionAPI":
			return trouble(true, "is node "+p.Spec.NodeName+" being drained? --node names another", "pod %s was evicted from node %s: %s", p.Metadata.Name, p.Spec.NodeName, c.Message)
		case "TerminationByKubelet":
			return trouble(true, "kubectl describe node "+p.Spec.NodeName, "node %s ended the pod: %s", p.Spec.NodeName, c.Message)
		}
		return trouble(true, "", "the pod was taken away: %s: %s", c.Reason, c.Message)
	}
	switch p.Status.Reason {
	case "Evicted":
		return trouble(true, "kubectl describe node "+p.Spec.NodeName, "node %s evicted pod %s: %s", p.Spec.NodeName, p.Metadata.Name, p.Status.Message)
	case "NodeLost":
		return trouble(true, "kubectl describe node "+p.Spec.NodeName, "node %s was lost", p.Spec.NodeName)
	case "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage":
		return trouble(true, "--node names another node", "node %s has no room for the pod: %s", p.Spec.NodeName, p.Status.Message)
	case "DeadlineExceeded":
		return trouble(true, "", "the pod was there for longer than a run may take")
	}
	if p.silent() {
		return trouble(true, "kubectl describe node "+p.Spec.NodeName, "node %s does not report any more", p.Spec.NodeName)
	}
	if p.Metadata.DeletionTimestamp != nil {
		return trouble(true, "", "pod %s was deleted", p.Metadata.Name)
	}
	return nil
}

// silent reports whether the pod's node no longer reports. The node's controller then takes Ready from its pods and leaves
// ContainersReady unchanged; a kubelet always sets both alike, as trials have no readiness gates.
func (p *Pod) silent() bool {
	return p.condition("Ready", "Unknown") != nil || p.condition("Ready", "False") != nil && p.condition("ContainersReady", "True") != nil
}

// how says how a container has ended.
func how(e *corev1.ContainerStateTerminated) string {
	switch {
	case e.Signal != 0:
		return fmt.Sprintf("ended by signal %d", e.Signal)
	case e.ExitCode == 137:
		return "it was killed, as by a liveness probe that failed"
	case e.Reason == "StartError" || e.Reason == "ContainerCannotRun":
		return strings.TrimSuffix("it could not be started: "+strings.Join(strings.Fields(e.Message), " "), ": ")
	}
	return fmt.Sprintf("exit code %d", e.ExitCode)
}

// Unscheduled is the trouble of a pod that no node has had room for, for so long.
func (p *Pod) Unscheduled(after time.Duration) error {
	c := p.condition("PodScheduled", "False")
	if c == nil {
		return nil
	}
	return trouble(true, "less --cpus, or another --node; the scheduler's words are in kubectl describe pod",
		"no node took the pod within %s: %s", quantity.Lasting(after.Round(time.Second).Seconds()), c.Message)
}

// NoPod is why a Job's controller makes no pod of it, by its events; nil: they don't say.
func NoPod(events []corev1.Event) error {
	for _, event := range events {
		if event.Reason != "FailedCreate" || passes(event.Message) {
			continue
		}
		_, why, found := strings.Cut(event.Message, " is forbidden: ")
		if !found {
			why = event.Message
		}
		next := ""
		switch {
		case strings.Contains(why, "exceeded quota"), strings.Contains(why, "failed quota"):
			return trouble(true, "kubectl describe quota shows what is used; less --cpus, or --in NAME for trials in another one", "the quota has no room for a trial: %s", why)
		case strings.Contains(why, "violates PodSecurity"):
			next = "the trials' namespace has the Pod Security level of the workload's: a copy of the pod that conforms, by -f, or --in NAME for trials in another one"
		case strings.Contains(why, "maximum cpu"), strings.Contains(why, "minimum cpu"):
			next = "the LimitRange of the namespace is kept to: another --cpus"
		}
		return trouble(false, next, "no pod may be made for a trial: %s", why)
	}
	return nil
}

// passes reports whether an event is one of the first moments of a namespace: its account and the use of its quota are not there yet.
func passes(message string) bool {
	return strings.Contains(message, "error looking up service account") || strings.Contains(message, "status unknown for quota")
}
