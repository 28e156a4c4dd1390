// Package workload answers: what does a manifest say about a program's CPU? It holds facts and no opinions: package manifest
// reads them from files, package cluster from live objects; rules, fixes and predictions use them and never see YAML.
//
// What a manifest leaves open is unknown here too, never a guess: a template that was not rendered, a value from a
// ConfigMap that is not among the files, a variable that the image may set.
package workload

// A Workload is an object that makes pods: a Deployment, a CronJob, a bare Pod, a custom resource with a pod template.
type Workload struct {
	APIVersion, Kind, Namespace, Name string

	At          Position // of the object
	Labels      map[string]string
	Annotations map[string]string // the object's own
	Ignore      []Ignore          // comments that take a finding back: # unthrottle:ignore K004 reason
	Owner       string            // "Deployment/api" for a live object that another made; "" else
	Made        *Made             // what it was rendered from; nil for what is in a file, or is live
	Copies      int               // pods of a live object that are as it says, or like this one; 0 for a file
	Pod         Pod
	Around      Around
}

// Position is where something is. In a live object File is "" and Path says it: spec.template.spec.containers[0].env[1].
type Position struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Path     string `json:"path"`     // inside its document
	Document int    `json:"document"` // of its file, from 0
	Offset   int    `json:"-"`        // its first byte in the file
	End      int    `json:"-"`        // the one after its last
	EndLine  int    `json:"-"`        // the line of its last byte
	Shared   bool   `json:"-"`        // it is behind an alias or a merge key, so that other places of the document mean the same text
}

// A Pod is what a pod template says.
type Pod struct {
	At           Position
	Labels       map[string]string
	Annotations  map[string]string
	Limit        Amount // pod-level CPU limit (spec.resources)
	Request      Amount
	LimitAt      Position
	Containers   []Container // in the order of the manifest: init containers and sidecars first
	Node         string      // spec.nodeName, where it is set
	RuntimeClass string
	Partial      bool // a container has no image: a patch, or a custom resource whose operator completes it
}

// A Role is what a container is for.
type Role string

const (
	Main    Role = "container"
	Init    Role = "init container" // over before the others start
	Sidecar Role = "sidecar"        // an init container with restartPolicy Always
)

// A Container is one container of a pod template.
type Container struct {
	Name, Image   string
	Role          Role
	At            Position
	Limit         Amount // resources.limits.cpu
	LimitAt       Position
	Request       Amount // resources.requests.cpu; as the API server defaults it: the limit, where only that is given
	Memory        Amount // resources.limits.memory, bytes
	MemoryRequest Amount
	Resize        Resize // resizePolicy of cpu
	ResizeAt      Position
	MemoryResize  Resize     // resizePolicy of memory
	Env           []Variable // GOMAXPROCS, GODEBUG, GOMEMLIMIT, GOGC and what they refer to by $(VAR); later ones win, as in a pod
	Referred      []string   // GOMAXPROCS and the like, if variables other than those of Env refer to them
	// MemoryVariable says that another variable than these has limits.memory: the program may set a limit of its own by it.
	MemoryVariable bool

	EnvFrom       []Source // all ConfigMaps and Secrets that are taken whole
	EnvUnknown    string   // why there may be more variables than these: a template in their place that was not rendered
	Command, Args []string

	Advice []Advice // what tools would make of its CPU
}

// An Advice is the CPU that a tool would give a container, by what it used.
type Advice struct {
	By      string // "VerticalPodAutoscaler api"
	How     string // how its limit comes about, in a few words
	Limit   Amount // Absent: it would take the limit away
	Request Amount // Absent: it leaves the request unchanged
	Does    bool   // it makes that change itself; else it is for people to take over
}

// An Amount is a quantity that may be absent or unknown. CPUs are in CPUs, memory in bytes.
type Amount struct {
	Value   float64
	Text    string // as written: "500m"
	State   State
	Unknown string // why it is not known: "{{ .Values.cpu }} is a template that was not rendered"
}

// State says what is known about a value.
type State uint8

const (
	Absent  State = iota // the manifest does not have it
	Known                // its value is known
	Unknown              // it is there, or may be, and the manifest does not say its value
)

// Resize is what a container's resizePolicy says about a resource.
type Resize string

const (
	ResizeUnset   Resize = ""                 // as NotRequired
	ResizeInPlace Resize = "NotRequired"      // the limit changes, the process goes on
	ResizeRestart Resize = "RestartContainer" // the container starts again, and its environment is recreated
)

// A Variable is a variable of a container's environment.
type Variable struct {
	Name    string
	At      Position // of the list's entry
	ValueAt Position // of its value or valueFrom
	Form    Form
	Text    string // Literal: as written; else what it refers to, in a few words: "limits.cpu", "ConfigMap tuning, key procs"
	Value   string // what the program will see, if State is Known
	State   State
	Unknown string // why it is not known

	Resource  string // ResourceRef: "limits.cpu", "requests.cpu", …
	Container string // ResourceRef: containerName, "" for the container itself
	Divisor   string // ResourceRef: as written, "" where it is missing
	DivisorAt Position
}

// Form is how a variable gets its value.
type Form string

const (
	Literal     Form = "literal"
	ResourceRef Form = "resourceFieldRef"
	FieldRef    Form = "fieldRef"
	ConfigMap   Form = "configMapKeyRef"
	Secret      Form = "secretKeyRef"
	FromWhole   Form = "envFrom" // from a ConfigMap or Secret that is taken whole
)

// A Source is a ConfigMap or Secret whose keys all become variables.
type Source struct {
	Kind, Name, Prefix string
	Optional           bool
	At                 Position
	Known              bool // it is among what was read; then its variables are in Env
}

// Around is what other objects, read together with it, say about a workload.
type Around struct {
	VPA            *VPA
	Boost          string // name of a StartupCPUBoost that selects it
	LimitMax       Amount // LimitRange: the largest CPU limit of a container in its namespace
	Default        Amount // LimitRange: default CPU limit
	DefaultRequest Amount
	Quota          bool // a ResourceQuota asks for CPU limits
}

// A VPA is a VerticalPodAutoscaler that targets a workload.
type VPA struct {
	Name      string
	Mode      string // updateMode: Off, Initial, Recreate, InPlaceOrRecreate, InPlace, Auto
	At        Position
	Boost     bool            // startupBoost is set
	Off       map[string]bool // containers for which it is off
	LimitsToo bool            // controlledValues RequestsAndLimits, the default, for a container that is not off
	LimitsOff map[string]bool // containers that are not off, and whose limits it leaves unchanged
}

// An Ignore is a comment that takes findings back.
type Ignore struct {
	Rules    []string
	Reason   string
	At       Position
	From, To int // lines that it holds for
}
