// Package policy answers: how does an API server do on its own what lint says and fix does? In go options; out come admission
// policies of Kubernetes with their bindings, as YAML with comments, to apply with kubectl. Their expressions are in CEL, the
// API server's own language, so nothing of ours runs in the cluster.
//
// A policy decides nothing of its own: its expressions are rules of package lint and their remedies, to the extent that an API
// server can know them, and the tests check that on the same manifests. It knows no program, no node and no other object. What
// it leaves alone although lint would speak is listed in docs/policy.md.
package policy

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
)

// Options say what is generated. The zero value generates nothing; Default has the usual.
type Options struct {
	Name     string // of the objects, or what their names begin with
	Mutate   bool   // repair pods
	Validate bool   // say, or refuse, what lint would warn of
	API      API    // of what mutates
	Action   Action
	Inject   Inject

	ExemptNamespaces []string
	ExemptLabels     []Label // of the object or its pod template
	ExemptContainers []string
	Config           Config // a ConfigMap that says more about that while the policies are in place
	FailurePolicy    FailurePolicy
}

// Default are the options where nothing is asked for.
func Default() Options {
	return Options{
		Name: "unthrottle", Mutate: true, Validate: true, API: V1, Action: Warn, Inject: InjectNone,
		ExemptNamespaces: []string{"kube-system"}, FailurePolicy: Ignore,
	}
}

// API is the version of admissionregistration.k8s.io that a MutatingAdmissionPolicy is written in.
type API string

const (
	V1      API = "v1"      // Kubernetes 1.36 and later
	V1Beta1 API = "v1beta1" // 1.34 and later, where the API server is configured to serve it
)

// Action is what becomes of an object in which something is wrong.
type Action string

const (
	Warn  Action = "warn"  // its creator gets a warning
	Deny  Action = "deny"  // it is refused
	Audit Action = "audit" // it is written into the audit log
)

// verb is the API server's word.
func (a Action) verb() string { return strings.ToUpper(string(a[:1])) + string(a[1:]) }

// Inject says which containers without GOMAXPROCS get one: it is for programs that do not read their limit.
type Inject string

const (
	InjectNone     Inject = "none"
	InjectLabelled Inject = "labelled" // pods, or namespaces, with the label unthrottle.dev/inject
	InjectAll      Inject = "all"      // all but those with that label and the value false
)

// FailurePolicy is what becomes of an object when an expression fails.
type FailurePolicy string

const (
	Ignore FailurePolicy = "Ignore"
	Fail   FailurePolicy = "Fail"
)

// A Label is one that an object has. Value is "" for any.
type Label struct{ Key, Value string }

// A Config names a ConfigMap.
type Config struct{ Namespace, Name string }

var (
	name      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)                              // a DNS label
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`) // of objects
	labelName = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelText = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// Check says what the options can't mean. All that becomes part of an expression passes here: no name has a quote in it.
func (o *Options) Check() error {
	if len(o.Name) > 60 || !name.MatchString(o.Name) {
		return fmt.Errorf("%q is not a name for an object: lower-case letters, digits and -, 60 at most", o.Name)
	}
	for _, n := range o.ExemptNamespaces {
		if !name.MatchString(n) {
			return fmt.Errorf("%q is not the name of a namespace", n)
		}
	}
	for _, n := range o.ExemptContainers {
		if !name.MatchString(n) {
			return fmt.Errorf("%q is not the name of a container", n)
		}
	}
	for _, l := range o.ExemptLabels {
		if len(l.Key) > 317 || !labelName.MatchString(l.Key) || !labelText.MatchString(l.Value) {
			return fmt.Errorf("%q is not a label", l.Key+"="+l.Value)
		}
	}
	if c := o.Config; c != (Config{}) && (!name.MatchString(c.Namespace) || len(c.Name) > 253 || !subdomain.MatchString(c.Name)) {
		return fmt.Errorf("%q is not a ConfigMap in a namespace", c.Namespace+"/"+c.Name)
	}
	if !o.Mutate && !o.Validate {
		return fmt.Errorf("nothing is asked for")
	}
	return nil
}

//go:embed templates/*.yaml
var files embed.FS

// The delimiters are not CEL's.
var templates = template.Must(template.New("").Delims("<<", ">>").Funcs(template.FuncMap{
	"amount": amount, "templateOf": templateOf, "quoted": quoted, "indent": indent, "params": params, "text": text,
}).ParseFS(files, "templates/*.yaml"))

// Write writes the objects.
func Write(w io.Writer, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	o.ExemptNamespaces = slices.Compact(slices.Sorted(slices.Values(o.ExemptNamespaces)))
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, "policies.yaml", document{o}); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A document is what the templates ask.
type document struct{ Options }

func (d document) Configured() bool { return d.Config != Config{} }

// Injects reports whether a policy that injects is of any use: a ConfigMap may ask for it later.
func (d document) Injects() bool { return d.Mutate && (d.Inject != InjectNone || d.Configured()) }

// Actions are what the binding does.
func (d document) Actions() string { return "[" + d.Action.verb() + "]" }

// ResizeActions are the same where a running pod is resized: that is never refused, least of all to an autoscaler.
func (d document) ResizeActions() string {
	if d.Action == Deny {
		return "[Warn]"
	}
	return d.Actions()
}

func (d document) Ignored() string { return remedy.IgnoreKey }
func (d document) Asked() string   { return injectKey }
func (d document) Changed() string { return remedy.ChangedKey }
func (d document) Rules() []Rule   { return rules() }

// NotExempt is the match condition for the labels of the options, and for what says itself that it should be left alone.
func (d document) NotExempt(templates string) string { return notExempt(d.ExemptLabels, templates) }

// Full is the share of a memory limit from which on a GOMEMLIMIT leaves nothing of it.
func (d document) Full() string { return strconv.FormatFloat(choice.Full, 'f', -1, 64) }

// Others are the programs that are not Go programs, as an alternative of a regular expression.
func (d document) Others() string { return strings.Join(otherPrograms, "|") }
