package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

var errNotYet = errors.New("the pods of this node are not read yet")

// A watcher follows the pods of one node.
type watcher struct {
	*store
	*server
	node string
	path string // of the pods
	done chan struct{}

	patience, lasting, least, most time.Duration // for an answer to begin; of a watch; between two attempts
}

// Watch asks an API server for the pods of a node, and watches for changes, until ctx ends. If the server goes away it keeps what
// it knew, says so by Err, and tries again forever. Needed are the verbs list and watch for pods.
//
// It costs an API server little: the list comes from its memory, by node, and a watch wakes it for this node's pods only.
func Watch(ctx context.Context, config *rest.Config, node string) (Source, error) {
	w, err := newWatcher(config, node)
	if err != nil {
		return nil, err
	}
	go w.run(ctx)
	return w, nil
}

// List asks once for the pods of a node, of one namespace or, where that is "", of all. Needed is the verb list for pods there.
func List(ctx context.Context, config *rest.Config, namespace, node string) (Source, error) {
	w, err := newWatcher(config, node)
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		w.path = "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
	}
	if _, err := w.list(ctx); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	return w, nil
}

func newWatcher(config *rest.Config, node string) (*watcher, error) {
	if node == "" {
		return nil, hint.With(errors.New("watching the pods of a node: no name of a node"), "a pod learns its node's by a fieldRef of spec.nodeName")
	}
	s, err := newServer(config)
	if err != nil {
		return nil, fmt.Errorf("watching the pods of node %s: %w", node, err)
	}
	return &watcher{
		store: newStore(errNotYet), server: s, node: node, path: "/api/v1/pods", done: make(chan struct{}),
		patience: time.Minute, lasting: 5 * time.Minute, least: time.Second, most: time.Minute,
	}, nil
}

// run lists and watches. What goes wrong is waited out, longer each time, and no two nodes come again at the same moment.
func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	version, wait := "", w.least
	for ctx.Err() == nil {
		began := time.Now()
		var err error
		if version == "" {
			if version, err = w.list(ctx); err == nil {
				continue
			}
		} else {
			version, err = w.follow(ctx, version)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil || time.Since(began) > w.most {
			wait = w.least
		}
		pause := wait/2 + rand.N(wait/2+1)
		if err != nil {
			wait = min(2*wait, w.most)
		}
		if errors.Is(err, errGone) || errors.Is(err, errNotPods) {
			version = ""
		}
		if err != nil && !errors.Is(err, errGone) {
			var refused *refusal
			if errors.As(err, &refused) {
				pause = max(pause, refused.after)
			}
			w.say(w.explain(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// ofNode asks for the pods of the node that have not ended.
func (w *watcher) ofNode(more url.Values) url.Values {
	more.Set("fieldSelector", "spec.nodeName="+w.node+",status.phase!=Succeeded,status.phase!=Failed")
	return more
}

// list reads all pods of the node. Version 0 means that an API server may answer from memory, as kubelets ask it to.
func (w *watcher) list(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	body, err := w.get(ctx, w.path, w.ofNode(url.Values{"resourceVersion": {"0"}}))
	if err != nil {
		return "", err
	}
	defer body.Close()
	all := newStore(nil)
	version, err = readList(body, func(p *pod) error {
		if p.Spec.NodeName != w.node {
			return nil // a proxy that knows no selectors
		}
		return all.put(p)
	})
	if err == nil && version == "" {
		err = fmt.Errorf("%w: a list without a version", errNotPods)
	}
	if err != nil {
		return "", err
	}
	w.take(all)
	return version, nil
}

// follow receives changes since a version. It returns the last version that it received, and nil when the server ends the watch,
// which it does from time to time.
func (w *watcher) follow(ctx context.Context, version string) (string, error) {
	lasting := w.lasting + rand.N(w.lasting)
	ctx, cancel := context.WithTimeout(ctx, lasting+w.patience)
	defer cancel()
	begins := time.AfterFunc(w.patience, cancel) // a server that takes the request and never answers
	body, err := w.get(ctx, w.path, w.ofNode(url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(max(1, int(lasting.Seconds())))},
	}))
	if !begins.Stop() && err != nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return version, err
	}
	defer body.Close()
	w.say(nil)
	for r := newReader(body); ; {
		event, p, err := r.event()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
			return version, nil
		case err != nil:
			return version, err
		}
		switch event {
		case "ADDED", "MODIFIED":
			if p.Spec.NodeName == w.node {
				err = w.put(p)
			}
		case "DELETED":
			w.remove(p)
		case "BOOKMARK":
		default:
			err = fmt.Errorf("%w: an event of type %q", errNotPods, event)
		}
		if err != nil {
			return version, err
		}
		if v := p.Metadata.ResourceVersion; v != "" {
			version = v
		}
	}
}

// explain says what is known all the same, and what to do.
func (w *watcher) explain(err error) error {
	var refused *refusal
	next := "what was known of its pods is kept, and the API server is asked again"
	if errors.As(err, &refused) {
		switch refused.code {
		case http.StatusForbidden:
			next = "the agent's ClusterRole needs the verbs list and watch for pods"
		case http.StatusUnauthorized:
			next = "its service account's token is not valid there: look at the ServiceAccount, and at where the token comes from"
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("timed out")
	}
	return hint.With(fmt.Errorf("asking the API server at %s for the pods of node %s: %w", w.base.Host, w.node, err), next)
}
