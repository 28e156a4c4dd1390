package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // kubeconfigs name it; credential plugins that are programs need no import
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A client asks one API server.
type client struct {
	rest      rest.Interface
	host      string
	context   string // "" inside of a cluster
	namespace string // "": all
	selector  labels.Selector
	options   Options
}

// connect reads what kubectl would read, in its order. It asks nothing yet.
func connect(o Options, changes ...func(*rest.Config)) (*client, error) {
	selector, err := labels.Parse(o.Selector)
	if err != nil {
		return nil, hint.Usage("-l app=api, or -l 'app in (api,web)'", "--selector %s: %v", o.Selector, err)
	}
	place, err := Locate(o)
	if err != nil {
		return nil, err
	}
	c := &client{host: place.Config.Host, context: place.Context, selector: selector, options: o}
	if !o.AllNamespaces {
		c.namespace = place.Namespace
	}
	for _, change := range changes {
		change(place.Config)
	}
	if c.rest, err = place.Client(); err != nil {
		return nil, err
	}
	return c, nil
}

func noContext(name string, names []string) error {
	next := "there are " + strings.Join(names, ", ")
	if len(names) == 0 {
		next = "there is none at all: --kubeconfig FILE or KUBECONFIG says where they are"
	}
	return hint.With(fmt.Errorf("there is no context %s", name), next)
}

// unusable explains why there is no server to ask.
func unusable(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return hint.With(errors.New("no cluster is configured"),
			"--kubeconfig FILE, KUBECONFIG or ~/.kube/config says which; inside of a cluster a service account does")
	}
	return hint.With(fmt.Errorf("reading the kubeconfig: %w", err), "kubectl config view shows what is read, and --kubeconfig FILE names another")
}

// get asks for a path.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	return raw(ctx, c.rest.Get().AbsPath(path))
}

// raw is the answer to a request, or the server's own error.
func raw(ctx context.Context, r *rest.Request) ([]byte, error) {
	return Raw(ctx, r.MaxRetries(mostRetries))
}

// Raw is the answer to a request, or the server's own error. An answer that was not read to its end is only an error: client-go would
// also log it.
func Raw(ctx context.Context, r *rest.Request) ([]byte, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// mostRetries is how often a request is made again, where the connection broke or the server asks for patience.
const mostRetries = 5

// groups are the API groups of the server with their preferred versions.
func (c *client) groups(ctx context.Context) (map[string]string, error) {
	data, err := c.get(ctx, "/apis")
	if err != nil {
		return nil, err
	}
	var list metav1.APIGroupList
	if err := json.Unmarshal(data, &list); err != nil || list.Kind != "APIGroupList" {
		return nil, errNotAPIServer
	}
	versions := map[string]string{}
	for _, g := range list.Groups {
		versions[g.Name] = g.PreferredVersion.Version
	}
	return versions, nil
}

// asMetadata asks for what all objects have, and nothing else.
const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// page asks for some objects of a kind.
func (c *client) page(ctx context.Context, k kind, next string) ([]byte, error) {
	path := "/apis/" + k.group + "/" + k.version
	if k.group == "" {
		path = "/api/" + k.version
	}
	if c.namespace != "" {
		path += "/namespaces/" + url.PathEscape(c.namespace)
	}
	r := c.rest.Get().AbsPath(path+"/"+k.plural).Param("limit", strconv.Itoa(c.options.Page))
	if next != "" {
		r.Param("continue", next)
	}
	if c.options.Selector != "" && (k.use == makes || k.use == runs) && k.name != "ReplicaSet" {
		r.Param("labelSelector", c.options.Selector)
	}
	if k.use == runs {
		r.Param("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed") // what is over needs no advice
	}
	if k.use == link {
		r.SetHeader("Accept", asMetadata)
	}
	return raw(ctx, r)
}
