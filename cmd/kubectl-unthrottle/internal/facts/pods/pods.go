// Package pods answers: which pod, owner and image is a container of this node? In goes what package podpath reads from a cgroup's
// path; out comes what the API server, or the kubelet, knows about the container with that ID.
//
// There are two sources. [Watch] asks the API server, which reports every change; [Kubelet] asks the kubelet of the node, and
// only when a container turns up that it does not know: for clusters in which no program on a node may list pods. Both keep only
// what a Container has of a pod, keep what they knew when they can't ask, and say so by Err.
package pods

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// A Source knows the containers of one node. Its methods may be called by several goroutines.
type Source interface {
	// Container finds a container of this node; ok is false where it is not known, or not yet.
	Container(ref podpath.Ref) (c Container, ok bool)
	// Err says why it knows nothing, or less than it should; nil: it is up to date.
	Err() error
}

// A Container is what Kubernetes says about one container.
type Container struct {
	Namespace, Pod, UID string
	Name                string
	Kind                Kind
	Owner               Owner  // a Deployment, not its ReplicaSet; a CronJob, not its Job; the Pod itself if it has none
	Image               string // as the spec names it
	Digest              string // sha256:…, "" if it is not known; see ParseImageID
	ID                  string // without runtime://
	Runtime             string // containerd, cri-o, docker
	Node                string
	Spec                Setting

	Limit, Request, PodLimit float64 // CPUs by the spec; 0: none
	Actual                   float64 // the limit that the kubelet has made true, CPUs; 0: it does not say

	Started  time.Time
	Resized  time.Time // when its CPU limit, or its pod's, was last changed in place; zero: never, as far as is known. The kubelet does not say
	Restarts int
	Muted    []string // rules that the annotation unthrottle.dev/mute names, or "all"
}

// Kind is what a container is for.
type Kind string

const (
	Main      Kind = "container"
	Init      Kind = "init"    // over before the others start
	Sidecar   Kind = "sidecar" // an init container with restartPolicy Always
	Ephemeral Kind = "ephemeral"
)

// A Setting is GOMAXPROCS in a pod's spec.
type Setting struct {
	Set   bool   // the spec names it
	Form  Form   // "": neither set, nor taken whole from somewhere
	Value string // of a literal
	Of    string // the container whose limit or request it is, if that is another one
}

// Form is how the spec gives it.
type Form string

const (
	Literal   Form = "literal"
	Limits    Form = "limits.cpu"
	Requests  Form = "requests.cpu"
	ConfigMap Form = "configMap"
	Secret    Form = "secret"
	Field     Form = "fieldRef"
	EnvFrom   Form = "envFrom" // Set is false: a ConfigMap or Secret that is taken whole may have it
)

// resizeSkew is how much later than a process's beginning a resize must be, as two clocks say when these were.
const resizeSkew = 5 * time.Second

// ResizedUnder reports whether the limit was changed in place while a process ran that began then.
func (c Container) ResizedUnder(began time.Time) bool {
	return !c.Resized.Before(began.Add(resizeSkew))
}

// Outdated is the limit, if the spec takes GOMAXPROCS from it and would give another number now than a process was started with; 0: it
// would not, or that is unknown. quota is that of the container's cgroup, CPUs: the API may not have heard yet, or a change may not be
// made yet. The divisor is not known: whichever it is, it gives one of the two numbers.
func (c Container) Outdated(procs int, quota float64) float64 {
	limit := cmp.Or(c.Actual, c.Limit)
	if c.Spec.Form != Limits || c.Spec.Of != "" || limit <= 0 || math.Abs(quota-limit) > 0.01*limit {
		return 0
	}
	if procs == int(math.Ceil(limit-1e-9)) || procs == int(math.Round(limit*1000)) {
		return 0
	}
	return limit
}

// Mutes reports whether a rule is among those that a pod mutes.
func Mutes(muted []string, rule string) bool {
	return slices.Contains(muted, rule) || slices.Contains(muted, "all")
}
