package pods

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnerOf(t *testing.T) {
	ref := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "g/v1", Kind: kind, Name: name, Controller: new(true)}
	}
	watcher := metav1.OwnerReference{APIVersion: "x/v1", Kind: "Watcher", Name: "none of it"}
	hash := map[string]string{"pod-template-hash": "5d8"}
	for _, c := range []struct {
		name   string
		refs   []metav1.OwnerReference
		labels map[string]string
		want   Owner
	}{
		{"a bare pod", nil, hash, Owner{"v1", "Pod", "p"}},
		{"a reference that controls nothing", []metav1.OwnerReference{watcher}, hash, Owner{"v1", "Pod", "p"}},
		{"a static pod", []metav1.OwnerReference{ref("Node", "n1")}, nil, Owner{"v1", "Pod", "p"}},
		{"a Deployment", []metav1.OwnerReference{ref("ReplicaSet", "api-5d8")}, hash, Owner{"g/v1", "Deployment", "api"}},
		{"one controller of several references", []metav1.OwnerReference{watcher, ref("ReplicaSet", "api-5d8"), watcher}, hash, Owner{"g/v1", "Deployment", "api"}},
		{"the first of two controllers", []metav1.OwnerReference{ref("StatefulSet", "db"), ref("ReplicaSet", "api-5d8")}, hash, Owner{"g/v1", "StatefulSet", "db"}},
		{"a ReplicaSet without a hash", []metav1.OwnerReference{ref("ReplicaSet", "api-5d8")}, nil, Owner{"g/v1", "ReplicaSet", "api-5d8"}},
		{"with another hash", []metav1.OwnerReference{ref("ReplicaSet", "alone")}, hash, Owner{"g/v1", "ReplicaSet", "alone"}},
		{"with nothing but a hash", []metav1.OwnerReference{ref("ReplicaSet", "-5d8")}, hash, Owner{"g/v1", "ReplicaSet", "-5d8"}},
		{"with an empty hash", []metav1.OwnerReference{ref("ReplicaSet", "api-")}, map[string]string{"pod-template-hash": ""}, Owner{"g/v1", "ReplicaSet", "api-"}},
		{"a Rollout", []metav1.OwnerReference{ref("ReplicaSet", "web-77b")}, map[string]string{"rollouts-pod-template-hash": "77b"}, Owner{"argoproj.io/v1alpha1", "Rollout", "web"}},
		{"a CronJob", []metav1.OwnerReference{ref("Job", "report-29921882")}, nil, Owner{"g/v1", "CronJob", "report"}}, // 2026-11-21
		{"a Job with the minute of another year", []metav1.OwnerReference{ref("Job", "report-29000000")}, nil, Owner{"g/v1", "Job", "report-29000000"}},
		{"with a day", []metav1.OwnerReference{ref("Job", "migrate-20261123")}, nil, Owner{"g/v1", "Job", "migrate-20261123"}},
		{"with a minute alone", []metav1.OwnerReference{ref("Job", "29921882")}, nil, Owner{"g/v1", "Job", "29921882"}},
		{"with a dash and a minute", []metav1.OwnerReference{ref("Job", "-29921882")}, nil, Owner{"g/v1", "Job", "-29921882"}},
		{"with a large number", []metav1.OwnerReference{ref("Job", "a-99999999999999999999")}, nil, Owner{"g/v1", "Job", "a-99999999999999999999"}},
		{"a StatefulSet", []metav1.OwnerReference{ref("StatefulSet", "db")}, hash, Owner{"g/v1", "StatefulSet", "db"}},
	} {
		if got := OwnerOf("p", c.refs, c.labels, began); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOwnerOfNow: a pod that is being created has no time yet.
func TestOwnerOfNow(t *testing.T) {
	job := fmt.Sprint("report-", time.Now().Unix()/60)
	refs := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, Controller: new(true)}}
	if got, want := OwnerOf("p", refs, nil, time.Time{}), (Owner{"batch/v1", "CronJob", "report"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
