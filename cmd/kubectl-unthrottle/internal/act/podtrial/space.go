package podtrial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A Space is where a study's objects are, as long as it is open.
type Space struct {
	api  *API
	kit  *Kit
	made bool // something was, or may have been
	stop context.CancelFunc
	done sync.WaitGroup

	Notes []string // what could not be taken along

	mu  sync.Mutex
	err error // of putting off the deadline, the last time
}

// Lease is how long what was made outlives its maker: its end is put off repeatedly.
const (
	Lease = 10 * time.Minute
	renew = time.Minute
)

// NewStudy makes a short name for a study.
func NewStudy() string { return strings.ToLower(rand.Text()[:6]) }

// OpenSpace makes the namespace of a study, or its owner in the namespace that is there, and takes along what the pod refers to. It
// fills in what the kit does not know yet. What was made is there for lease, and for as long as the Space is open. When it returns
// an error nothing of it is left.
func OpenSpace(ctx context.Context, api *API, kit *Kit, t *Template, lease time.Duration) (s *Space, err error) {
	if err := t.refuseClaims(); err != nil {
		return nil, err
	}
	s = &Space{api: api, kit: kit, stop: func() {}}
	rules, err := s.rules(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := s.levels(ctx, t); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
			s = nil
		}
	}()
	space, owner, rest := kit.Space(lease)
	if space != nil {
		if err := s.first(ctx, space, nil); err != nil {
			if refused(err) {
				return s, hint.With(err, "--in NAME has the trials in an existing namespace in which you may make Jobs: kubectl auth can-i create jobs -n NAME")
			}
			return s, err
		}
	}
	var made metav1.PartialObjectMetadata
	if err := s.first(ctx, owner, &made); err != nil {
		return s, err
	}
	kit.OwnerUID = string(made.UID)
	if kit.Owned {
		for _, o := range rules {
			rest = append(rest, kit.Copy(o))
		}
	}
	for _, o := range rest {
		if err := api.Create(ctx, o, nil); err != nil {
			return s, err
		}
	}
	if err := s.takeAlong(ctx, t); err != nil {
		return s, err
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.done.Go(func() { s.renew(renewing, time.Now(), lease, min(renew, lease/3)) })
	return s, nil
}

// refuseClaims refuses a pod whose data trials would write to.
func (t *Template) refuseClaims() error {
	for _, n := range t.Needs() {
		if n.Kind == "PersistentVolumeClaim" {
			return hint.With(fmt.Errorf("%s mounts %s, and trials must not write to your data", t, n),
				"write its pod to a file with an emptyDir in place of the claim: -f pod.yaml")
		}
	}
	return nil
}

// rules are the ranges and quotas that trials are held to: those of the user's namespace, or of the one that they are in. A user who
// may not see them is held to them only by the API server, in their own namespace.
func (s *Space) rules(ctx context.Context, t *Template) (rules []object, err error) {
	from := s.kit.Namespace
	if s.kit.Owned {
		from = t.Namespace
	}
	if from == "" { // a pod from a file that names no namespace
		return nil, nil
	}
	for _, kind := range []string{"LimitRange", "ResourceQuota"} {
		var all struct{ Items []object }
		err := s.api.List(ctx, "/api/v1/namespaces/"+from+"/"+plurals[kind], "", &all)
		if err != nil && !refused(err) {
			return nil, err
		}
		for _, o := range all.Items {
			o["apiVersion"], o["kind"] = "v1", kind // a list says it of none of its objects
			if at(o, "spec", "hard")["limits.cpu"] != nil {
				s.kit.CapAll = true
			}
			rules = append(rules, o)
		}
	}
	return rules, nil
}

// first makes the object whose end is the end of all. If that is refused there is nothing to remove.
func (s *Space) first(ctx context.Context, o object, out any) error {
	err := s.api.Create(ctx, o, out)
	s.made = s.made || !refused(err)
	return err
}

// security begins the labels by which Pod Security says what pods of a namespace may be.
const security = "pod-security.kubernetes.io/"

// levels makes a namespace of the study's own as strict with pods as the workload's. If the user may not look at that one, it says so.
func (s *Space) levels(ctx context.Context, t *Template) error {
	if !s.kit.Owned || t.Namespace == "" {
		return nil
	}
	var o object
	switch err := s.api.Get(ctx, "/api/v1/namespaces/"+t.Namespace, &o); {
	case refused(err):
		s.Notes = append(s.Notes, "namespace "+t.Namespace+" can't be read: if it has a Pod Security level, the trials' namespace has none")
		return nil
	case gone(err): // a pod from a file
		return nil
	case err != nil:
		return err
	}
	s.kit.Levels = object{}
	for key, value := range at(o, "metadata", "labels") {
		if strings.HasPrefix(key, security) {
			s.kit.Levels[key] = value
		}
	}
	return nil
}

// takeAlong copies what the pod refers to into a namespace of the study's own.
func (s *Space) takeAlong(ctx context.Context, t *Template) error {
	if !s.kit.Owned || t.Namespace == "" {
		return nil
	}
	from := "/api/v1/namespaces/" + t.Namespace + "/"
	for _, n := range t.Needs() {
		var o object
		err := s.api.Get(ctx, from+plurals[n.Kind]+"/"+n.Name, &o)
		if gone(err) { // it may be optional; a pod that can't do without says so
			continue
		}
		if err != nil {
			return hint.With(err, "kubectl auth can-i get "+plurals[n.Kind]+" -n "+t.Namespace+"; or --in "+t.Namespace+", where it is already")
		}
		if text(o, "type") == "kubernetes.io/service-account-token" {
			continue // it is of an account that is not there
		}
		if err := s.api.Create(ctx, s.kit.Copy(o), nil); err != nil {
			return err
		}
	}
	return nil
}

// renew puts off the end of all.
func (s *Space) renew(ctx context.Context, begin time.Time, lease, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		seconds := int(math.Ceil((time.Since(begin) + lease).Seconds()))
		err := s.api.Merge(ctx, jobs(s.kit.Namespace)+"/"+s.kit.owner(), object{"spec": object{"activeDeadlineSeconds": seconds}})
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
}

// Err is why the end of all can't be put off; nil: it can.
func (s *Space) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close removes all that was made.
func (s *Space) Close(ctx context.Context) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.stop()
	s.done.Wait()
	if !s.made {
		return nil
	}
	if s.kit.Owned {
		return s.api.Delete(ctx, "/api/v1/namespaces/"+s.kit.Namespace)
	}
	return s.api.DeleteJob(ctx, s.kit.Namespace, s.kit.owner())
}
