package pods

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// muteKey is the annotation of a pod that names the rules to mute: "all", or a list.
	muteKey = "unthrottle.dev/mute"
	// mirrorKey is the annotation by which the API server's copy of a static pod has the UID that the kubelet uses.
	mirrorKey = "kubernetes.io/config.mirror"
)

// containers are those of a pod that have an ID: those that run, and those that ran.
func (p *pod) containers() []Container {
	m := &p.Metadata
	common := Container{
		Namespace: m.Namespace, Pod: m.Name, UID: m.UID, Node: p.Spec.NodeName, Owner: OwnerOf(m.Name, m.OwnerReferences, m.Labels, m.CreationTimestamp), Muted: MutedBy(m.Annotations),
		PodLimit: float64(p.Spec.Resources.Limits.CPU),
	}
	if mirror := m.Annotations[mirrorKey]; mirror != "" {
		common.UID = mirror
	}
	var all []Container
	for _, list := range []struct {
		kind     Kind
		specs    []container
		statuses []status
	}{
		{Init, p.Spec.InitContainers, p.Status.InitContainerStatuses},
		{Main, p.Spec.Containers, p.Status.ContainerStatuses},
		{Ephemeral, p.Spec.EphemeralContainers, p.Status.EphemeralContainerStatuses},
	} {
		for i := range list.specs {
			spec, c := &list.specs[i], common
			at := slices.IndexFunc(list.statuses, func(s status) bool { return s.Name == spec.Name })
			if at < 0 {
				continue
			}
			if c.Kind = list.kind; c.Kind == Init && spec.RestartPolicy == "Always" {
				c.Kind = Sidecar
			}
			c.Name, c.Image, c.Spec = spec.Name, spec.Image, spec.setting()
			c.Limit, c.Request = float64(spec.Resources.Limits.CPU), float64(spec.Resources.Requests.CPU)
			s := &list.statuses[at]
			c.Resized = p.resized(spec.Name)
			c.Actual, c.Restarts, c.Started = float64(s.Resources.Limits.CPU), s.RestartCount, s.State.Running.StartedAt
			c.Digest = ParseImageID(s.ImageID)
			if c.Runtime, c.ID = ParseContainerID(s.ContainerID); c.ID != "" {
				all = append(all, c)
			}
		}
	}
	return all
}

// resized is when a container's CPU limit, or its pod's, was last changed while the pod was there; zero: never, as far as is known.
func (p *pod) resized(name string) (last time.Time) {
	key, _ := json.Marshal(map[string]string{"name": name})
	for _, m := range p.Metadata.ManagedFields {
		spec := &m.FieldsV1.Spec
		if m.Subresource != "resize" || !m.Time.After(last) {
			continue
		}
		for _, w := range []written{spec.Resources, spec.Containers["k:"+string(key)].Resources, spec.InitContainers["k:"+string(key)].Resources} {
			if w.Limits.CPU != nil {
				last = m.Time
			}
		}
	}
	return last
}

// setting is GOMAXPROCS as a container's spec gives it. If there are several entries the last one counts, and each counts more
// than what is taken whole.
func (c *container) setting() (s Setting) {
	if len(c.EnvFrom) > 0 {
		s.Form = EnvFrom
	}
	for i := range c.Env {
		e := &c.Env[i]
		if e.Name != "GOMAXPROCS" {
			continue
		}
		s = Setting{Set: true}
		switch from := e.ValueFrom; {
		case from == nil:
			s.Form, s.Value = Literal, e.Value
		case from.ResourceFieldRef != nil:
			s.Form = Form(from.ResourceFieldRef.Resource)
			if of := from.ResourceFieldRef.ContainerName; of != c.Name {
				s.Of = of
			}
		case from.ConfigMapKeyRef != nil:
			s.Form = ConfigMap
		case from.SecretKeyRef != nil:
			s.Form = Secret
		default:
			s.Form = Field
		}
	}
	return s
}

// MutedBy are the rules that the annotations of a pod mute, as written there.
func MutedBy(annotations map[string]string) []string {
	return strings.FieldsFunc(annotations[muteKey], func(r rune) bool { return strings.ContainsRune(", ;\t\r\n", r) })
}

// ParseContainerID takes the containerID of a status apart: containerd://5694f8…
func ParseContainerID(text string) (runtime, id string) {
	runtime, id, ok := strings.Cut(text, "://")
	if !ok || runtime == "" || id == "" {
		return "", ""
	}
	return runtime, id
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseImageID is the digest in the imageID of a status, which every runtime writes in its own way:
//
//	docker.io/library/nginx@sha256:…               containerd, CRI-O
//	docker-pullable://nginx@sha256:…               docker
//	sha256:…, docker://sha256:…, or digits alone   an image that has no name in a registry
//
// The first two are what a registry calls it. The others are the image's own ID: one image has one, but no registry finds it.
func ParseImageID(text string) string {
	if _, after, ok := strings.Cut(text, "://"); ok {
		text = after
	}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		text = text[i+1:]
	} else if len(text) == 64 {
		text = "sha256:" + text
	}
	if !digest.MatchString(text) {
		return ""
	}
	return text
}
