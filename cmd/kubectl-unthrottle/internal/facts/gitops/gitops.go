// Package gitops answers: which object makes a live one from Git, and from where in Git? In go an object's labels and annotations, and
// what an API server says about the Application of Argo CD, or the Kustomization of Flux, that they name. Out come that owner and the
// repository, the path and the revision that it takes its manifests from.
//
// Anyone who writes an object writes its labels, so they may name an owner that has nothing to do with it. A repository is named only
// where the owner itself lists the object among those it made. Nothing is read from Git.
package gitops

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// What makes objects from Git.
const (
	ArgoCD = "Argo CD"
	Flux   = "Flux"
)

// Kinds of owners.
const (
	application   = "Application"
	kustomization = "Kustomization"
	helmRelease   = "HelmRelease"
)

// An Owner makes objects from Git.
type Owner struct {
	Tool      string `json:"tool"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // "": the labels do not say
	Name      string `json:"name"`

	// Where it takes the object from; "": it could not be asked, or does not say that it has made the object.
	Repository string `json:"repository,omitempty"`
	Path       string `json:"path,omitempty"`
	Chart      string `json:"chart,omitempty"` // in place of a path
	Revision   string `json:"revision,omitempty"`
}

// String is how it is called.
func (o *Owner) String() string {
	text := o.Tool + "'s " + o.Kind + " " + o.Name
	if o.Namespace != "" {
		text += " in " + o.Namespace
	}
	return text
}

// Advice says where a change belongs, and why not into the cluster.
func (o *Owner) Advice() string {
	const reverts = " reverts what is changed in the cluster alone"
	at := ""
	if o.Path != "" {
		at = ", path " + o.Path
	}
	if o.Revision != "" {
		at += ", revision " + o.Revision
	}
	switch {
	case o.Kind == helmRelease:
		return "change the values of " + o.String() + ", which" + reverts
	case o.Chart != "":
		return "change the values of chart " + o.Chart + " in " + o.String() + ", which" + reverts
	case o.Repository != "":
		return "commit it to " + o.Repository + at + ": " + o.String() + reverts
	}
	return "commit it where " + o.String() + " takes the object from, which" + reverts
}

// Labels and annotations.
const (
	tracking      = "argocd.argoproj.io/tracking-id"
	argoInstance  = "argocd.argoproj.io/instance"
	instance      = "app.kubernetes.io/instance"
	managedBy     = "app.kubernetes.io/managed-by"
	kustomizeName = "kustomize.toolkit.fluxcd.io/name"
	kustomizeIn   = "kustomize.toolkit.fluxcd.io/namespace"
	helmName      = "helm.toolkit.fluxcd.io/name"
	helmIn        = "helm.toolkit.fluxcd.io/namespace"
)

// argos are what Argo CD's managed-by may be called.
var argos = map[string]bool{"argocd": true, "argo-cd": true, "ArgoCD": true}

// Of is the owner that an object's labels and annotations name; nil: they name none.
func Of(w *workload.Workload) *Owner {
	if app, ok := tracked(w); ok {
		namespace := ""
		if in, name, both := strings.Cut(app, "_"); both { // an Application outside of Argo CD's own namespace
			namespace, app = in, name
		}
		return owner(ArgoCD, application, namespace, app)
	}
	if o := owner(ArgoCD, application, "", w.Labels[argoInstance]); o != nil {
		return o
	}
	if argos[w.Labels[managedBy]] {
		if o := owner(ArgoCD, application, "", w.Labels[instance]); o != nil {
			return o
		}
	}
	if o := owner(Flux, kustomization, w.Labels[kustomizeIn], w.Labels[kustomizeName]); o != nil {
		return o
	}
	return owner(Flux, helmRelease, w.Labels[helmIn], w.Labels[helmName])
}

// tracked is the Application of an annotation such as shop:apps/Deployment:shop/api. Controllers copy annotations to what they make, so
// one that speaks of another object says nothing of this one.
func tracked(w *workload.Workload) (app string, ok bool) {
	app, object, ok := strings.Cut(w.Annotations[tracking], ":")
	return app, ok && object == group(w)+"/"+w.Kind+":"+w.Namespace+"/"+w.Name
}

// group is that of an object's API; "" for the core one.
func group(w *workload.Workload) string {
	g, _, ok := strings.Cut(w.APIVersion, "/")
	if !ok {
		return ""
	}
	return g
}

// names are those that Kubernetes takes for objects.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

const mostName = 253

func owner(tool, kind, namespace, name string) *Owner {
	for _, n := range []string{name, cmp.Or(namespace, "default")} {
		if len(n) > mostName || !names.MatchString(n) {
			return nil
		}
	}
	return &Owner{Tool: tool, Kind: kind, Namespace: namespace, Name: name}
}
