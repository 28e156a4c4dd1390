package pods

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// KubeletOptions say where a kubelet is, and how to be known by it.
type KubeletOptions struct {
	Host      string // the node's address or name
	Port      int    // 0: 10250
	TokenFile string // ""; that of the pod's service account
	CAFile    string // of the signer of the kubelet's certificate; "": that of the pod's service account
	Insecure  bool   // take any certificate: most kubelets sign their own
}

const ofAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// A kubelet is asked for the pods of its node when necessary.
type kubelet struct {
	*store
	*server
	wanted chan struct{} // a caller wants what is not known, or is old
	done   chan struct{}

	patience    time.Duration // for one answer
	least       time.Duration // between two questions
	unknownFor  time.Duration // until an ID that the kubelet does not know is asked for again
	refreshedIn time.Duration // until what is known is asked for again

	mu      sync.Mutex
	asked   time.Time
	unknown map[string]time.Time // IDs that were not known, and since when they are asked for
}

// Kubelet asks the kubelet of a node for its pods until ctx ends: at first, when a caller wants a container that it does not know,
// at most once a second, and once a minute as long as any caller wants anything, because limits change without a new container. It
// answers at once with what it knows; what it does not know it may know a moment later.
//
// Needed is the verb get for nodes/pods from Kubernetes 1.33 on. Earlier ones ask for nodes/proxy, which also lets its owner run
// commands in every pod of the node: [Watch] is the better choice there.
func Kubelet(ctx context.Context, o KubeletOptions) (Source, error) {
	k, err := newKubelet(o)
	if err != nil {
		return nil, err
	}
	go k.run(ctx)
	return k, nil
}

func newKubelet(o KubeletOptions) (*kubelet, error) {
	if o.Host == "" {
		return nil, hint.With(errors.New("asking a kubelet: its node has no address"), "a pod learns its node's by a fieldRef of status.hostIP")
	}
	if o.Port == 0 {
		o.Port = 10250
	}
	if o.TokenFile == "" {
		o.TokenFile = ofAccount + "token"
	}
	if o.CAFile == "" && !o.Insecure {
		o.CAFile = ofAccount + "ca.crt"
	}
	s, err := newServer(&rest.Config{
		Host: "https://" + net.JoinHostPort(o.Host, strconv.Itoa(o.Port)), BearerTokenFile: o.TokenFile, UserAgent: "kubectl-unthrottle",
		TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile, Insecure: o.Insecure},
	})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet at %s: %w", o.Host, err)
	}
	return &kubelet{
		store: newStore(errNotYet), server: s, wanted: make(chan struct{}, 1), done: make(chan struct{}), unknown: map[string]time.Time{},
		patience: 20 * time.Second, least: time.Second, unknownFor: 10 * time.Second, refreshedIn: time.Minute,
	}, nil
}

// Container finds a container, and has the kubelet asked if it is not known.
func (k *kubelet) Container(ref podpath.Ref) (Container, bool) {
	c, ok := k.store.Container(ref)
	if k.wants(ref.Container, ok) {
		select {
		case k.wanted <- struct{}{}:
		default: // a caller waits already, and one answer is for all
		}
	}
	return c, ok
}

// wants says whether the kubelet should be asked for a container.
func (k *kubelet) wants(id string, known bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case id == "":
		return false
	case known:
		delete(k.unknown, id)
		return time.Since(k.asked) > k.refreshedIn
	case time.Since(k.unknown[id]) < k.unknownFor:
		return false
	}
	maps.DeleteFunc(k.unknown, func(_ string, since time.Time) bool { return time.Since(since) >= k.unknownFor })
	k.unknown[id] = time.Now()
	return true
}

// run asks the kubelet once, and then whenever a caller wants something.
func (k *kubelet) run(ctx context.Context) {
	defer close(k.done)
	for {
		k.mu.Lock()
		k.asked = time.Now()
		k.mu.Unlock()
		err := k.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.say(k.explain(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(k.least):
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wanted:
		}
	}
}

// ask reads all pods of the node.
func (k *kubelet) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	body, err := k.get(ctx, "/pods", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	all := newStore(nil)
	if _, err := readList(body, all.put); err != nil {
		return err
	}
	k.take(all)
	return nil
}

// explain says what to do.
func (k *kubelet) explain(err error) error {
	var (
		refused   *refusal
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
	)
	next := "what was known of its pods is kept, and the kubelet is asked again"
	switch {
	case errors.As(err, &refused) && refused.code == http.StatusForbidden:
		next = "the ClusterRole needs the verb get for nodes/pods, or for nodes/proxy before Kubernetes 1.33, which also allows to run commands in every pod"
	case errors.As(err, &refused) && refused.code == http.StatusUnauthorized:
		next = "the kubelet takes no tokens of service accounts unless its authentication.webhook is on"
	case errors.As(err, &authority), errors.As(err, &hostname):
		next = "most kubelets sign their own certificates: either take any, or have them signed by the cluster (serverTLSBootstrap)"
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("timed out")
	}
	return hint.With(fmt.Errorf("asking the kubelet at %s for its pods: %w", k.base.Host, err), next)
}
