package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/permit"
)

// A Place is where a kubeconfig leads to.
type Place struct {
	Config    *rest.Config // for a client that speaks JSON
	Context   string       // "" inside of a cluster
	Namespace string
}

// Overrides are what takes the place of what a kubeconfig says.
type Overrides = clientcmd.ConfigOverrides

// Bind adds the flags of kubectl options that say which server is asked and as whom, by client-go's own names. The context, the
// namespace and the time for an answer have flags of their own, and kubectl has none for the rest that is left out.
func (o *Options) Bind(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	as, at, in := &names.AuthOverrideFlags, &names.ClusterOverrideFlags, &names.ContextOverrideFlags
	for _, f := range []*clientcmd.FlagInfo{&names.CurrentContext, &names.Timeout, &in.Namespace, &as.Username, &as.Password, &at.ProxyURL} {
		*f = clientcmd.FlagInfo{} // none
	}
	at.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&o.Instead, flags, names)
}

// Contexts are the names of those in the kubeconfig.
func Contexts(o Options) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// Locate reads what kubectl would read, in its order. It asks nothing yet.
func Locate(o Options) (p Place, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	o.Instead.CurrentContext, o.Instead.Context.Namespace = o.Context, o.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.Instead)
	raw, rawErr := loader.RawConfig()
	if rawErr == nil && o.Context != "" && raw.Contexts[o.Context] == nil {
		return p, noContext(o.Context, slices.Sorted(maps.Keys(raw.Contexts)))
	}
	if p.Config, err = loader.ClientConfig(); err != nil {
		return p, unusable(err)
	}
	if p.Context = o.Context; rawErr == nil && p.Context == "" {
		p.Context = raw.CurrentContext
	}
	if p.Context == "" && o.Instead.ClusterInfo.Server != "" {
		p.Context = "--server"
	}
	if p.Namespace, _, err = loader.Namespace(); err != nil {
		return p, unusable(err)
	}
	Prepare(p.Config, o.Timeout)
	return p, nil
}

// MostPage is how large an answer may be, in bytes, unpacked: a page of 500 objects with 20 KB each has 10 MB, and etcd takes no
// object of 2 MB.
const MostPage = 64 << 20

// Prepare lets a client speak JSON, gives it a time for an answer, 0 being any, and keeps its credentials with its server: no
// redirect is followed.
func Prepare(c *rest.Config, timeout time.Duration) {
	c.QPS = -1 // one request after the other is slow enough
	c.Timeout = timeout
	c.UserAgent = "kubectl-unthrottle"
	c.WarningHandler = rest.NoWarnings{}
	c.AcceptContentTypes, c.ContentType = "application/json", "application/json"
	c.GroupVersion = &schema.GroupVersion{}
	// A pod answers through the API server's proxy, and its redirects pass: a client that followed one would add its token again.
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return web.Guard(next, web.Options{Of: "the API server or its proxy", Most: MostPage})
	})
	scheme := runtime.NewScheme()
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // it reads the server's errors
	c.Wrap(permit.Tickets)
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
}

// Client asks the server there.
func (p Place) Client() (*rest.RESTClient, error) {
	c, err := rest.UnversionedRESTClientFor(p.Config)
	if err != nil {
		return nil, unusable(err)
	}
	return c, nil
}

// Connect is Locate, with what asks the server there.
func Connect(o Options) (Place, *rest.RESTClient, error) {
	place, err := Locate(o)
	if err != nil {
		return place, nil, err
	}
	client, err := place.Client()
	return place, client, err
}

// Explain is the error of a request, in words, with what to do. doing says what was asked for.
func Explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	why, next := reason(err)
	if missing, ok := forbidden(err); ok {
		why = missing
	}
	err = &RequestError{doing, why, err}
	if next == "" {
		return err
	}
	return hint.With(err, next)
}

// A RequestError is a request that came to nothing.
type RequestError struct {
	Doing, Why string
	Err        error
}

func (e *RequestError) Error() string { return fmt.Sprintf("%s: %s", e.Doing, e.Why) }
func (e *RequestError) Unwrap() error { return e.Err }
