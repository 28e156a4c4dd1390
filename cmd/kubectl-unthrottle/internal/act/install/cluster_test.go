//go:build linux

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

const patience = 8 * time.Minute // so that a hang ends; it judges no speed

// A site is a real API server with controllers, and no node.
type site struct {
	*clustertest.Cluster
	t *testing.T
}

func (s site) must(stdin string, args ...string) string {
	s.t.Helper()
	return s.Must(s.t, stdin, args...)
}

// connect is who a kubeconfig says; "": one who may do everything.
func (s site) connect(kubeconfig string) (*Cluster, *bytes.Buffer) {
	s.t.Helper()
	if kubeconfig == "" {
		kubeconfig = s.Kubeconfig
	}
	var out bytes.Buffer
	c, err := Connect(cluster.Options{Kubeconfig: kubeconfig, Timeout: 30 * time.Second}, &out)
	if err != nil {
		s.t.Fatal(err)
	}
	return c, &out
}

func (s site) install(o Options, force bool) string {
	s.t.Helper()
	c, out := s.connect("")
	if err := c.Apply(s.t.Context(), o, force); err != nil {
		s.t.Fatal(err, hint.Of(err), out)
	}
	return out.String()
}

func (s site) uninstall(namespace string, wait time.Duration) string {
	s.t.Helper()
	c, out := s.connect("")
	if err := c.Remove(s.t.Context(), namespace, wait); err != nil {
		s.t.Fatal(err, hint.Of(err), out)
	}
	return out.String()
}

// inventory is every object of the cluster that someone put there or a controller keeps, by its path.
func (s site) inventory() (all []string) {
	s.t.Helper()
	var kinds []string
	for _, kind := range strings.Fields(s.must("", "api-resources", "--verbs=list,delete", "-o", "name")) {
		if !strings.HasPrefix(kind, "events") && !strings.HasPrefix(kind, "leases") && !strings.HasPrefix(kind, "replicasets") {
			kinds = append(kinds, kind)
		}
	}
	all = strings.Fields(s.must("", "get", strings.Join(kinds, ","), "-A", "-o", `jsonpath={range .items[*]}{.kind}:{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
	slices.Sort(all)
	return all
}

// refused is an error that has what is wanted in it or in its hints.
func refused(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", wants)
		return
	}
	text := err.Error() + "\n" + strings.Join(hint.Of(err), "\n")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the error lacks %q:\n%s", want, text)
		}
	}
}

// TestCluster has two clusters: most of the time namespaces are going away, for five seconds each.
func TestCluster(t *testing.T) {
	type sub struct {
		name string
		do   func(site)
	}
	for name, subs := range map[string][]sub{
		"alone": {
			{"comes and goes", comesAndGoes},
			{"as kubectl has it", asKubectl},
			{"no operator", noOperator},
			{"an operator", withOperator},
			{"rules alone", rulesAlone},
			{"no agent gets ready", notReady},
			{"nobody there", site.nobody},
		},
		"with others": {
			{"their namespace", ofOthers},
			{"something else in the namespace", sharing},
			{"who may not", mayNot},
			{"who audits", audits},
			{"conflict", conflict},
			{"another place", elsewhere},
			{"a Helm release", ofHelm},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{ControllerManager: true})
			for _, sub := range subs {
				t.Run(sub.name, func(t *testing.T) { sub.do(site{c, t}) })
			}
		})
	}
}

// rulesAlone installs no agents, and takes nothing from those that are there.
func rulesAlone(s site) {
	before := s.inventory()
	rules := Options{Namespace: Namespace, Rules: true, Programs: true}
	s.install(rules, false)
	const labels = `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`
	if got := s.must("", "get", "namespace", Namespace, "-o", labels); got != "" {
		s.t.Errorf("the namespace admits %s pods, and no pod is to come", got)
	}
	if got := s.must("", "-n", Namespace, "get", "daemonsets,configmaps", "-l", selector, "-o", "name"); got != "configmap/unthrottle-rules-programs" {
		s.t.Errorf("there is %q", got)
	}
	s.install(Options{Namespace: Namespace}, false)
	s.install(rules, false)
	if got := s.must("", "get", "namespace", Namespace, "-o", labels); got != "privileged" {
		s.t.Errorf("the agents' namespace admits %q pods", got)
	}
	s.uninstall("", patience)
	if after := s.inventory(); !slices.Equal(after, before) {
		s.t.Errorf("before there was\n%q\nafter\n%q", before, after)
	}
}

// comesAndGoes installs, again, with more, and takes everything out: then the cluster is as it was.
func comesAndGoes(s site) {
	before := s.inventory()
	out := s.install(Options{Namespace: "unthrottle"}, false)
	if strings.Count(out, " created\n") != 12 || strings.Count(out, "\n") != 12 || !strings.Contains(out, "daemonset.apps/unthrottle-agent created\n") {
		s.t.Errorf("first: %s", out)
	}
	if out := s.install(Options{Namespace: "unthrottle"}, false); strings.Count(out, " unchanged\n") != 12 || strings.Count(out, "\n") != 12 {
		s.t.Errorf("again: %s", out)
	}
	out = s.install(Options{Namespace: "unthrottle", Rules: true, Dashboard: true, Image: "registry.example.com/agent:2"}, false)
	if strings.Count(out, " unchanged\n") != 11 || strings.Count(out, " created\n") != 2 || !strings.Contains(out, "daemonset.apps/unthrottle-agent configured\n") {
		s.t.Errorf("with more: %s", out)
	}
	if image := s.must("", "get", "daemonset", "-n", "unthrottle", "unthrottle-agent", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); image != "registry.example.com/agent:2" {
		s.t.Errorf("the image is %s", image)
	}
	for _, who := range []struct{ verb, what, want string }{{"list", "pods", "yes"}, {"get", "secrets", "no"}, {"list", "nodes", "no"}, {"delete", "pods", "no"}} {
		got, _, _ := s.Kubectl("auth", "can-i", who.verb, who.what, "-A", "--as=system:serviceaccount:unthrottle:unthrottle-agent")
		if strings.TrimSpace(got) != who.want {
			s.t.Errorf("may the agent %s %s? %s", who.verb, who.what, got)
		}
	}
	out = s.uninstall("", patience)
	if strings.Count(out, " deleted\n") != 14 || !strings.HasSuffix(out, "namespace/unthrottle deleted\n") || !strings.HasPrefix(out, "daemonset.apps/unthrottle-agent deleted\n") {
		s.t.Errorf("uninstall: %s", out)
	}
	s.same(before)
	if out := s.uninstall("", 0); out != "there is nothing to take out\n" {
		s.t.Errorf("again: %s", out)
	}
}

// same waits until the cluster has what it had: controllers need a moment for what belonged to an object.
func (s site) same(before []string) {
	s.t.Helper()
	clustertest.WaitFor(s.t, patience, func() error {
		if after := s.inventory(); !slices.Equal(after, before) {
			return fmt.Errorf("there are other objects than before: %q", slices.DeleteFunc(after, func(o string) bool { return slices.Contains(before, o) }))
		}
		return nil
	})
}

// asKubectl gives kubectl what --dry-run writes: the API server takes all of it, and warns of nothing.
func asKubectl(s site) {
	var b strings.Builder
	if err := Write(&b, everything); err != nil {
		s.t.Fatal(err)
	}
	_, stderr, err := s.KubectlInput(b.String(), "apply", "--server-side", "--validate=strict", "-f", "-")
	if err != nil || stderr != "" {
		s.t.Fatalf("%v %s", err, stderr)
	}
	// It was not install that made the namespace, so it stays.
	if out := s.uninstall("", 0); strings.Count(out, "deleted") != 13 || strings.Contains(out, "namespace/") {
		s.t.Errorf("uninstall: %s", out)
	}
	s.must("", "delete", "namespace", "unthrottle")
}

func ofOthers(s site) {
	s.must("", "create", "namespace", "tools")
	if out := s.install(Options{Namespace: "tools"}, false); !strings.HasPrefix(out, "namespace/tools was there before and stays as it is\n") {
		s.t.Errorf("install: %s", out)
	}
	if got := s.must("", "get", "namespace", "tools", "-o", "jsonpath={.metadata.labels}"); strings.Contains(got, "unthrottle") {
		s.t.Errorf("labels of the namespace: %s", got)
	}
	if out := s.uninstall("", patience); strings.Contains(out, "namespace/") {
		s.t.Errorf("uninstall: %s", out)
	}
	s.must("", "get", "namespace", "tools")
	s.must("", "label", "namespace", "tools", "pod-security.kubernetes.io/enforce=restricted")
	c, out := s.connect("")
	refused(s.t, c.Apply(s.t.Context(), Options{Namespace: "tools"}, false), "admits restricted pods only", "--namespace takes another one", "enforce=privileged")
	if out.Len() > 0 {
		s.t.Errorf("it was begun nonetheless: %s", out)
	}
	s.must("", "delete", "namespace", "tools")
}

// sharing keeps a namespace in which someone has put something.
func sharing(s site) {
	before := s.inventory()
	s.install(Options{Namespace: "unthrottle"}, false)
	s.must("", "create", "configmap", "mine", "-n", "unthrottle")
	if out := s.uninstall("", patience); !strings.HasSuffix(out, "namespace/unthrottle stays: it has configmap/mine, which is not the agents'\n") {
		s.t.Errorf("uninstall: %s", out)
	}
	s.must("", "get", "configmap", "mine", "-n", "unthrottle")
	s.must("", "delete", "configmap", "mine", "-n", "unthrottle")
	if out := s.uninstall("", patience); out != "namespace/unthrottle deleted\n" {
		s.t.Errorf("again: %s", out)
	}
	s.same(before)
}

func noOperator(s site) {
	before := s.inventory()
	c, _ := s.connect("")
	err := c.Apply(s.t.Context(), Options{Namespace: "unthrottle", Operator: true}, false)
	refused(s.t, err, "applying podmonitor.monitoring.coreos.com/unthrottle-agent", "operator is not installed", "the same command again")
	s.uninstall("", patience)
	s.same(before)
}

const crds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: %[2]s, plural: %[1]ss, singular: %[1]s}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
`

func withOperator(s site) {
	text := fmt.Sprintf(crds, "podmonitor", "PodMonitor") + fmt.Sprintf(crds, "prometheusrule", "PrometheusRule")
	s.must(text, "create", "-f", "-")
	s.must("", "wait", "--for=condition=Established", "--timeout=2m", "crd", "--all")
	before := s.inventory()
	out := s.install(Options{Namespace: "unthrottle", Operator: true, Rules: true}, false)
	if strings.Count(out, "created") != 18 || !strings.Contains(out, "prometheusrule.monitoring.coreos.com/unthrottle-agent created") {
		s.t.Errorf("install: %s", out)
	}
	if out := s.uninstall("", patience); strings.Count(out, "deleted") != 18 {
		s.t.Errorf("uninstall: %s", out)
	}
	s.same(before)
	s.must(text, "delete", "-f", "-")
}

// mayNot installs as a user who may do a part of it: the rest is reported, and another user completes it.
func mayNot(s site) {
	before := s.inventory()
	kubeconfig := s.someone("half", "namespaces", "serviceaccounts")
	c, out := s.connect(kubeconfig)
	err := c.Apply(s.t.Context(), Options{Namespace: "unthrottle"}, false)
	refused(s.t, err, "applying clusterrole.rbac.authorization.k8s.io/unthrottle-agent", "forbidden", "kubectl auth can-i", "--dry-run writes YAML", "goes on from here")
	if out.String() != "namespace/unthrottle created\nserviceaccount/unthrottle-agent created\n" {
		s.t.Errorf("half of it: %s", out)
	}
	if out := s.install(Options{Namespace: "unthrottle"}, false); strings.Count(out, "created") != 10 || strings.Count(out, "unchanged") != 2 {
		s.t.Errorf("the other half: %s", out)
	}
	c, out = s.connect(kubeconfig)
	refused(s.t, c.Remove(s.t.Context(), "", 0), "forbidden")
	if out.Len() > 0 {
		s.t.Errorf("it was begun nonetheless: %s", out)
	}
	nobody, out := s.connect(s.someone("nobody"))
	refused(s.t, nobody.Apply(s.t.Context(), Options{Namespace: "unthrottle"}, false), "forbidden")
	if out.Len() > 0 {
		s.t.Errorf("it was begun nonetheless: %s", out)
	}
	s.uninstall("", patience)
	s.must("", "delete", "clusterrole,clusterrolebinding", "half", "--ignore-not-found")
	s.must("", "delete", "serviceaccount", "half", "nobody")
	s.same(before)
}

// audits is a user with the ClusterRole for people: it is enough to read all that lint --cluster reads, and for no change.
func audits(s site) {
	before := s.inventory()
	s.install(Options{Namespace: "unthrottle"}, false)
	kubeconfig := s.someone("auditor")
	s.must("", "create", "clusterrolebinding", "auditor", "--clusterrole=unthrottle-audit", "--serviceaccount=default:auditor")
	s.must("", "create", "rolebinding", "auditor", "-n", "unthrottle", "--role=unthrottle-audit", "--serviceaccount=default:auditor")
	found, err := cluster.Read(s.t.Context(), cluster.Options{Kubeconfig: kubeconfig, AllNamespaces: true, Timeout: 30 * time.Second})
	if err != nil || len(found.Problems) > 0 || found.Objects == 0 {
		s.t.Errorf("%v %+v", err, found)
	}
	for _, who := range []struct{ verb, what, want string }{
		{"get", "pods --subresource=proxy", "no"},
		{"list", "pods", "yes"},
		{"list", "nodes", "yes"},
		{"create", "pods --subresource=proxy", "no"},
		{"get", "secrets", "no"},
		{"create", "pods --subresource=exec", "no"},
	} {
		args := append([]string{"auth", "can-i", who.verb}, strings.Fields(who.what)...)
		got, _, _ := s.Kubectl(append(args, "-A", "--as=system:serviceaccount:default:auditor")...)
		if strings.TrimSpace(got) != who.want {
			s.t.Errorf("may one who audits %s %s? %s", who.verb, who.what, got)
		}
	}
	for _, who := range []struct{ verb, what, want string }{
		{"get", "pods --subresource=proxy", "yes"},
		{"create", "pods --subresource=proxy", "no"},
		{"create", "serviceaccounts/unthrottle-reader --subresource=token", "yes"},
		{"create", "serviceaccounts/unthrottle-agent --subresource=token", "no"},
	} {
		args := append([]string{"auth", "can-i", who.verb}, strings.Fields(who.what)...)
		got, _, _ := s.Kubectl(append(args, "-n", "unthrottle", "--as=system:serviceaccount:default:auditor")...)
		if strings.TrimSpace(got) != who.want {
			s.t.Errorf("may one who audits %s %s in the agents' namespace? %s", who.verb, who.what, got)
		}
	}
	s.must("", "delete", "clusterrolebinding", "auditor")
	s.must("", "delete", "rolebinding", "auditor", "-n", "unthrottle")
	s.must("", "delete", "serviceaccount", "auditor")
	s.uninstall("", patience)
	s.same(before)
}

// someone is a kubeconfig of a service account that may do anything with some kinds.
func (s site) someone(name string, kinds ...string) (kubeconfig string) {
	s.t.Helper()
	s.must("", "create", "serviceaccount", name)
	if len(kinds) > 0 {
		s.must("", "create", "clusterrole", name, "--verb=*", "--resource="+strings.Join(kinds, ","))
		s.must("", "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount=default:"+name)
	}
	token := s.must("", "create", "token", name)
	kubeconfig = filepath.Join(s.t.TempDir(), "kubeconfig")
	data, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, bytes.ReplaceAll(data, []byte(s.Token), []byte(token)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return kubeconfig
}

// conflict is what someone else has set: it is reported, and taken over on request.
func conflict(s site) {
	before := s.inventory()
	s.install(Options{Namespace: "unthrottle"}, false)
	s.must("", "set", "image", "-n", "unthrottle", "daemonset/unthrottle-agent", "agent=registry.example.com/mine:1", "--field-manager=somebody")
	c, _ := s.connect("")
	refused(s.t, c.Apply(s.t.Context(), Options{Namespace: "unthrottle"}, false), "applying daemonset.apps/unthrottle-agent", `"somebody"`, "--force-conflicts")
	if out := s.install(Options{Namespace: "unthrottle"}, true); !strings.Contains(out, "daemonset.apps/unthrottle-agent configured\n") {
		s.t.Errorf("by force: %s", out)
	}
	s.uninstall("", patience)
	s.same(before)
}

// elsewhere is a second installation, whose ClusterRoleBinding would take the first one's rights away.
func elsewhere(s site) {
	before := s.inventory()
	s.install(Options{Namespace: "one"}, false)
	c, out := s.connect("")
	refused(s.t, c.Apply(s.t.Context(), Options{Namespace: "two"}, false), "installed in the namespace one already", "install --namespace one")
	if out.Len() > 0 {
		s.t.Errorf("it was begun nonetheless: %s", out)
	}
	// Someone did it by hand.
	var b strings.Builder
	if err := Write(&b, Options{Namespace: "two"}); err != nil {
		s.t.Fatal(err)
	}
	s.must(b.String(), "apply", "--server-side", "--force-conflicts", "-f", "-")
	refused(s.t, c.Remove(s.t.Context(), "", 0), "agents in the namespaces one, two", "--namespace")
	if out := s.uninstall("one", patience); strings.Contains(out, "clusterrole") || !strings.HasSuffix(out, "namespace/one deleted\n") {
		s.t.Errorf("the first: %s", out)
	}
	if out := s.uninstall("two", patience); strings.Count(out, "clusterrole") != 5 {
		s.t.Errorf("the second: %s", out)
	}
	s.must("", "delete", "namespace", "two")
	s.same(before)
}

func ofHelm(s site) {
	s.install(Options{Namespace: "unthrottle"}, false)
	s.must("", "label", "-n", "unthrottle", "daemonset", "unthrottle-agent", "app.kubernetes.io/managed-by=Helm")
	s.must("", "annotate", "-n", "unthrottle", "daemonset", "unthrottle-agent", "meta.helm.sh/release-name=go", "meta.helm.sh/release-namespace=unthrottle")
	c, _ := s.connect("")
	refused(s.t, c.Apply(s.t.Context(), Options{Namespace: "unthrottle"}, false), "part of the Helm release unthrottle/go", "helm upgrade")
	refused(s.t, c.Remove(s.t.Context(), "", 0), "part of the Helm release unthrottle/go", "helm uninstall")
	s.must("", "label", "-n", "unthrottle", "daemonset", "unthrottle-agent", "app.kubernetes.io/managed-by-")
	s.uninstall("", patience)
}

const lonelyNode = `apiVersion: v1
kind: Node
metadata: {name: lonely, labels: {kubernetes.io/os: linux}}
`

// notReady waits on a node where no kubelet starts anything: the DaemonSet's controller makes a pod, which never runs.
func notReady(s site) {
	s.install(Options{Namespace: "unthrottle"}, false)
	c, out := s.connect("")
	if err := c.Wait(s.t.Context(), "unthrottle", patience); err != nil || out.String() != "0 of 0 agents are ready\n" {
		s.t.Errorf("no node: %v %s", err, out)
	}
	s.must(lonelyNode, "create", "-f", "-")
	clustertest.WaitFor(s.t, patience, func() error {
		if got := s.must("", "get", "pods", "-n", "unthrottle", "-o", "name"); !strings.HasPrefix(got, "pod/unthrottle-agent-") {
			return fmt.Errorf("the pods are %q", got)
		}
		return nil
	})
	pod := strings.TrimSpace(s.must("", "get", "pods", "-n", "unthrottle", "-o", "name"))
	status := func(state string) {
		s.must("", "patch", "-n", "unthrottle", pod, "--subresource=status", "--type=merge", "-p",
			`{"status":{"containerStatuses":[{"name":"agent","image":"x","imageID":"","ready":false,"restartCount":0,`+state+`}]}}`)
	}
	status(`"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}`)
	refused(s.t, c.Wait(s.t.Context(), "unthrottle", 2*time.Second), "0 of 1 agents are ready after 2s", "ImagePullBackOff: no such image", "a longer --wait")
	status(`"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},"lastState":{"terminated":{"exitCode":2,"reason":"Error"}}`)
	refused(s.t, c.Wait(s.t.Context(), "unthrottle", 2*time.Second), "ends with exit code 2 (Error) each time: kubectl -n unthrottle logs "+strings.TrimPrefix(pod, "pod/")+" --previous")
	gone, cancel := context.WithCancel(s.t.Context())
	cancel()
	if err := c.Wait(gone, "unthrottle", patience); !errors.Is(err, context.Canceled) {
		s.t.Errorf("interrupted: %v", err)
	}
	s.must("", "delete", "node", "lonely")
	s.uninstall("", 0)
}

func (s site) nobody() {
	data, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte(s.URL), []byte("https://127.0.0.1:1")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	c, _ := s.connect(file)
	refused(s.t, c.Apply(s.t.Context(), Options{Namespace: "unthrottle"}, false), "https://127.0.0.1:1", "connection refused", "is the cluster running")
	refused(s.t, c.Remove(s.t.Context(), "", 0), "connection refused")
}
