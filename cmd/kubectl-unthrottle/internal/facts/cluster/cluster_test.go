//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

const limit = 8 * time.Minute // it judges no speed

func eventually(t *testing.T, c *clustertest.Cluster, want string, args ...string) {
	t.Helper()
	clustertest.WaitFor(t, limit, func() error {
		stdout, _, err := c.Kubectl(args...)
		if err == nil && stdout != want {
			err = fmt.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), stdout, want)
		}
		return err
	})
}

// deployment is one of some pods with a limit of half a CPU.
func deployment(name, labels, env string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {%[2]s}}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - {name: app, image: "registry.example.com/app:1", resources: {limits: {cpu: 500m}}, env: [%[3]s]}
---
`, name, labels, env, replicas)
}

const milliYAML = `{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}`

// TestCluster reads a real API server, whose controllers make the pods.
func TestCluster(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true})
	c.Must(t, "", "create", "namespace", "shop")
	eventually(t, c, "default", "get", "serviceaccounts", "-n", "shop", "-o", "jsonpath={.items[*].metadata.name}")
	c.Must(t, `apiVersion: v1
kind: ConfigMap
metadata: {name: tuning}
data: {GOMAXPROCS: "16"}
---
apiVersion: v1
kind: LimitRange
metadata: {name: usual}
spec: {limits: [{type: Container, default: {cpu: "2"}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, labels: {app: bare}}
spec: {containers: [{name: app, image: "registry.example.com/app:1", envFrom: [{configMapRef: {name: tuning}}]}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "registry.example.com/app:1"}]}}}}
---
`+deployment("api", "team: a", milliYAML, 12)+deployment("web", "team: b", "", 3), "apply", "-n", "shop", "-f", "-")
	eventually(t, c, "12 3", "get", "deployments", "-n", "shop", "-o", "jsonpath={.items[*].status.replicas}")
	all := Options{Kubeconfig: c.Kubeconfig, Namespace: "shop", Page: 5, Timeout: limit}

	t.Run("folded", func(t *testing.T) {
		found := read(t, all)
		want := []string{"CronJob/report in shop", "Deployment/api in shop x12", "Deployment/web in shop x3", "Pod/bare in shop"}
		if got := names(found); !slices.Equal(got, want) || len(found.Problems) > 0 || len(found.Differ) > 0 {
			t.Errorf("%q, %q, %q", got, problems(found), found.Differ)
		}
		var rules []string
		for _, w := range found.Workloads {
			found, err := lint.Check(t.Context(), w, lint.Known{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				rules = append(rules, f.Rule+" "+f.Workload+" "+f.At.String())
			}
		}
		// The pod's limit is the LimitRange's, 2 CPUs, and its number is the ConfigMap's.
		if want := []string{
			"K001 Deployment/api in shop spec.template.spec.containers[0].env[0]", "K005 Pod/bare in shop spec.containers[0].envFrom[0]",
		}; !slices.Equal(rules, want) {
			t.Errorf("%q, want %q", rules, want)
		}
		whole := all
		whole.Page = 0
		if got := read(t, whole); !slices.Equal(names(got), names(found)) || got.Objects != found.Objects {
			t.Errorf("in one page: %q, %d objects, not %d", names(got), got.Objects, found.Objects)
		}
	})
	t.Run("all namespaces", func(t *testing.T) {
		o := all
		o.Namespace, o.AllNamespaces = "", true
		if got := names(read(t, o)); !slices.Contains(got, "Deployment/api in shop x12") {
			t.Errorf("%q", got)
		}
		o = all
		o.Namespace = "default"
		if got := names(read(t, o)); len(got) > 0 {
			t.Errorf("in default: %q", got)
		}
	})
	t.Run("selector", func(t *testing.T) {
		for selector, want := range map[string][]string{
			"team=a":            {"Deployment/api in shop"}, // its pods do not have the label
			"app in (web,bare)": {"ReplicaSet of Deployment/web in shop x3", "Pod/bare in shop"},
			"team=c":            nil,
		} {
			o := all
			o.Selector = selector
			if got := names(read(t, o)); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", selector, got, want)
			}
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		c.Must(t, "", "create", "serviceaccount", "small", "-n", "shop")
		c.Must(t, "", "create", "role", "small", "-n", "shop", "--verb=list", "--resource=deployments,pods")
		c.Must(t, "", "create", "rolebinding", "small", "-n", "shop", "--role=small", "--serviceaccount=shop:small")
		token := c.Must(t, "", "create", "token", "small", "-n", "shop")
		o := all
		o.Kubeconfig = withToken(t, c, c.URL, token)
		found := read(t, o)
		text := strings.Join(problems(found), "\n")
		for _, want := range []string{
			`replicasets.apps: the verb list is missing in namespace shop: User "system:serviceaccount:shop:small" cannot list resource "replicasets"`,
			"kubectl auth can-i list replicasets.apps -n shop", "cronjobs.batch: the verb list", "configmaps: the verb get is missing in namespace shop",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing is said of %q:\n%s", want, text)
			}
		}
		if got := names(found); !slices.Contains(got, "Deployment/api in shop") || strings.Contains(text, "deployments.apps") {
			t.Errorf("%q\n%s", got, text)
		}
		o.Namespace, o.AllNamespaces = "", true
		if text := strings.Join(problems(read(t, o)), "\n"); !strings.Contains(text, "pods: the verb list is missing in all namespaces") || !strings.Contains(text, "with -n") {
			t.Errorf("%s", text)
		}
	})
	t.Run("killed", func(t *testing.T) {
		for _, after := range []int64{20_000, 60_000} {
			p := cut(t, strings.TrimPrefix(c.URL, "https://"), after)
			o := all
			o.Kubeconfig, o.Page = withToken(t, c, "https://"+p, c.Token), 1
			found, err := Read(t.Context(), o)
			if err != nil {
				t.Fatalf("after %d bytes: %v", after, err)
			}
			text := strings.Join(problems(found), "\n")
			if len(found.Problems) != 1 || !strings.Contains(text, "the API server went away while they were read") {
				t.Errorf("after %d bytes: %q\n%s", after, names(found), text)
			}
		}
	})
	t.Run("wrong authority", func(t *testing.T) {
		_, err := Read(t.Context(), Options{Kubeconfig: kubeconfig(t, c.URL, ""), Timeout: limit})
		if err == nil || !strings.Contains(err.Error(), "signed by an untrusted authority") {
			t.Error(err)
		}
	})
	t.Run("changed on their way", func(t *testing.T) {
		c.Must(t, "", "create", "namespace", "late")
		eventually(t, c, "default", "get", "serviceaccounts", "-n", "late", "-o", "jsonpath={.items[*].metadata.name}")
		c.Must(t, "", "apply", "-f", filepath.FromSlash("../../../clustertest/testdata/policy.yaml"))
		probe := "apiVersion: v1\nkind: Pod\nmetadata: {name: probe}\nspec: {containers: [{name: app, image: a, resources: {limits: {cpu: 1}}}]}\n"
		clustertest.WaitFor(t, limit, func() error { // the server follows its policies in its own time
			out, _, err := c.KubectlInput(probe, "create", "-n", "late", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.containers[0].env}")
			if err == nil && !strings.Contains(out, "GOMAXPROCS") {
				err = errors.New("the policy has no effect")
			}
			return err
		})
		c.Must(t, deployment("injected", "team: a", "", 4), "apply", "-n", "late", "-f", "-")
		eventually(t, c, "4", "get", "deployments", "-n", "late", "-o", "jsonpath={.items[*].status.replicas}")
		o := all
		o.Namespace = "late"
		found := read(t, o)
		if got, want := names(found), []string{"Deployment/injected in late", "Pod of Deployment/injected in late x4"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if len(found.Differ) != 1 || !strings.HasSuffix(found.Differ[0], ": container app: GOMAXPROCS=2") {
			t.Errorf("%q", found.Differ)
		}
	})
	t.Run("recommended", func(t *testing.T) {
		c.Must(t, "", "create", "namespace", "advised")
		eventually(t, c, "default", "get", "serviceaccounts", "-n", "advised", "-o", "jsonpath={.items[*].metadata.name}")
		c.Must(t, autoscaler, "apply", "-f", "-")
		c.Must(t, "", "wait", "--for=condition=Established", "crd/verticalpodautoscalers.autoscaling.k8s.io")
		c.Must(t, deployment("api", "team: a", "", 1)+`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: api}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: api}, updatePolicy: {updateMode: "Off"}}
`, "apply", "-n", "advised", "-f", "-")
		c.Must(t, "", "patch", "vpa", "api", "-n", "advised", "--subresource=status", "--type=merge", "-p",
			`{"status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "2500m"}}]}}}`)
		eventually(t, c, "1", "get", "deployments", "-n", "advised", "-o", "jsonpath={.items[*].status.replicas}")
		o := all
		o.Namespace = "advised"
		found, err := lint.Check(t.Context(), read(t, o).Workloads[0], lint.Known{})
		if err != nil || len(found) != 1 || found[0].Rule != "K017" ||
			found[0].Summary != "VerticalPodAutoscaler api recommends a limit of 2.5 CPUs: a Go program that follows its limit would take 3, and takes 2 now" {
			t.Errorf("%v, %+v", err, found)
		}
	})
}

// autoscaler is the kind whose controllers recommend, as much as an API server has to know of it.
const autoscaler = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: verticalpodautoscalers.autoscaling.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/kubernetes/pull/63797"}
spec:
  group: autoscaling.k8s.io
  scope: Namespaced
  names: {plural: verticalpodautoscalers, singular: verticalpodautoscaler, kind: VerticalPodAutoscaler, shortNames: [vpa]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// withToken is the kubeconfig of a cluster for a bearer of a token, with its server at another address.
func withToken(t *testing.T, c *clustertest.Cluster, url, token string) string {
	t.Helper()
	data, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.NewReplacer(c.Token, token, c.URL, url).Replace(string(data))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// cut stands between a client and a server, and is gone for good once that many bytes have passed from the server: as if it had
// been killed in the middle of an answer.
func cut(t *testing.T, to string, after int64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	stop := func() { end(); l.Close() }
	t.Cleanup(func() { stop(); all.Wait() })
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				return
			}
			context.AfterFunc(ctx, func() { from.Close(); server.Close() })
			all.Go(func() { io.Copy(server, from) })
			all.Go(func() {
				io.CopyN(from, server, after)
				stop()
			})
		}
	})
	return l.Addr().String()
}
