package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// A pod is what a patch, an exemption and a name need of one. All else is package manifest's to read.
type pod struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Generation   int64             `json:"generation"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
		Owners       []owner           `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Init       []container `json:"initContainers"`
		Containers []container `json:"containers"`
	} `json:"spec"`
}

type owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
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

// readPod reads an object of a review as a pod, and the facts of it.
func readPod(ctx context.Context, object json.RawMessage) (*pod, *workload.Workload, error) {
	errBad := errors.New("it does not have the shape of a pod")
	p := &pod{}
	if json.Unmarshal(object, p) != nil {
		return nil, nil, errBad
	}
	set, err := manifest.Read(ctx, manifest.Options{Stdin: bytes.NewReader(object)}, "-")
	if err != nil {
		return nil, nil, errors.New("there was no time for it")
	}
	if len(set.Workloads) != 1 || set.Workloads[0].Kind != "Pod" {
		return nil, nil, errBad
	}
	w := set.Workloads[0]
	alive(w)
	w.Kind, w.Name = p.owner()
	return p, w, nil
}

// owner is what made the pod: a Deployment rather than its ReplicaSet.
func (p *pod) owner() (kind, name string) {
	for _, o := range p.Metadata.Owners {
		if !o.Controller {
			continue
		}
		if hash := p.Metadata.Labels["pod-template-hash"]; o.Kind == "ReplicaSet" && hash != "" {
			if name, ok := strings.CutSuffix(o.Name, "-"+hash); ok {
				return "Deployment", name
			}
		}
		return o.Kind, o.Name
	}
	if p.Metadata.Name == "" {
		return "Pod", p.Metadata.GenerateName + "…"
	}
	return "Pod", p.Metadata.Name
}

// alive makes the facts those of a live object: it has no file, and the API server has filled in what was left out.
func alive(w *workload.Workload) {
	w.At.File, w.Pod.At.File, w.Pod.LimitAt.File = "", "", ""
	w.Ignore = nil // exempted reads the annotation, which may say more here
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		c.At.File, c.LimitAt.File, c.ResizeAt.File = "", "", ""
		for j := range c.Env {
			v := &c.Env[j]
			v.At.File, v.ValueAt.File, v.DivisorAt.File = "", "", ""
		}
	}
}

// container finds a container by its name, and its place in the object.
func (p *pod) container(name string) (c *container, list string, at int) {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i], "containers", i
		}
	}
	for i := range p.Spec.Init {
		if p.Spec.Init[i].Name == name {
			return &p.Spec.Init[i], "initContainers", i
		}
	}
	return nil, "", 0
}
