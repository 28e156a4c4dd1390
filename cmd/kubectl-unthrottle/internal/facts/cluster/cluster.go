// Package cluster answers: which programs does a cluster run, and what do its objects say about their CPU? In go what kubectl's
// flags say: a kubeconfig, a context, a namespace, a selector. Out come the same facts as package manifest has about files, one
// workload for a Deployment rather than for its fifty pods, and the problems that kept something from being read.
//
// It lists and gets, and changes nothing. It reads no Secret, and only those ConfigMaps that may bring a variable of interest.
// Pages come one after the other, and only the facts about what is new in a page are kept.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// Options are what the flags say. The zero value is what kubectl does without any.
type Options struct {
	Kubeconfig    string    // a file in place of KUBECONFIG and ~/.kube/config
	Instead       Overrides // what takes the place of the kubeconfig's own, as of --as, --token and --server
	Context       string
	Namespace     string // "": the context's
	AllNamespaces bool
	Selector      string
	Timeout       time.Duration // of one request; 0: none
	Page          int           // objects in an answer; 0: 500
	Pods          bool          // Found has each pod, too
}

// TrialKey is a label of what a tune makes for its trials. They are gone soon, and no workload of the user's: Read leaves them out.
const TrialKey = "unthrottle.dev/study"

// Found is what was read.
type Found struct {
	Context, Server string
	Namespace       string // "": all
	Selector        string // "": none
	Objects         int    // that were looked at
	Workloads       []*workload.Workload
	Problems        []manifest.Problem
	Differ          []string // sentences about pods that are not as the template that they were made of
	Pods            []Pod    // where the options ask for them
}

// A Pod is one of those that a workload stands for.
type Pod struct {
	Namespace, Name, UID string
	Node                 string   // "": it is on none yet
	Ephemeral            []string // names of its ephemeral containers
	Of                   *workload.Workload
}

// A kind is one of those that are listed.
type kind struct {
	group, version string // version: where the server does not say which it prefers
	plural, name   string
	use            use
	extra          bool // it is there only if someone installed it
}

// A use is what the objects of a kind are for.
type use uint8

const (
	around use = iota // they say something about workloads
	makes             // they make pods
	link              // they are between an object and its pods: all that counts is who owns them
	runs              // they are pods
)

// kinds are in the order in which they are read: what speaks of workloads, then owners before what they own. Custom resources are
// those here and no others: to search all of a cluster's would take a request for each kind.
var kinds = []kind{
	{"", "v1", "limitranges", "LimitRange", around, false},
	{"", "v1", "resourcequotas", "ResourceQuota", around, false},
	{"autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler", around, true},
	{"autoscaling.x-k8s.io", "v1alpha1", "startupcpuboosts", "StartupCPUBoost", around, true},

	{"serving.knative.dev", "v1", "services", "Service", makes, true},
	{"serving.knative.dev", "v1", "configurations", "Configuration", link, true},
	{"serving.knative.dev", "v1", "revisions", "Revision", link, true},
	{"argoproj.io", "v1alpha1", "rollouts", "Rollout", makes, true},
	{"keda.sh", "v1alpha1", "scaledjobs", "ScaledJob", makes, true},
	{"", "v1", "podtemplates", "PodTemplate", makes, false},
	{"batch", "v1", "cronjobs", "CronJob", makes, false},
	{"apps", "v1", "deployments", "Deployment", makes, false},
	{"apps", "v1", "statefulsets", "StatefulSet", makes, false},
	{"apps", "v1", "daemonsets", "DaemonSet", makes, false},
	{"", "v1", "replicationcontrollers", "ReplicationController", makes, false},
	{"batch", "v1", "jobs", "Job", makes, false},
	{"apps", "v1", "replicasets", "ReplicaSet", makes, false},
	{"", "v1", "pods", "Pod", runs, false},
}

// resource is what rules of access call a kind: deployments.apps.
func (k kind) resource() string {
	if k.group == "" {
		return k.plural
	}
	return k.plural + "." + k.group
}

// A reading is one pass over a cluster.
type reading struct {
	*client
	options Options
	found   *Found
	live    *manifest.Live
	fold    fold
	asked   map[manifest.Name]bool // ConfigMaps
	refused map[string]bool        // namespaces whose ConfigMaps may not be read
	bytes   int64                  // of all lists
	trials  int                    // objects of tunes, which are left out
}

// Read reads a cluster. What could not be read is a problem of what was found; an error is that there is nothing to read from.
func Read(ctx context.Context, o Options) (*Found, error) {
	o.Page = cmp.Or(o.Page, 500)
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	r := &reading{
		client: c, options: o, live: manifest.NewLive(), fold: newFold(), asked: map[manifest.Name]bool{}, refused: map[string]bool{},
		found: &Found{Context: c.context, Server: c.host, Namespace: c.namespace, Selector: o.Selector},
	}
	versions, err := c.groups(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	for _, k := range kinds {
		version, served := versions[k.group]
		switch {
		case k.group == "":
		case !served && k.extra:
			continue
		case k.extra:
			k.version = version
		}
		err := r.list(ctx, k)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && !r.goOn(k, err) {
			break
		}
	}
	r.found.Workloads, r.found.Differ = r.fold.all()
	r.found.Problems = append(r.live.Problems(), r.found.Problems...)
	if r.trials > 0 { // anyone who makes an object may give it the label
		r.found.Problems = append(r.found.Problems, manifest.Problem{
			At: workload.Position{Path: "label " + TrialKey}, Severity: manifest.Note, Text: quantity.Plural(r.trials, "object") + " of a tune's trials were left out",
		})
	}
	return r.found, nil
}

// goOn reports that a kind could not be read, and says whether it is worth going on with the next.
func (r *reading) goOn(k kind, err error) bool {
	where := "in namespace " + r.namespace
	if r.namespace == "" {
		where = "in all namespaces"
	}
	if missing, ok := forbidden(err); ok {
		hint := "kubectl auth can-i list " + k.resource()
		if r.namespace == "" {
			hint += " --all-namespaces; or name a namespace that you may read with -n"
		} else {
			hint += " -n " + r.namespace
		}
		r.problem(k.resource(), hint, "the verb list is missing %s: %s", where, missing)
		return true
	}
	if gone(err) && k.extra {
		return true // its CustomResourceDefinition is there without it, or was just taken away
	}
	why, hint := reason(err)
	if unreachable(err) {
		r.problem(k.resource(), hint, "the API server went away while they were read, and what comes after them is missing too: %s", why)
		return false
	}
	r.problem(k.resource(), hint, "listing them %s: %s", where, why)
	return true
}

func (r *reading) problem(what, hint, format string, args ...any) {
	r.found.Problems = append(r.found.Problems, manifest.Problem{
		At: workload.Position{Path: what}, Severity: manifest.Error, Text: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// list reads all objects of a kind.
func (r *reading) list(ctx context.Context, k kind) error {
	seen := map[string]bool{} // by UID, where a list starts again
	turned := map[string]bool{}
	next, again := "", 0
	for pages := 1; ; pages++ {
		data, err := r.page(ctx, k, next)
		if token, expired := expired(err); expired && again < mostAgain {
			// What is older than some minutes is forgotten. The server may say how to go on with what is there now; if not, the
			// list starts again, and what was seen is passed over.
			again++
			next = token
			clear(turned)
			continue
		}
		if err != nil {
			return err
		}
		if r.bytes += int64(len(data)); r.bytes > mostBytes {
			return fmt.Errorf("its lists do not end: they have more than %d GB", mostBytes>>30)
		}
		objects, token, err := r.live.List(data, k.name, k.apiVersion())
		if err != nil {
			return fmt.Errorf("its answer is not what an API server sends: %w", err)
		}
		r.resolve(ctx)
		for _, o := range objects {
			if o.UID != "" && seen[o.UID] {
				continue
			}
			seen[o.UID] = true
			if len(o.Workloads) > 0 && o.Workloads[0].Labels[TrialKey] != "" {
				r.trials++
				continue
			}
			r.found.Objects++
			switch {
			case k.use == around:
			case k.name == "ReplicaSet" && !r.selected(o): // its Deployment's labels are others
				r.fold.add(o, link)
			default:
				of := r.fold.add(o, k.use)
				if r.options.Pods && of != nil {
					w := o.Workloads[0]
					r.found.Pods = append(r.found.Pods, Pod{o.Namespace, o.Name, o.UID, w.Pod.Node, o.Ephemeral, of})
				}
			}
		}
		switch next = token; {
		case next == "":
			return nil
		case turned[next]:
			return errors.New("a list without an end: the same token to continue with, twice")
		case pages >= mostPages:
			return fmt.Errorf("a list without an end: more than %d pages", mostPages)
		}
		turned[next] = true
	}
}

const (
	// mostPages is how many pages a list may have: five million objects of a kind, and Kubernetes holds 150,000 pods.
	mostPages = 10_000

	// mostBytes is how much all lists of one reading may have together: 150,000 pods of 20 KB are 3 GB.
	mostBytes = 8 << 30
)

// selected says whether the selector is for an object that was read regardless of its labels.
func (r *reading) selected(o manifest.Object) bool {
	return len(o.Workloads) == 0 || r.selector.Matches(labels.Set(o.Workloads[0].Labels))
}

// mostAgain is how often a list that the server has forgotten is started again.
const mostAgain = 3

func (k kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// resolve gets the ConfigMaps that a page refers to, and fills in values.
func (r *reading) resolve(ctx context.Context) {
	var names []manifest.Name
	for _, n := range r.live.Wanted() {
		if !r.asked[n] && !r.refused[n.Namespace] {
			r.asked[n] = true
			names = append(names, n)
		}
	}
	answers := make([][]byte, len(names))
	errs := make([]error, len(names))
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, n := range names {
		free <- struct{}{}
		all.Go(func() {
			answers[i], errs[i] = r.get(ctx, "/api/v1/namespaces/"+n.Namespace+"/configmaps/"+n.Name)
			<-free
		})
	}
	all.Wait()
	for i, n := range names {
		err := errs[i]
		if err == nil {
			_, err = r.live.Add(answers[i], "ConfigMap", "v1")
		}
		answers[i] = nil
		missing, no := forbidden(err)
		switch {
		case err == nil, gone(err), ctx.Err() != nil: // a Deployment may refer to what is not there
		case no && r.refused[n.Namespace]:
		case no:
			r.refused[n.Namespace] = true
			r.problem("configmaps", "kubectl auth can-i get configmaps -n "+n.Namespace, "the verb get is missing in namespace %s: %s", n.Namespace, missing)
		default:
			why, hint := reason(err)
			r.problem("ConfigMap/"+n.Name+" in "+n.Namespace, hint, "getting it: %s", why)
		}
	}
	_ = r.live.Resolve(ctx) // a context that has ended ends the next request, too
}

// atOnce is how many ConfigMaps are asked for at the same time.
const atOnce = 8

// String says in a few words what was looked at.
func (f *Found) String() string {
	where := "namespace " + f.Namespace
	if f.Namespace == "" {
		where = "all namespaces"
	}
	return fmt.Sprintf("%s of context %s at %s: %s", where, cmp.Or(f.Context, "in-cluster"), f.Server, quantity.Plural(f.Objects, "object"))
}
