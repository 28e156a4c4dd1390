package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A pod is what a patch, an exemption and a name need of one. All else is package manifest's to read. Kubernetes' own
// type would also parse every amount, for hundreds of pods a second.
type pod struct {
	Metadata struct {
		Name         string                  `json:"name"`
		GenerateName string                  `json:"generateName"`
		Generation   int64                   `json:"generation"`
		Created      time.Time               `json:"creationTimestamp"`
		Labels       map[string]string       `json:"labels"`
		Annotations  map[string]string       `json:"annotations"`
		Owners       []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Init       []container `json:"initContainers"`
		Containers []container `json:"containers"`
	} `json:"spec"`

	places places // when they were first asked for
}

type container struct {
	Name string     `json:"name"`
	Env  []variable `json:"env"`
}

type variable struct {
	Name      string `json:"name"`
	ValueFrom *struct {
		Resource *struct{} `json:"resourceFieldRef"`
	} `json:"valueFrom"`
}

// readPod reads an object of a review as a pod, and the facts of it. It is read as the live object that it is: it has no file and
// no lines to count, and the API server has filled in what was left out.
func readPod(ctx context.Context, object json.RawMessage) (*pod, *workload.Workload, error) {
	if len(object) > mostPod {
		return nil, nil, fmt.Errorf("the pod has more than %d bytes", mostPod)
	}
	errBad := errors.New("not the shape of a pod")
	p := &pod{}
	if json.Unmarshal(object, p) != nil {
		return nil, nil, errBad
	}
	if len(p.Spec.Init)+len(p.Spec.Containers) > mostContainers {
		return nil, nil, fmt.Errorf("the pod has more than %d containers", mostContainers)
	}
	if ctx.Err() != nil {
		return nil, nil, errLate
	}
	live := manifest.NewLive()
	found, err := live.Add(object, "Pod", "v1")
	if err != nil || len(found.Workloads) != 1 || found.Workloads[0].Kind != "Pod" {
		return nil, nil, errBad
	}
	if live.Resolve(ctx) != nil {
		return nil, nil, errLate
	}
	w := found.Workloads[0]
	w.Ignore = nil // exempted reads the annotation, which may say more here
	m := &p.Metadata
	owner := pods.OwnerOf(cmp.Or(m.Name, m.GenerateName+"…"), m.Owners, m.Labels, m.Created)
	w.Kind, w.Name = owner.Kind, owner.Name
	return p, w, nil
}

// container finds a container by its name, and its place in the object. If two have one name the first counts, and containers
// come before init containers.
func (p *pod) container(name string) (c *container, list string, at int) {
	if p.places == nil {
		p.places = map[string]place{}
		for i := range p.Spec.Init {
			p.places.first(place{&p.Spec.Init[i], "initContainers", i})
		}
		own := places{}
		for i := range p.Spec.Containers {
			own.first(place{&p.Spec.Containers[i], "containers", i})
		}
		maps.Copy(p.places, own)
	}
	found := p.places[name]
	return found.container, found.list, found.at
}

// places are where containers are, by their names: a pod may have any number, and each may need a patch.
type places map[string]place

type place struct {
	container *container
	list      string
	at        int
}

func (all places) first(p place) {
	if _, ok := all[p.container.Name]; !ok {
		all[p.container.Name] = p
	}
}
