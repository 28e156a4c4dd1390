// Package pods answers: which pod, owner and image is a container of this node? In goes what package podpath reads from a cgroup's
// path; out comes what the API server, or the kubelet, knows of the container with that ID.
//
// There are two sources. [Watch] asks the API server, which is told of every change; [Kubelet] asks the kubelet of the node, and
// only when a container turns up that it does not know: for clusters in which nobody on a node may list pods. Both keep of a pod
// what a Container has and nothing else, keep what they knew where they can't ask, and say so by Err.
package pods

import (
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

// A Container is what Kubernetes says of one container.
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

// An Owner is what made a pod.
type Owner struct{ APIVersion, Kind, Name string }

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
