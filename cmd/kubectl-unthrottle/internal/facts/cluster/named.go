package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
)

// A Resource is a kind of objects with pods, as people name it on a command line.
type Resource struct {
	Group, Version, Plural string
	Selects                bool // its objects say by spec.selector which pods are theirs

	names []string // singular and short ones
}

// named are the kinds that have pods or make them. All that know one by its name ask here.
var named = []Resource{
	{"", "v1", "pods", false, []string{"pod", "po"}},
	{"apps", "v1", "deployments", true, []string{"deployment", "deploy"}},
	{"apps", "v1", "statefulsets", true, []string{"statefulset", "sts"}},
	{"apps", "v1", "daemonsets", true, []string{"daemonset", "ds"}},
	{"apps", "v1", "replicasets", true, []string{"replicaset", "rs"}},
	{"batch", "v1", "jobs", true, []string{"job"}},
	{"batch", "v1", "cronjobs", false, []string{"cronjob", "cj"}},
}

// Named reads what kubectl reads: deployment/api, deploy/api, deployments.apps/api, deployments.v1.apps/api. ok is false if it isn't
// one of the kinds with pods, or not a name.
func Named(text string) (r Resource, name string, ok bool) {
	kind, name, _ := strings.Cut(text, "/")
	kind, group, grouped := strings.Cut(strings.ToLower(kind), ".")
	i := slices.IndexFunc(named, func(r Resource) bool {
		return (r.Plural == kind || slices.Contains(r.names, kind)) && (!grouped || group == r.Group && group != "" || group == r.Version+"."+r.Group)
	})
	if i < 0 || name == "" || strings.ContainsAny(name, "/?%") {
		return Resource{}, "", false
	}
	return named[i], name, true
}

// Path is where its objects of a namespace are.
func (r Resource) Path(namespace string) string {
	api := "/api/" + r.Version
	if r.Group != "" {
		api = "/apis/" + r.Group + "/" + r.Version
	}
	return api + "/namespaces/" + namespace + "/" + r.Plural
}

// mostNames is how many names a shell is offered.
const mostNames = 500

// Names are those that a shell offers where a pod is named: of pods, or, once a kind is typed as in deployment/, of its objects.
func Names(ctx context.Context, o Options, typed string) ([]string, error) {
	kind, before := Resource{Version: "v1", Plural: "pods"}, ""
	if i := strings.IndexByte(typed, '/'); i >= 0 {
		var ok bool
		if kind, _, ok = Named(typed[:i] + "/x"); !ok {
			return nil, nil
		}
		before = typed[:i+1]
	}
	return namesAt(ctx, o, func(p Place) string { return kind.Path(p.Namespace) }, before, typed)
}

// Namespaces are those that a shell offers.
func Namespaces(ctx context.Context, o Options, typed string) ([]string, error) {
	return namesAt(ctx, o, func(Place) string { return "/api/v1/namespaces" }, "", typed)
}

// namesAt are those of the objects at a path that begin as is typed.
func namesAt(ctx context.Context, o Options, path func(Place) string, before, typed string) (found []string, err error) {
	place, client, err := Connect(o)
	if err != nil {
		return nil, err
	}
	r := client.Get().AbsPath(path(place)).Param("limit", strconv.Itoa(mostNames)).SetHeader("Accept", asMetadata)
	data, err := Raw(ctx, r)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		if name := before + plain.Line(item.Name); strings.HasPrefix(name, typed) {
			found = append(found, name)
		}
	}
	return found, nil
}
