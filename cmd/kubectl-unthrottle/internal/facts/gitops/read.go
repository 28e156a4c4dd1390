package gitops

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Getter asks an API server for a path, as cluster.Access does.
type Getter interface {
	Get(ctx context.Context, path string, query url.Values, within time.Duration) (io.ReadCloser, error)
}

// A Made object is one with its owner, as Of has it.
type Made struct {
	Owner                        *Owner
	APIVersion, Kind, In, Called string // the object
}

func (m Made) group() string { return group(&workload.Workload{APIVersion: m.APIVersion}) }

// Bounds. Owners are asked a few at a time, and those that don't answer in time stay as their labels name them.
const (
	mostOwners = 500
	atOnce     = 8
	mostBytes  = 8 << 20 // of an owner: it lists all that it has made
	withinOne  = 5 * time.Second
	withinAll  = 20 * time.Second
)

// Read asks owners where they take their objects from, and fills that in. A user who may not ask, or gets no answer, has names only: it is
// only advice.
func Read(ctx context.Context, from Getter, all []Made) {
	ctx, cancel := context.WithTimeout(ctx, withinAll)
	defer cancel()
	type key struct{ kind, namespace, name string }
	of := map[key][]Made{}
	for _, m := range all {
		k := key{m.Owner.Kind, m.Owner.Namespace, m.Owner.Name}
		if _, ok := of[k]; ok || len(of) < mostOwners {
			of[k] = append(of[k], m)
		}
	}
	var group sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, made := range of {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			r := &reading{ctx, from}
			switch made[0].Owner.Kind {
			case application:
				r.application(made)
			case kustomization:
				r.kustomization(made)
			}
		})
	}
	group.Wait()
}

type reading struct {
	ctx  context.Context
	from Getter
}

// get reads an object into what is wanted of it.
func (r *reading) get(to any, path ...string) bool {
	for i, part := range path {
		path[i] = url.PathEscape(part)
	}
	body, err := r.from.Get(r.ctx, "/apis/"+strings.Join(path, "/"), nil, withinOne)
	if err != nil {
		return false
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, mostBytes)).Decode(to) == nil
}

// argoNamespaces are where Argo CD is, unless someone put it elsewhere: its own default, OpenShift's, and its chart's name.
var argoNamespaces = []string{"argocd", "openshift-gitops", "argo-cd"}

// application asks an Application of Argo CD.
func (r *reading) application(made []Made) {
	namespaces := argoNamespaces
	if in := made[0].Owner.Namespace; in != "" {
		namespaces = []string{in}
	}
	for _, in := range namespaces {
		if r.applicationIn(in, made) {
			return
		}
	}
}

// applicationIn asks the one of a namespace, and reports whether it has made any of the objects. If it has several sources it does not
// say which one an object is from.
func (r *reading) applicationIn(in string, made []Made) (has bool) {
	type source struct{ RepoURL, Path, Chart, TargetRevision string }
	var a struct {
		Spec struct {
			Source  *source
			Sources []source
		}
		Status struct {
			Resources []struct{ Group, Kind, Namespace, Name string }
		}
	}
	if !r.get(&a, "argoproj.io", "v1alpha1", "namespaces", in, "applications", made[0].Owner.Name) {
		return false
	}
	if len(a.Spec.Sources) == 1 {
		a.Spec.Source = &a.Spec.Sources[0]
	}
	type object struct{ group, kind, namespace, name string }
	mine := map[object]bool{}
	for _, x := range a.Status.Resources {
		mine[object{x.Group, x.Kind, x.Namespace, x.Name}] = true
	}
	for _, m := range made {
		if !mine[object{m.group(), m.Kind, m.In, m.Called}] {
			continue
		}
		has = true
		m.Owner.Namespace = in
		if s := a.Spec.Source; s != nil && len(a.Spec.Sources) <= 1 {
			m.Owner.takes(s.RepoURL, s.Path, s.Chart, s.TargetRevision)
		}
	}
	return has
}

// kustomization asks a Kustomization of Flux, and the GitRepository that it takes its manifests from.
func (r *reading) kustomization(made []Made) {
	var k struct {
		Spec struct {
			Path      string
			SourceRef struct{ Kind, Name, Namespace string }
		}
		Status struct {
			Inventory struct{ Entries []struct{ ID string } }
		}
	}
	in := made[0].Owner.Namespace
	if in == "" || !r.get(&k, "kustomize.toolkit.fluxcd.io", "v1", "namespaces", in, "kustomizations", made[0].Owner.Name) {
		return
	}
	ref := k.Spec.SourceRef
	if ref.Namespace == "" {
		ref.Namespace = in
	}
	var g struct {
		Spec struct {
			URL string
			Ref struct{ Branch, Tag, Semver, Commit string }
		}
	}
	if ref.Kind != "GitRepository" || owner(Flux, ref.Kind, ref.Namespace, ref.Name) == nil ||
		!r.get(&g, "source.toolkit.fluxcd.io", "v1", "namespaces", ref.Namespace, "gitrepositories", ref.Name) {
		return
	}
	entries := map[string]bool{}
	for _, e := range k.Status.Inventory.Entries {
		entries[e.ID] = true
	}
	revision := g.Spec.Ref.Branch
	for _, other := range []string{g.Spec.Ref.Tag, g.Spec.Ref.Semver, g.Spec.Ref.Commit} {
		if other != "" {
			revision = other
		}
	}
	for _, m := range made {
		if entries[strings.Join([]string{m.In, m.Called, m.group(), m.Kind}, "_")] {
			m.Owner.takes(g.Spec.URL, k.Spec.Path, "", revision)
		}
	}
}

// texts are what is shown of an owner's words.
var texts = regexp.MustCompile(`^[-A-Za-z0-9._~/:@+%=,*^<>]+( [-A-Za-z0-9._~/:@+%=,*^<>]+)*$`)

const mostText = 500

// takes fills in where an owner takes an object from, if that looks like it. The password is left out of an address.
func (o *Owner) takes(repository, path, chart, revision string) {
	if at, err := url.Parse(repository); err == nil && at.Scheme != "" && at.Host != "" {
		user := at.User
		at.User, at.RawQuery, at.Fragment = nil, "", ""
		if at.Scheme == "ssh" && user != nil { // of other schemes it may be a token
			at.User = url.User(user.Username())
		}
		repository = at.String()
	} else if strings.Contains(repository, "://") {
		return
	}
	for _, text := range []string{repository, path, chart, revision} {
		if len(text) > mostText || text != "" && !texts.MatchString(text) {
			return
		}
	}
	if repository != "" {
		o.Repository, o.Path, o.Chart, o.Revision = repository, path, chart, revision
	}
}
