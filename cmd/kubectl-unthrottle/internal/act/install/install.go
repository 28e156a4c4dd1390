// Package install answers: how do the agents get into a cluster, and out of it without a trace? In go options and an API server;
// the objects are the files next to it, which deploy/agent refers to, so they have one source. It applies them on the server's
// side, each as it should be regardless of what was there, so that another run completes one that broke off. It deletes what it
// finds by its labels and nothing else.
//
// It makes no choice about what an agent does: that is in the files.
package install

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Options say what is installed.
type Options struct {
	Namespace string
	Image     string // "": that of the files
	Rules     bool   // for Prometheus, as a ConfigMap, or as an object where there is its operator
	Dashboard bool   // for Grafana, as a ConfigMap
	NoEvents  bool   // agents write no events of pods, and may not
	Operator  bool   // Prometheus' operator is there: it finds the agents by a PodMonitor
	Programs  bool   // no agents: rules from what programs export, and the dashboard for these
}

// Namespace is where the agents are by default.
const Namespace = "unthrottle"

// What the objects are found by.
const (
	name     = "unthrottle-agent"
	selector = "app.kubernetes.io/part-of=unthrottle,app.kubernetes.io/name=" + name
)

// Enforce is the label of a namespace that says which pods it admits.
const Enforce = "pod-security.kubernetes.io/enforce"

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	image    = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$`)
)

// Check says what is wrong with options.
func (o *Options) Check() error {
	switch {
	case !dnsLabel.MatchString(o.Namespace):
		return fmt.Errorf("%q is not the name of a namespace", o.Namespace)
	case o.Programs && (o.Image != "" || !o.Rules):
		return errors.New("without agents there are rules, and no image")
	case o.Image != "" && !image.MatchString(o.Image):
		return fmt.Errorf("%q is not the name of an image", o.Image)
	}
	return nil
}

//go:embed base/*.yaml operator/*.yaml
var files embed.FS

// parts are the files of an installation, in the order in which they are applied.
func (o *Options) parts() []string {
	if o.Programs {
		parts := []string{"base/namespace.yaml", "base/programs.yaml"}
		if o.Operator {
			parts[1] = "operator/programs.yaml"
		}
		if o.Dashboard {
			parts = append(parts, "base/dashboard-programs.yaml")
		}
		return parts
	}
	parts := []string{"base/namespace.yaml", "base/rbac.yaml", "base/network.yaml"}
	if o.Rules && !o.Operator {
		parts = append(parts, "base/rules.yaml")
	}
	if o.Dashboard {
		parts = append(parts, "base/dashboard.yaml")
	}
	parts = append(parts, "base/agent.yaml")
	if o.Operator {
		parts = append(parts, "operator/scraper.yaml", "operator/podmonitor.yaml")
		if o.Rules {
			parts = append(parts, "operator/rules.yaml")
		}
	}
	return parts
}

// Objects are what is installed, in the order in which it is applied.
func Objects(o Options) (objects []*unstructured.Unstructured, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	for _, part := range o.parts() {
		file, err := files.Open(part)
		if err != nil {
			return nil, err
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", part, err)
			}
			if err := o.adapt(object); err != nil {
				return nil, fmt.Errorf("%s: %w", part, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// adapt makes an object of the files one of an installation.
func (o *Options) adapt(object *unstructured.Unstructured) error {
	switch kind := object.GetKind(); {
	case kind == "Namespace":
		object.SetName(o.Namespace)
	case object.GetNamespace() != "":
		object.SetNamespace(o.Namespace)
	}
	switch object.GetKind() {
	case "ClusterRole":
		if object.GetName() != name || !o.NoEvents {
			return nil
		}
		rules, _, err := unstructured.NestedSlice(object.Object, "rules")
		if err != nil {
			return err
		}
		rules = slices.DeleteFunc(rules, func(r any) bool {
			resources, _, _ := unstructured.NestedStringSlice(r.(map[string]any), "resources")
			return slices.Equal(resources, []string{"events"})
		})
		return unstructured.SetNestedSlice(object.Object, rules, "rules")
	case "Namespace":
		if o.Programs { // no pod of it needs what an agent does
			unstructured.RemoveNestedField(object.Object, "metadata", "labels", Enforce)
		}
	case "ClusterRoleBinding":
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		if err != nil {
			return err
		}
		for _, s := range subjects {
			s.(map[string]any)["namespace"] = o.Namespace
		}
		return unstructured.SetNestedSlice(object.Object, subjects, "subjects")
	case "DaemonSet":
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return err
		}
		agent := containers[0].(map[string]any)
		if o.Image != "" {
			agent["image"] = o.Image
		}
		if o.NoEvents {
			agent["args"] = append(agent["args"].([]any), "--events=false")
		}
		return unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")
	}
	return nil
}

// Write writes the objects as YAML.
func Write(w io.Writer, o Options) error {
	objects, err := Objects(o)
	if err != nil {
		return err
	}
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, object := range objects {
		if err := e.Encode(object.Object); err != nil {
			return err
		}
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// A kind is one of those that are installed.
type kind struct {
	schema.GroupVersionResource
	name       string
	namespaced bool
	extra      bool // it is there only if someone installed it
}

// kinds are in the order in which they are deleted: what runs comes first.
var kinds = []kind{
	{schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"}, "PrometheusRule", true, true},
	{schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "podmonitors"}, "PodMonitor", true, true},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, "DaemonSet", true, false},
	{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, "NetworkPolicy", true, false},
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true, false},
	{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", true, false},
	{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount", true, false},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, "Role", true, false},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, "ClusterRoleBinding", false, false},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", false, false},
	{schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}, "PriorityClass", false, false},
}

var (
	namespaces = kind{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false, false}
	podKind    = kind{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod", true, false}
	eventKind  = kind{schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true, false}
)

// kindOf is the kind of an object of the files.
func kindOf(object *unstructured.Unstructured) kind {
	for _, k := range append(kinds, namespaces) {
		if k.name == object.GetKind() {
			return k
		}
	}
	panic("install: an object of a kind that has no place: " + object.GetKind()) // TestObjects has them all
}

// called is an object as kubectl names it: daemonset.apps/unthrottle-agent.
func (k kind) called(name string) string {
	text := strings.ToLower(k.name)
	if k.Group != "" {
		text += "." + k.Group
	}
	return text + "/" + name
}
