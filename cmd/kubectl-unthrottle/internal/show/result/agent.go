package result

import (
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
)

// Agent is what the agent of a node says about its Go programs: the document of ps, and whose each process is.
type Agent struct {
	report.Header
	Node      string          `json:"node"`
	Seconds   float64         `json:"seconds"` // how long the processes were observed; 0: one reading only
	System    report.PsSystem `json:"system"`
	Looked    int             `json:"looked_at"`       // processes of all kinds
	Refused   int             `json:"refused"`         // those that it may not inspect
	Odd       int             `json:"odd,omitempty"`   // those whose file is not one that Go's linker makes: not looked into
	Stuck     int             `json:"stuck,omitempty"` // those about which the kernel says nothing, as when a file system has stopped answering
	Processes []AgentProcess  `json:"processes"`
	Problems  []string        `json:"problems"` // what could not be seen, and what to do
}

// AgentProcess is a Go program, and the container that it is in.
type AgentProcess struct {
	report.PsProcess
	Container *AgentContainer `json:"container"` // null: it is in none
	Levels    []AgentLevel    `json:"levels"`    // that have a quota or count periods, its own group first
	SetBy     string          `json:"gomaxprocs_from"`
	Stale     *AgentStale     `json:"stale"`   // null: it is not
	Started   string          `json:"started"` // RFC 3339
}

// Where a GOMAXPROCS comes from, in AgentProcess.SetBy.
const (
	FromSpec           = "spec"
	FromEnvironment    = "environment"      // who put it there is not known
	FromImageOrRuntime = "image-or-runtime" // its environment has it and the pod's spec has not
	FromRuntime        = "runtime"          // the container runtime put it there
	FromCode           = "code"
	FromDefault        = "default"
	FromAutomaxprocs   = "automaxprocs"
	FromUnthrottle     = "unthrottle"
)

// SetInEnvironment says who put a GOMAXPROCS there. A container gets its variables from the pod's spec, which wins, from its image, and
// from what a runtime adds. What starts the program may change them after that. floor is that of what the container's runtime injects, 0
// if it injects nothing.
func SetInEnvironment(value string, c pods.Container, floor int) string {
	switch {
	case c.Spec.Form == pods.EnvFrom:
		return FromEnvironment
	case c.Spec.Set && (c.Spec.Form != pods.Literal || c.Spec.Value == value):
		return FromSpec
	case c.Spec.Set: // another value than the spec's: the program's own start script has changed it
		return FromImageOrRuntime
	case floor > 0 && c.Limit == 0 && value == injected(c.Request, floor):
		return FromRuntime
	}
	return FromImageOrRuntime
}

// injected is what CRI-O puts into a container without a limit: twice its request, and at least the floor.
func injected(request float64, floor int) string {
	return strconv.Itoa(max(int(math.Ceil(2*request-1e-9)), 1, floor))
}

// AgentContainer is what Kubernetes says about a process's container.
type AgentContainer struct {
	Namespace       string       `json:"namespace"`
	Pod             string       `json:"pod"`
	UID             string       `json:"uid"` // the pod's
	Name            string       `json:"name"`
	Kind            string       `json:"kind"` // container, init, sidecar or ephemeral
	OwnerAPIVersion string       `json:"owner_api_version"`
	OwnerKind       string       `json:"owner_kind"` // Deployment rather than ReplicaSet; Pod where it has no owner
	Owner           string       `json:"owner"`
	Image           string       `json:"image"`
	Digest          string       `json:"digest"` // "": not known
	ID              string       `json:"id"`
	Runtime         string       `json:"runtime"`
	Restarts        int          `json:"restarts"`
	Limit           float64      `json:"limit_cpus"` // by the spec; 0: none
	Request         float64      `json:"request_cpus"`
	PodLimit        float64      `json:"pod_limit_cpus"`
	Spec            AgentSetting `json:"spec_gomaxprocs"`
	Muted           []string     `json:"muted"` // rules that are muted
}

// AgentSetting is GOMAXPROCS in a pod's spec.
type AgentSetting struct {
	Set   bool   `json:"set"`
	Form  string `json:"form"`  // literal, limits.cpu, requests.cpu, configMap, secret, fieldRef; envFrom: a source may have it
	Value string `json:"value"` // of a literal
}

// AgentLevel is a cgroup on the way up, and what it counted meanwhile.
type AgentLevel struct {
	Level            string   `json:"level"` // container, pod, qos, kubepods or other
	Dir              string   `json:"dir"`
	Limit            *float64 `json:"limit_cpus"` // null: none
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	ThrottledSeconds float64  `json:"throttled_seconds"`
}

// AgentStale says that GOMAXPROCS was fixed before the limit changed.
type AgentStale struct {
	Since string   `json:"since"`      // RFC 3339
	Then  *float64 `json:"limit_then"` // CPUs; null: none
	Now   *float64 `json:"limit_now"`
	Why   string   `json:"why"`
}
