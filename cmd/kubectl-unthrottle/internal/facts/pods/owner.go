package pods

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Owner is what made a pod.
type Owner struct{ APIVersion, Kind, Name string }

// OwnerOf is what made a pod, by what the pod itself says: nothing is asked. made is when it was created; zero: it is being created now.
func OwnerOf(pod string, refs []metav1.OwnerReference, labels map[string]string, made time.Time) Owner {
	i := slices.IndexFunc(refs, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && o.Kind != "Node" // a static pod belongs to its node
	})
	if i < 0 {
		return Owner{"v1", "Pod", pod}
	}
	o := refs[i]
	switch o.Kind {
	case "ReplicaSet":
		if name, ok := withoutHash(o.Name, labels["pod-template-hash"]); ok {
			return Owner{o.APIVersion, "Deployment", name}
		}
		if name, ok := withoutHash(o.Name, labels["rollouts-pod-template-hash"]); ok {
			return Owner{"argoproj.io/v1alpha1", "Rollout", name}
		}
	case "Job":
		if name, ok := withoutMinute(o.Name, cmp.Or(made, time.Now())); ok {
			return Owner{o.APIVersion, "CronJob", name}
		}
	}
	return Owner{o.APIVersion, o.Kind, o.Name}
}

// withoutHash is the name of a Deployment, from that of its ReplicaSet.
func withoutHash(name, hash string) (string, bool) {
	short, ok := strings.CutSuffix(name, "-"+hash)
	return short, ok && hash != "" && short != ""
}

// withoutMinute is the name of a CronJob, from that of its Job: the controller appends the minute for which it was due, counted
// from 1970. A number that isn't a minute near the pod's beginning is part of a name that a person chose: migrate-20261123.
func withoutMinute(name string, made time.Time) (string, bool) {
	const near = 30 * 24 * time.Hour
	i := strings.LastIndexByte(name, '-')
	minute, err := strconv.ParseInt(name[i+1:], 10, 32)
	if i < 1 || err != nil {
		return "", false
	}
	age := made.Sub(time.Unix(minute*60, 0))
	return name[:i], -near < age && age < near
}
