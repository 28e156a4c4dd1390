package pods

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	idA = "5694f82f44168cc048e014ae14d1b0c8ef673bec49f329dc169911ea638f63c2"
	idB = "e01a26336924e2fb8089bcf4cf943954fd9ea616cc5678f38f65928307979459"
	sha = "sha256:9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
)

var began = time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)

func list(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
}

// deployed is a pod of a Deployment, as an API server has it.
func deployed() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "api-5d8-x7", UID: "2d5133c0-65f3-40b2-b375-c04866d418e1", ResourceVersion: "12",
			CreationTimestamp: metav1.NewTime(began), Labels: map[string]string{"pod-template-hash": "5d8"},
			Annotations:     map[string]string{"unthrottle.dev/mute": "throttled, too-few-ps"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "api-5d8", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node1",
			Resources: &corev1.ResourceRequirements{
				Limits: list("3"),
			},
			InitContainers: []corev1.Container{
				{Name: "prepare", Image: "prepare:1"},
				{Name: "proxy", Image: "proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{
				{
					Name: "app", Image: "registry.example.com/api:1", Resources: corev1.ResourceRequirements{Limits: list("1500m"), Requests: list("250m")},
					Env: []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "4"}},
				},
				{Name: "waiting", Image: "b"},
			},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "proxy", ContainerID: "containerd://" + idB, ImageID: "docker.io/library/proxy@" + sha, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "prepare", ContainerID: "containerd://0", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "waiting", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
				{
					Name: "app", ContainerID: "containerd://" + idA, ImageID: "registry.example.com/api@" + sha, RestartCount: 2,
					Resources: &corev1.ResourceRequirements{Limits: list("500m")},
					State:     corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}},
				},
			},
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", ContainerID: "containerd://1", State: corev1.ContainerState{}}},
		},
	}
}

// text is an object as a server sends it.
func text(t testing.TB, object any) string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parsed(t testing.TB, object any) *pod {
	t.Helper()
	p := new(pod)
	if err := json.Unmarshal([]byte(text(t, object)), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestContainers: every field comes from where Kubernetes' own types have it.
func TestContainers(t *testing.T) {
	all := parsed(t, deployed()).containers()
	var names []string
	for _, c := range all {
		names = append(names, string(c.Kind)+" "+c.Name)
	}
	if want := []string{"init prepare", "sidecar proxy", "container app", "ephemeral debug"}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	want := Container{
		Namespace: "shop", Pod: "api-5d8-x7", UID: "2d5133c0-65f3-40b2-b375-c04866d418e1", Name: "app", Kind: Main, Owner: Owner{"apps/v1", "Deployment", "api"},
		Image: "registry.example.com/api:1", Digest: sha, ID: idA, Runtime: "containerd", Node: "node1", Spec: Setting{Set: true, Form: Literal, Value: "4"},
		Limit: 1.5, Request: 0.25, PodLimit: 3, Actual: 0.5, Started: began, Restarts: 2, Muted: []string{"throttled", "too-few-ps"},
	}
	if !reflect.DeepEqual(all[2], want) {
		t.Errorf("%+v\nwant %+v", all[2], want)
	}

	mirror := deployed()
	mirror.Annotations["kubernetes.io/config.mirror"] = "187bff14cccb94f179e943eacce55bb3"
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node1", Controller: new(true)}}
	c := parsed(t, mirror).containers()[0]
	if c.UID != "187bff14cccb94f179e943eacce55bb3" || c.Owner != (Owner{"v1", "Pod", "api-5d8-x7"}) {
		t.Errorf("a static pod: %+v", c)
	}
}

// TestResized: a resize is what the API server says was written by one, of the container or of its pod.
func TestResized(t *testing.T) {
	const limits = `{"f:resources":{"f:limits":{"f:cpu":{}}}}`
	for _, c := range []struct {
		name, subresource, fields string
		want                      bool
	}{
		{"the container", "resize", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":` + limits + `}}}`, true},
		{"its pod", "resize", `{"f:spec":` + limits + `}`, true},
		{"another container", "resize", `{"f:spec":{"f:containers":{"k:{\"name\":\"other\"}":` + limits + `}}}`, false},
		{"its memory", "resize", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:resources":{"f:limits":{"f:memory":{}}}}}}}`, false},
		{"its requests", "resize", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}}}}}`, false},
		{"as it was made", "", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":` + limits + `}}}`, false},
		{"its status", "status", `{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":` + limits + `}}}`, false},
		{"nothing", "resize", `{}`, false},
	} {
		p := deployed()
		for _, at := range []time.Time{began.Add(time.Minute), began.Add(time.Hour), began.Add(time.Second)} {
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: "kubectl", Subresource: c.subresource, Time: new(metav1.NewTime(at)), FieldsV1: metav1.NewFieldsV1(c.fields),
			})
		}
		want := time.Time{}
		if c.want {
			want = began.Add(time.Hour)
		}
		if got := parsed(t, p).resized("app"); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

func TestSetting(t *testing.T) {
	from := func(s corev1.EnvVarSource) corev1.EnvVar { return corev1.EnvVar{Name: "GOMAXPROCS", ValueFrom: &s} }
	whole := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
	literal := corev1.EnvVar{Name: "GOMAXPROCS", Value: "2"}
	for _, c := range []struct {
		env     []corev1.EnvVar
		envFrom []corev1.EnvFromSource
		want    Setting
	}{
		{nil, nil, Setting{}},
		{[]corev1.EnvVar{{Name: "GOGC", Value: "1"}}, nil, Setting{}},
		{[]corev1.EnvVar{literal}, nil, Setting{Set: true, Form: Literal, Value: "2"}},
		{[]corev1.EnvVar{{Name: "GOMAXPROCS"}}, nil, Setting{Set: true, Form: Literal, Value: ""}},
		{[]corev1.EnvVar{from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}})}, nil, Setting{Set: true, Form: Limits}},
		{[]corev1.EnvVar{literal, from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}})}, whole, Setting{Set: true, Form: Requests}},
		{[]corev1.EnvVar{from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "a"}})}, nil, Setting{Set: true, Form: ConfigMap}},
		{[]corev1.EnvVar{from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a"}})}, nil, Setting{Set: true, Form: Secret}},
		{[]corev1.EnvVar{from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}), literal}, nil, Setting{Set: true, Form: Literal, Value: "2"}},
		{[]corev1.EnvVar{from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}})}, nil, Setting{Set: true, Form: Field}},
		{nil, whole, Setting{Form: EnvFrom}},
	} {
		p := parsed(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("x")}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Env: c.env, EnvFrom: c.envFrom}}}})
		if got := p.Spec.Containers[0].setting(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.env, got, c.want)
		}
	}
}

// The forms are those of the runtimes' own code and of statuses that were published.
var imageIDs = map[string]string{
	"docker-pullable://nginx@" + sha:       sha, // dockershim, cri-dockerd
	"docker://" + sha:                      sha, // an image that was built on the node
	"docker.io/library/nginx@" + sha:       sha, // containerd
	sha:                                    sha, // containerd: imported from a file
	strings.TrimPrefix(sha, "sha256:"):     sha, // CRI-O: the image's ID
	"registry.example.com:5000/a/b@" + sha: sha, // CRI-O
	"localhost/app@" + sha:                 sha,
	"":                                     "",
	"nginx":                                "",
	"docker.io/library/nginx:latest":       "",
	"sha256:12":                            "",
	"nginx@sha512:" + strings.Repeat("0", 128):         "",
	"nginx@" + strings.ToUpper(sha):                    "",
	"docker-pullable://nginx@" + sha + "@":             "",
	"sha256:" + strings.Repeat("g", 64):                "",
	strings.Repeat("é", 32):                            "",
	"docker-pullable://docker-pullable://nginx@" + sha: sha,
}

func TestParseImageID(t *testing.T) {
	for id, want := range imageIDs {
		if got := ParseImageID(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestParseContainerID(t *testing.T) {
	for id, want := range map[string][2]string{
		"containerd://" + idA: {"containerd", idA}, "cri-o://" + idA: {"cri-o", idA}, "docker://" + idA: {"docker", idA},
		"": {}, idA: {}, "containerd://": {}, "://" + idA: {},
	} {
		if runtime, id := ParseContainerID(id); runtime != want[0] || id != want[1] {
			t.Errorf("%q: %q %q", id, runtime, id)
		}
	}
}

func FuzzIDs(f *testing.F) {
	for id := range imageIDs {
		f.Add(id)
	}
	f.Add("cri-o://" + idA)
	f.Fuzz(func(t *testing.T, text string) {
		if d := ParseImageID(text); d != "" && (len(d) != len(sha) || !strings.HasSuffix(text, strings.TrimPrefix(d, "sha256:"))) {
			t.Errorf("%q: %q", text, d)
		}
		if runtime, id := ParseContainerID(text); runtime+"://"+id != text && runtime+id != "" || (runtime == "") != (id == "") {
			t.Errorf("%q: %q %q", text, runtime, id)
		}
	})
}

// FuzzList: no matter what a server sends, a list is read or refused, and no container is without its ID.
func FuzzList(f *testing.F) {
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*deployed()}}
	f.Add(text(f, pods))
	f.Add(`{"kind":"PodList","items":null}`)
	f.Add(`{"items":[{"status":1}]}`)
	f.Add(`{"kind":"PodList","items":[{}],"metadata":{}`)
	f.Add(`{"kind":"PodList","items":[{"spec":{"containers":[{"resources":{"limits":{"cpu":"7e-77777771"},"requests":{"cpu":1.5}}}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := newStore(nil)
		readList(strings.NewReader(text), s.put)
		for id, c := range s.byID {
			if id == "" || c.ID != id || c.Runtime == "" {
				t.Errorf("%q: %+v", text, c)
			}
		}
	})
}
