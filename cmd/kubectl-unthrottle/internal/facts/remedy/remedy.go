// Package remedy answers: what should be done about a variable of a container? A rule of package lint decides, fix writes it
// into manifests, and the webhook into pods. It is data; nothing is decided or written here.
package remedy

// Annotations of pods, which package manifest reads too.
const (
	// IgnoreKey, which may be a label as well, says what to leave alone: "all", or rules, with a reason after them in an annotation.
	IgnoreKey = "unthrottle.dev/ignore"
	// ChangedKey says what was changed in a pod that is not as its owner wrote it, and by which rule: "app: K001, proxy: K005".
	ChangedKey = "unthrottle.dev/changed"
)

// A Remedy is what to do about one variable.
type Remedy struct {
	Action   Action `json:"action"`
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value,omitempty"`    // Set: the value, unless Resource says it. Repair: the divisor
	Resource string `json:"resource,omitempty"` // Set: the value comes from this resource of the container, such as limits.cpu, with a divisor of 1
	// Only says for which programs it is right, where the program is not known: "a program built with Go 1.25 or later and such a
	// go line". Such a remedy is shown, and not applied. "" is right for all.
	Only string `json:"only,omitempty"`
	Why  string `json:"why"` // a clause: "Go ignores the value"
}

// An Action is a kind of remedy.
type Action string

const (
	Leave   Action = "leave"   // nothing in the manifest should be changed; Why says why not
	Remove  Action = "remove"  // take the variable out
	Set     Action = "set"     // set it, in place of what is there
	Repair  Action = "repair"  // set the divisor of its resourceFieldRef
	Rebuild Action = "rebuild" // build the program with a newer Go: nothing in the manifest should be changed
)

// Changes reports whether it changes a manifest, and is right for any program that runs there.
func (r Remedy) Changes() bool {
	return r.Only == "" && (r.Action == Remove || r.Action == Set || r.Action == Repair)
}

// String says it in words: "take GOMAXPROCS out".
func (r Remedy) String() string {
	switch r.Action {
	case Remove:
		return "take " + r.Variable + " out"
	case Set:
		if r.Resource != "" {
			return "take " + r.Variable + " from " + r.Resource
		}
		return "set " + r.Variable + " to " + r.Value
	case Repair:
		return "set the divisor of " + r.Variable + ` to "` + r.Value + `"`
	case Rebuild:
		return "build the program with a newer Go"
	}
	return "leave it as it is"
}
