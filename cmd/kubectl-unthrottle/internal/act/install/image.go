package install

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// ImageBeside is the image of unthrottle that lies beside that of the agents which are installed in a namespace: the same registry and
// the same tag. A cluster that has its own registry has both there. "": there are no agents, their image has another name, or who asks may
// not look.
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
	return beside(list.Items[0].Spec.Template.Spec.Containers[0].Image)
}

// beside is the image of unthrottle beside one of kubectl-unthrottle. A digest names one image alone, so there is none beside it.
func beside(agents string) string {
	path, tag, tagged := agents, "", false
	if i := strings.LastIndexByte(agents, ':'); i > strings.LastIndexByte(agents, '/') {
		path, tag, tagged = agents[:i], agents[i:], true
	}
	registry, ok := strings.CutSuffix(path, "kubectl-unthrottle")
	if !ok || registry != "" && !strings.HasSuffix(registry, "/") || strings.Contains(path, "@") || tagged && tag == ":" || !image.MatchString(agents) {
		return ""
	}
	return registry + "unthrottle" + tag
}

// CheckImage says what is wrong with the name of an image.
func CheckImage(name string) error { return (&Options{Namespace: Namespace, Image: name}).Check() }
