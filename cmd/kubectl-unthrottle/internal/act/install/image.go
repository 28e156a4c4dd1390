package install

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// ImageBeside is the image of unthrottle next to that of the agents installed in a namespace: the same registry and the same tag. A
// cluster that has its own registry has both there. "": there are no agents, their image has another name, or the caller may not look.
func ImageBeside(ctx context.Context, c rest.Interface, namespace string) string {
	data, err := cluster.Raw(ctx, c.Get().AbsPath("/apis/apps/v1/namespaces/"+url.PathEscape(namespace)+"/daemonsets").
		Param("labelSelector", "app.kubernetes.io/name="+name).Param("limit", "1"))
	if err != nil {
		return ""
	}
	var list struct {
		Items []struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct{ Image string }
					}
				}
			}
		}
	}
	if json.Unmarshal(data, &list) != nil || len(list.Items) == 0 || len(list.Items[0].Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	return beside(list.Items[0].Spec.Template.Spec.Containers[0].Image, "kubectl-unthrottle", "unthrottle")
}

// AgentsBeside is the image of the agents next to one of unthrottle, or that image if it is the agents' own. "": its name is neither's.
func AgentsBeside(name string) string {
	const agents = "kubectl-unthrottle"
	return cmp.Or(beside(name, "unthrottle", agents), beside(name, agents, agents))
}

// beside is the image of a command next to that of another: the same registry and the same tag. A digest names only one image, so nothing
// is next to it.
func beside(given, of, wanted string) string {
	path, tag, tagged := given, "", false
	if i := strings.LastIndexByte(given, ':'); i > strings.LastIndexByte(given, '/') {
		path, tag, tagged = given[:i], given[i:], true
	}
	registry, ok := strings.CutSuffix(path, of)
	if !ok || registry != "" && !strings.HasSuffix(registry, "/") || strings.Contains(path, "@") || tagged && tag == ":" || !image.MatchString(given) {
		return ""
	}
	return registry + wanted + tag
}

// CheckImage says what is wrong with the name of an image.
func CheckImage(name string) error { return (&Options{Namespace: Namespace, Image: name}).Check() }
