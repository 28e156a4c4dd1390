//go:build linux

package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
)

const patience = 8 * time.Minute // so that a hang ends; it judges no speed

// A site is a real API server, with the controllers that make pods of Deployments and Jobs.
type site struct {
	*clustertest.Cluster
	t   *testing.T
	log string // the audit log
}

func (s site) must(args ...string) string {
	s.t.Helper()
	return s.Must(s.t, "", args...)
}

// give hands kubectl an input. It returns the warnings.
func (s site) give(text string, args ...string) (warnings string) {
	s.t.Helper()
	_, stderr, err := s.KubectlInput(text, append(args, "-f", "-")...)
	if err != nil {
		s.t.Fatal(err)
	}
	return stderr
}

// apply applies what options generate, and waits until ready holds. It is taken back when the test ends.
func (s site) apply(t *testing.T, ready func() error, change ...func(*Options)) {
	t.Helper()
	text := generate(t, change...).text
	s.t = t
	s.give(text, "apply")
	t.Cleanup(func() { s.give(text, "delete", "--ignore-not-found") })
	clustertest.WaitFor(t, patience, ready)
}

func (s site) namespace(name, meta string) {
	s.t.Helper()
	s.give("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+meta+"}\n", "create")
	clustertest.WaitFor(s.t, patience, func() error {
		_, _, err := s.Kubectl("get", "serviceaccount", "default", "-n", name)
		return err
	})
}

// variables is the env of a pod's containers as the API server has it, each as NAME=VALUE or NAME=RESOURCE/DIVISOR.
func variables(pod *corev1.Pod) string {
	var parts []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, e := range c.Env {
				value := e.Value
				if e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef != nil {
					value = e.ValueFrom.ResourceFieldRef.Resource + "/" + e.ValueFrom.ResourceFieldRef.Divisor.String()
				}
				parts = append(parts, e.Name+"="+value)
			}
		}
	}
	return strings.Join(parts, " ")
}

// becomes makes a pod, or only asks what it would become, and returns its env and the warnings.
func (s site) becomes(t *testing.T, namespace, meta, spec string, args ...string) (env, warnings string, err error) {
	t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-" + meta + "}\nspec: {" + spec + "}\n"
	stdout, stderr, err := s.KubectlInput(text, append([]string{"create", "-n", namespace, "-o", "yaml", "-f", "-"}, args...)...)
	if err != nil {
		return "", stderr, err
	}
	pod := new(corev1.Pod)
	strict(t, stdout, pod, false)
	return variables(pod), stderr, nil
}

var thousandths = app(limit("250m"), env(ref("GOMAXPROCS", "limits.cpu", "1m")))

// repaired is ready once pods are repaired, or no longer.
func (s site) repaired(want bool) func() error {
	return func() error {
		env, _, err := s.becomes(s.t, "default", "", thousandths, "--dry-run=server")
		if err == nil && (env == "GOMAXPROCS=limits.cpu/1") != want {
			err = fmt.Errorf("the pod has %s", env)
		}
		return err
	}
}

func TestCluster(t *testing.T) {
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := site{clustertest.Start(t, clustertest.Options{
		ControllerManager:   true,
		ExtraAPIServerFlags: []string{"--audit-log-path=" + log, "--audit-policy-file=" + policy},
	}), t, log}
	s.namespace("exempt", "")
	s.namespace("labelled", ", labels: {unthrottle.dev/ignore: all}")
	s.namespace("injected", ", labels: {unthrottle.dev/inject: \"true\"}")
	s.namespace("ranged", "")
	s.give("apiVersion: v1\nkind: LimitRange\nmetadata: {name: r, namespace: ranged}\nspec: {limits: [{type: Container, default: {cpu: 500m}}]}\n", "create")
	if err := s.repaired(false)(); err != nil {
		t.Fatal(err)
	}
	t.Run("mutate", func(t *testing.T) { testMutate(t, s) })
	t.Run("workloads", func(t *testing.T) { testWorkloads(t, s) })
	t.Run("config", func(t *testing.T) { testConfig(t, s) })
	t.Run("v1beta1", func(t *testing.T) {
		s.t = t
		s.apply(t, s.repaired(true), func(o *Options) { o.API, o.Validate, o.Name = V1Beta1, false, "old" })
		if got := s.must("get", "mutatingadmissionpolicies.v1beta1.admissionregistration.k8s.io", "-o", "name"); !strings.Contains(got, "old-repair") {
			t.Errorf("policies: %s", got)
		}
	})
	t.Run("actions", func(t *testing.T) { testActions(t, s) })
	t.Run("resize", func(t *testing.T) { testResize(t, s) })
}

func testMutate(t *testing.T, s site) {
	s.t = t
	clustertest.WaitFor(t, patience, s.repaired(false))
	s.apply(t, s.repaired(true), func(o *Options) {
		o.Inject = InjectLabelled
		o.ExemptNamespaces = append(o.ExemptNamespaces, "exempt")
		o.ExemptLabels = []Label{{"tier", "legacy"}, {"hands-off", ""}}
		o.ExemptContainers = []string{"istio-proxy"}
	})
	const restart = "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]"
	untouched := "GOMAXPROCS=limits.cpu/1m"
	for _, c := range []struct{ name, namespace, meta, spec, want string }{
		{"thousandths", "default", "", thousandths, "GOMAXPROCS=limits.cpu/1"},
		{"no limit", "default", "", app(env(ref("GOMAXPROCS", "limits.cpu", ""), literal("A", "1"))), "A=1"},
		{"no limit, but the namespace's", "ranged", "", app(env(ref("GOMAXPROCS", "limits.cpu", "1m"))), "GOMAXPROCS=limits.cpu/1"},
		{"a pod's limit", "default", "", "resources: {limits: {cpu: 2500m}}, " + app(env(ref("GOMAXPROCS", "limits.cpu", "1m"))), "GOMAXPROCS=limits.cpu/1"},
		{"what Go ignores", "default", "", app(limit("1500m"), env(procsIs("1500m"))), "GOMAXPROCS=limits.cpu/1"},
		{"what Go ignores, half a CPU", "default", "", app(limit("500m"), env(procsIs("500m"))), "GOMAXPROCS=2"},
		{"what Go ignores, no limit", "default", "", app(env(procsIs("auto"))), ""},
		{"above", "default", "", app(limit("2"), env(procsIs("16"))), "GOMAXPROCS=limits.cpu/1"},
		{"below", "default", "", app(limit("2500m"), env(procsIs("1"))), "GOMAXPROCS=limits.cpu/1"},
		{"a value that fits", "default", "", app(limit("2500m"), env(procsIs("3"))), "GOMAXPROCS=3"},
		{"one more than the limit", "default", "", app(limit("2"), env(procsIs("3"))), "GOMAXPROCS=3"},
		{"a value without a limit", "default", "", app(env(procsIs("7"))), "GOMAXPROCS=7"},
		{"without GOMAXPROCS", "default", "", app(limit("500m")), ""},
		{"an init container and a sidecar", "default", "", "initContainers: [" + container("i", limit("1"), env(procsIs("8"))) + ", " +
			container("s", "restartPolicy: Always", limit("250m"), env(ref("GOMAXPROCS", "limits.cpu", "1m"))) + "], " + app(limit("3")), "GOMAXPROCS=2 GOMAXPROCS=limits.cpu/1"},

		{"exempt namespace", "exempt", "", thousandths, untouched},
		{"labelled namespace", "labelled", "", thousandths, untouched},
		{"label", "default", ", labels: {unthrottle.dev/ignore: all}", thousandths, untouched},
		{"label with rules", "default", ", labels: {unthrottle.dev/ignore: K005.K001}", thousandths, untouched},
		{"label with other rules", "default", ", labels: {unthrottle.dev/ignore: K005}", thousandths, "GOMAXPROCS=limits.cpu/1"},
		{"annotation", "default", ", annotations: {unthrottle.dev/ignore: all}", thousandths, untouched},
		{"annotation with rules", "default", ", annotations: {unthrottle.dev/ignore: 'K004, k001: a wrapper reads it'}", thousandths, untouched},
		{"a label of the flags", "default", ", labels: {tier: legacy}", thousandths, untouched},
		{"that label with another value", "default", ", labels: {tier: new}", thousandths, "GOMAXPROCS=limits.cpu/1"},
		{"a label without a value", "default", ", labels: {hands-off: x}", thousandths, untouched},
		{"container", "default", "", "containers: [" + container("istio-proxy", limit("250m"), env(ref("GOMAXPROCS", "limits.cpu", "1m"))) + "]", untouched},

		{"nothing is injected", "default", "", app(limit("2"), restart), ""},
		{"injected", "default", ", labels: {unthrottle.dev/inject: \"true\"}", app(limit("2"), restart, env(literal("A", "1"))), "A=1 GOMAXPROCS=limits.cpu/1"},
		{"injected by the namespace", "injected", "", app(limit("2"), restart), "GOMAXPROCS=limits.cpu/1"},
		{"not what would go stale", "injected", "", app(limit("2")), ""},
		{"not one CPU, which would go stale", "injected", "", app(limit("500m"), restart), ""},
		{"not against the pod", "injected", ", labels: {unthrottle.dev/inject: \"false\"}", app(limit("2"), restart), ""},
		{"never resized", "default", ", labels: {unthrottle.dev/inject: never-resized}", app(limit("500m")), "GOMAXPROCS=2"},
		{"not over a value", "injected", "", app(limit("3"), restart, env(procsIs("3"))), "GOMAXPROCS=3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, warnings, err := s.becomes(t, c.namespace, c.meta, c.spec)
			if err != nil || got != c.want {
				t.Errorf("got %q, want %q: %v %s", got, c.want, err, warnings)
			}
		})
	}
}

const workload = `metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {%[2]s}
`

func testWorkloads(t *testing.T, s site) {
	s.t = t
	warned := func() error {
		_, stderr, err := s.KubectlInput("apiVersion: apps/v1\nkind: DaemonSet\n"+fmt.Sprintf(workload, "d", thousandths), "create", "--dry-run=server", "-f", "-")
		if err == nil && !strings.Contains(stderr, "K001") {
			err = errors.New("no warning: " + stderr)
		}
		return err
	}
	s.apply(t, func() error { return errors.Join(warned(), s.repaired(true)()) }, func(o *Options) { o.Inject = InjectLabelled })

	t.Run("types", func(t *testing.T) { // the controller's own check of the expressions
		for _, name := range []string{"unthrottle-check", "unthrottle-resize"} {
			clustertest.WaitFor(t, patience, func() error {
				seen, _, err := s.Kubectl("get", "validatingadmissionpolicy", name, "-o", "jsonpath={.status.observedGeneration}")
				if err == nil && seen != "1" {
					err = fmt.Errorf("observed generation %q", seen)
				}
				return err
			})
			if got := s.must("get", "validatingadmissionpolicy", name, "-o", "jsonpath={.status.typeChecking.expressionWarnings}"); got != "" {
				t.Errorf("%s: type checking says %s", name, got)
			}
		}
	})
	const says = "K001 counted in thousandths: container app: GOMAXPROCS is 250 for 0.25 CPUs (kubectl unthrottle help K001)"
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} {
		t.Run(kind, func(t *testing.T) {
			name := strings.ToLower(kind)
			text := "apiVersion: apps/v1\nkind: " + kind + "\n" + fmt.Sprintf(workload, name, thousandths)
			if kind == "StatefulSet" {
				text = strings.Replace(text, "spec:\n", "spec:\n  serviceName: x\n", 1)
			}
			got := s.give(text, "create")
			if strings.Count(got, says) != 1 {
				t.Errorf("warnings: %s", got)
			}
			if kind == "DaemonSet" { // the cluster has no node
				return
			}
			s.made(t, name, "GOMAXPROCS=limits.cpu/1", "app: K001")
			if kind == "Deployment" { // for docs/policy.md
				t.Logf("%s%s", got, s.must("get", "pods", "-l", "app="+name, "-o", "custom-columns=NAME:.metadata.name,CHANGED:.metadata.annotations.unthrottle\\.dev/changed"))
			}
			if got := s.must("get", kind, name, "-o", "jsonpath={.spec.template.spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor}"); got != "1m" {
				t.Errorf("the template has divisor %q", got)
			}
		})
	}
	t.Run("ReplicationController", func(t *testing.T) {
		text := "apiVersion: v1\nkind: ReplicationController\n" + strings.Replace(fmt.Sprintf(workload, "rc", thousandths), "{matchLabels: {app: rc}}", "{app: rc}", 1)
		if got := s.give(text, "create"); strings.Count(got, says) != 1 {
			t.Errorf("warnings: %s", got)
		}
		s.made(t, "rc", "GOMAXPROCS=limits.cpu/1", "app: K001")
	})
	t.Run("Job", func(t *testing.T) {
		text := `apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    metadata: {labels: {app: job, unthrottle.dev/inject: "true"}}
    spec: {restartPolicy: Never, containers: [` + container("a", limit("250m"), env(ref("GOMAXPROCS", "limits.cpu", "1m"))) + ", " + container("b", limit("500m")) + `]}
`
		if got := s.give(text, "create"); strings.Count(got, "container a: GOMAXPROCS is 250 for 0.25 CPUs") != 1 {
			t.Errorf("warnings: %s", got)
		}
		s.made(t, "job", "GOMAXPROCS=limits.cpu/1 GOMAXPROCS=2", "a: K001")
	})
	t.Run("CronJob", func(t *testing.T) {
		text := "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: cron}\nspec: {schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, " + thousandths + "}}}}}\n"
		if got := s.give(text, "create"); strings.Count(got, says) != 1 {
			t.Errorf("warnings: %s", got)
		}
		if got := s.give(strings.Replace(text, "0 0", "5 0", 1), "apply"); strings.Contains(got, "K001") {
			t.Errorf("a change beside the template is warned of: %s", got)
		}
	})
	t.Run("exempt", func(t *testing.T) {
		for _, c := range []struct{ own, template string }{
			{"annotations: {unthrottle.dev/ignore: K001}", ""},
			{"labels: {unthrottle.dev/ignore: all}", ""},
			{"", ", annotations: {unthrottle.dev/ignore: all}"},
			{"", ", annotations: {unthrottle.dev/ignore: K001}"},
		} {
			text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: none, " + c.own + "}\n" +
				"spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}" + c.template + "}, spec: {" + thousandths + "}}}\n"
			if got := s.give(text, "create", "--dry-run=server"); strings.Contains(got, "K001") {
				t.Errorf("warned of:\n%s", text)
			}
		}
	})
	t.Run("what is right", func(t *testing.T) {
		text := fmt.Sprintf(workload, "fine", app(limit("2"), env(procsIs("2"))))
		if got := s.give("apiVersion: apps/v1\nkind: Deployment\n"+text, "create", "--dry-run=server"); got != "" {
			t.Errorf("warnings: %s", got)
		}
	})
	t.Run("a bare pod is repaired first", func(t *testing.T) {
		if _, got, err := s.becomes(t, "default", "", thousandths); err != nil || got != "" {
			t.Errorf("warnings %s, %v", got, err)
		}
	})
}

// made waits for a pod with the label app that a controller makes, and compares it.
func (s site) made(t *testing.T, app, want, changed string) {
	t.Helper()
	s.t = t
	clustertest.WaitFor(t, patience, func() error {
		stdout, _, err := s.Kubectl("get", "pods", "-l", "app="+app, "-o", "name")
		if err == nil && stdout == "" {
			err = errors.New("no pod is made")
		}
		return err
	})
	var list corev1.PodList
	strict(t, s.must("get", "pods", "-l", "app="+app, "-o", "yaml"), &list, false)
	for _, pod := range list.Items {
		if got := variables(&pod); got != want || pod.Annotations[remedy.ChangedKey] != changed {
			t.Errorf("pod %s has %q and says %q", pod.Name, got, pod.Annotations[remedy.ChangedKey])
		}
	}
}

func testConfig(t *testing.T, s site) {
	s.t = t
	clustertest.WaitFor(t, patience, s.repaired(false))
	with := func(o *Options) { o.Config = Config{"default", "settings"} }
	s.apply(t, s.repaired(true), with)
	s.must("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"exempt-containers":"web, app"}}`)
	clustertest.WaitFor(t, patience, s.repaired(false))
	s.must("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"exempt-containers":"","inject":"all"}}`)
	clustertest.WaitFor(t, patience, s.repaired(true))
	clustertest.WaitFor(t, patience, func() error {
		got, _, err := s.becomes(t, "default", "", app(limit("2"), "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]"), "--dry-run=server")
		if err == nil && got != "GOMAXPROCS=limits.cpu/1" {
			err = fmt.Errorf("injected is %q", got)
		}
		return err
	})
	s.must("delete", "configmap", "settings")
	clustertest.WaitFor(t, patience, s.repaired(false)) // without an error
	if _, warnings, err := s.becomes(t, "default", "", thousandths); err != nil || warnings != "" {
		t.Errorf("without the ConfigMap: %v, %s", err, warnings)
	}
}

func testActions(t *testing.T, s site) {
	s.t = t
	clustertest.WaitFor(t, patience, s.repaired(false))
	deployment := "apiVersion: apps/v1\nkind: Deployment\n" + fmt.Sprintf(workload, "before", thousandths)
	s.give(deployment, "create")
	for _, a := range []Action{Deny, Audit, Warn} {
		t.Run(string(a), func(t *testing.T) {
			s := site{s.Cluster, t, s.log}
			text := generate(t, func(o *Options) { o.Mutate, o.Action, o.Name = false, a, string(a) }).text
			s.give(text, "apply")
			defer s.give(text, "delete")
			try := func() (string, error) {
				_, warnings, err := s.becomes(t, "default", "", thousandths, "--dry-run=server")
				return warnings, err
			}
			switch a {
			case Warn:
				clustertest.WaitFor(t, patience, func() error {
					warnings, err := try()
					if err == nil && !strings.Contains(warnings, "Warning: Validation failed for ValidatingAdmissionPolicy 'warn-check' with binding 'warn-check': K001 counted in thousandths") {
						err = errors.New("warnings: " + warnings)
					}
					return err
				})
				return
			case Audit: // it is said where no user sees it
				clustertest.WaitFor(t, patience, func() error {
					warnings, err := try()
					log, _ := os.ReadFile(s.log)
					if err == nil && (warnings != "" || !strings.Contains(string(log), "K001 counted in thousandths") || !strings.Contains(string(log), "audit-check")) {
						err = fmt.Errorf("warnings %q, and %d bytes of the audit log without a word of it", warnings, len(log))
					}
					return err
				})
				return
			}
			clustertest.WaitFor(t, patience, func() error {
				if _, err := try(); err == nil || !strings.Contains(err.Error(), "denied request: K001 counted in thousandths: container app: GOMAXPROCS is 250 for 0.25 CPUs") {
					return fmt.Errorf("not refused: %v", err)
				}
				return nil
			})
			if _, _, err := s.KubectlInput(strings.ReplaceAll(deployment, "before", "after"), "create", "-f", "-"); err == nil {
				t.Error("a Deployment is not refused")
			}
			// What was there before goes on: it scales, its labels change, its pods are made.
			s.must("scale", "deployment", "before", "--replicas=3")
			s.must("label", "deployment", "before", "more=x")
			clustertest.WaitFor(t, patience, func() error {
				if got := s.must("get", "pods", "-l", "app=before", "-o", "name"); strings.Count(got, "pod/") != 3 {
					return errors.New("pods: " + got)
				}
				return nil
			})
			if _, _, err := s.Kubectl("set", "env", "deployment/before", "A=1"); err == nil {
				t.Error("a change of the template is not refused")
			}
			// A resize is never refused.
			s.give("apiVersion: v1\nkind: Pod\nmetadata: {name: denied}\nspec: {"+app(limit("2"), env(procsIs("2")))+"}\n", "create")
			clustertest.WaitFor(t, patience, func() error {
				_, stderr, err := s.Kubectl("patch", "pod", "denied", "--subresource=resize", "--dry-run=server", "-p", toFour)
				if err == nil && !strings.Contains(stderr, "stays 2") {
					err = errors.New("no warning: " + stderr)
				}
				return err
			})
		})
	}
}

const toFour = `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"4"},"limits":{"cpu":"4"}}}]}}`

func testResize(t *testing.T, s site) {
	s.t = t
	pods := []struct{ name, spec, want string }{
		{"ready", app(limit("2"), env(procsIs("2"))), "stays 2: it is pinned by a value in its environment"},
		{"by-reference", app(limit("500m"), env(ref("GOMAXPROCS", "limits.cpu", "1"))), "container app: the container's GOMAXPROCS stays 1: it is pinned by resourceFieldRef limits.cpu in its environment, which can't change while it runs (kubectl unthrottle help K004)"},
		{"restarted", app(limit("500m"), "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]", env(ref("GOMAXPROCS", "limits.cpu", "1"))), ""},
		{"restarted-with-a-value", app(limit("500m"), "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]", env(procsIs("2"))), "stays 2"},
		{"without", app(limit("500m"), env(literal("A", "1"))), ""},
		{"ignored-by-go", app(limit("500m"), env(procsIs("auto"))), ""},
		{"from-elsewhere", app(limit("500m"), "env: [{name: GOMAXPROCS, valueFrom: {configMapKeyRef: {name: a, key: b}}}]"), "stays what it was at its start: it is pinned by a reference"},
	}
	for _, p := range pods {
		s.give("apiVersion: v1\nkind: Pod\nmetadata: {name: "+p.name+"}\nspec: {"+p.spec+"}\n", "create")
	}
	resize := func(name string, args ...string) (string, error) {
		_, stderr, err := s.Kubectl(append([]string{"patch", "pod", name, "--subresource=resize", "-p", toFour}, args...)...)
		return stderr, err
	}
	s.apply(t, func() error {
		got, err := resize("ready", "--dry-run=server")
		if err == nil && !strings.Contains(got, "K004") {
			err = errors.New("no warning: " + got)
		}
		return err
	}, func(o *Options) { o.Mutate = false })
	for _, p := range pods {
		t.Run(p.name, func(t *testing.T) {
			got, err := resize(p.name)
			if err != nil || p.want == "" && got != "" || !strings.Contains(got, p.want) {
				t.Errorf("warnings %q, %v", got, err)
			}
		})
	}
	t.Run("a second time", func(t *testing.T) {
		_, got, err := s.Kubectl("patch", "pod", "by-reference", "--subresource=resize", "-p", strings.ReplaceAll(toFour, `"4"`, `"3"`))
		if err != nil || !strings.Contains(got, "stays what it was at its start: it is pinned by resourceFieldRef limits.cpu") {
			t.Errorf("warnings %q, %v", got, err)
		}
	})
}
