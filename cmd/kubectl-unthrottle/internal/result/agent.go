package result

import (
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// Agent is what the agent of a node tells: the document of the verb ps, and whose each process is.
type Agent struct {
	report.Header
	Node      string          `json:"node"`
	Seconds   float64         `json:"seconds"` // how long the processes were observed; 0: one reading only
	System    report.PsSystem `json:"system"`
	Looked    int             `json:"looked_at"` // processes of all kinds
	Refused   int             `json:"refused"`   // those that the agent may not inspect
	Processes []AgentProcess  `json:"processes"`
	Problems  []string        `json:"problems"` // what could not be seen, and what to do
}

// An AgentProcess is a Go program on a node.
type AgentProcess struct {
	report.PsProcess
	Container *AgentContainer `json:"container"`       // null: no container's
	Levels    []AgentLevel    `json:"levels"`          // that have a quota or count periods
	SetBy     string          `json:"gomaxprocs_from"` // spec, image-or-runtime, runtime, code, default, automaxprocs, unthrottle
	Stale     *AgentStale     `json:"stale"`           // null: it is not
	Started   time.Time       `json:"started"`
}

// An AgentContainer is a process's.
type AgentContainer struct {
	Namespace       string       `json:"namespace"`
	Pod             string       `json:"pod"`
	UID             string       `json:"uid"`
	Name            string       `json:"name"`
	Kind            string       `json:"kind"` // container, init, sidecar, ephemeral
	OwnerAPIVersion string       `json:"owner_api_version"`
	OwnerKind       string       `json:"owner_kind"`
	Owner           string       `json:"owner"`
	Image           string       `json:"image"`
	Digest          string       `json:"digest"`
	ID              string       `json:"id"`
	Runtime         string       `json:"runtime"`
	Restarts        int          `json:"restarts"`
	Limit           float64      `json:"limit_cpus"` // 0: none
	Request         float64      `json:"request_cpus"`
	PodLimit        float64      `json:"pod_limit_cpus"`
	Spec            AgentSetting `json:"spec_gomaxprocs"`
	Muted           []string     `json:"muted"` // rules, or all
}

// An AgentSetting is GOMAXPROCS as a pod's spec has it.
type AgentSetting struct {
	Set   bool   `json:"set"`
	Form  string `json:"form"`
	Value string `json:"value"` // of a literal
}

// An AgentLevel is a cgroup on the way up, and what was counted there meanwhile.
type AgentLevel struct {
	Level            string  `json:"level"` // container, pod, qos, kubepods, other
	Dir              string  `json:"dir"`
	Limit            float64 `json:"limit_cpus"` // 0: none
	Periods          int64   `json:"periods"`
	ThrottledPeriods int64   `json:"throttled_periods"`
	ThrottledSeconds float64 `json:"throttled_seconds"`
}

// An AgentStale says that GOMAXPROCS was fixed before the limit changed.
type AgentStale struct {
	Since     time.Time `json:"since"`
	LimitThen float64   `json:"limit_then"`
	LimitNow  float64   `json:"limit_now"`
	Why       string    `json:"why"`
}
