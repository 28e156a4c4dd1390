//go:build linux

package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/internal/helper"
)

const limit = 2 * time.Minute // it judges no speed

// eventually waits until kubectl prints want.
func eventually(t *testing.T, c *Cluster, want string, args ...string) {
	t.Helper()
	WaitFor(t, limit, func() error {
		stdout, _, err := c.Kubectl(args...)
		if err == nil && stdout != want {
			err = fmt.Errorf("kubectl %s printed %q, want %q", strings.Join(args, " "), stdout, want)
		}
		return err
	})
}

func TestAPIServer(t *testing.T) {
	c := Start(t, Options{ExtraAPIServerFlags: []string{"--service-cluster-ip-range=10.7.0.0/24"}})
	t.Run("version", func(t *testing.T) {
		if got := c.Must(t, "", "version"); strings.Count(got, KubernetesVersion) != 2 {
			t.Errorf("kubectl version printed\n%s\nwant %s of both", got, KubernetesVersion)
		}
	})
	t.Run("deployment", func(t *testing.T) {
		c.Must(t, "", "apply", "-f", "testdata/deployment.yaml")
		got := c.Must(t, "", "get", "deployment", "server", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].resources.limits.cpu}")
		if got != "2 500m" {
			t.Errorf("replicas and limit are %q", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		_, stderr, err := c.KubectlInput("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n", "apply", "-f", "-")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(stderr, "RFC 1123") || !strings.Contains(err.Error(), "RFC 1123") {
			t.Errorf("a bad name: stderr %q, error %v", stderr, err)
		}
	})
	t.Run("extra flags", func(t *testing.T) {
		if got := c.Must(t, "", "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"); got != "10.7.0.1" {
			t.Errorf("the service kubernetes has the address %q", got)
		}
	})
	t.Run("rbac", func(t *testing.T) {
		stdout, _, err := c.Kubectl("auth", "can-i", "get", "pods", "--as=nobody")
		if err == nil || strings.TrimSpace(stdout) != "no" {
			t.Errorf("nobody may get pods: %q, %v", stdout, err)
		}
		c.Must(t, "", "create", "clusterrole", "reader", "--verb=get", "--resource=pods")
		c.Must(t, "", "create", "clusterrolebinding", "nobody", "--clusterrole=reader", "--user=nobody")
		eventually(t, c, "yes\n", "auth", "can-i", "get", "pods", "--as=nobody")
	})
	t.Run("policy", func(t *testing.T) { testPolicy(t, c) })
}

func testPolicy(t *testing.T, c *Cluster) {
	env := []string{"-o", `jsonpath={.spec.containers[0].env[?(@.name=="GOMAXPROCS")].value}`}
	create := append([]string{"create", "--dry-run=server", "-f", "testdata/pods.yaml"}, env...)
	if got := c.Must(t, "", create...); got != "7" {
		t.Fatalf("without a policy GOMAXPROCS is %q, want that of the pod which has it", got)
	}
	c.Must(t, "", "apply", "-f", "testdata/policy.yaml")
	// The server follows its policies in its own time.
	WaitFor(t, limit, func() error {
		if got := c.Must(t, "", create...); got == "7" {
			return errors.New("the policy has no effect")
		}
		return nil
	})
	c.Must(t, "", "create", "-f", "testdata/pods.yaml")
	for pod, want := range map[string]string{"half": "2", "two-and-a-half": "3", "three": "3", "already": "7", "unlimited": ""} {
		if got := c.Must(t, "", append([]string{"get", "pod", pod}, env...)...); got != want {
			t.Errorf("pod %s has GOMAXPROCS=%q, want %q", pod, got, want)
		}
	}
	for _, version := range []string{"v1", "v1beta1"} {
		got := c.Must(t, "", "get", "mutatingadmissionpolicies."+version+".admissionregistration.k8s.io", "-o", "jsonpath={.items[*].metadata.name}")
		if got != "gomaxprocs" {
			t.Errorf("policies by version %s are %q", version, got)
		}
	}
}

func TestControllersAndScheduler(t *testing.T) {
	c := Start(t, Options{ControllerManager: true, Scheduler: true})
	c.Must(t, "", "apply", "-f", "testdata/deployment.yaml")
	eventually(t, c, "2", "get", "deployment", "server", "-o", "jsonpath={.status.replicas}")
	eventually(t, c, "Deployment/server", "get", "replicasets", "-o", "jsonpath={range .items[*].metadata.ownerReferences[*]}{.kind}/{.name}{end}")
	eventually(t, c, "500m 500m", "get", "pods", "-l", "app=server", "-o", "jsonpath={.items[*].spec.containers[0].resources.limits.cpu}")
	eventually(t, c, "Unschedulable Unschedulable", "get", "pods", "-l", "app=server", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].reason}`)
	c.Must(t, "", "create", "-f", "testdata/node.yaml")
	eventually(t, c, "one one", "get", "pods", "-l", "app=server", "-o", "jsonpath={.items[*].spec.nodeName}")
}

// As a helper the test binary has a cluster that its parent looks at.
const variable = "UNTHROTTLE_CLUSTERTEST_HELPER"

func TestHelper(t *testing.T) {
	switch os.Getenv(variable) {
	case "":
		t.Skip("it is for other tests")
	case "wait":
		c := Start(t, Options{ControllerManager: true, Scheduler: true})
		fmt.Println(c.Dir)
		select {}
	case "wait with a node":
		c := Start(t, Options{ControllerManager: true, Scheduler: true, Nodes: 1})
		c.Import(t, GoImage(t, worker, "./testdata/worker"))
		c.Must(t, "", "apply", "-f", "testdata/agent.yaml")
		c.WaitPods(t, "default", "app=agent", 1, "Running")
		fmt.Println(c.Dir, c.network.bridge())
		select {}
	case "bad flag":
		Start(t, Options{ExtraAPIServerFlags: []string{"--no-such-flag"}})
	case "ended":
		c := Start(t, Options{})
		c.processes[0].cmd.Process.Kill()
		<-c.processes[0].ended
	}
}

// TestKilled kills a test in the middle. Its cluster must go with it, and its files.
func TestKilled(t *testing.T) {
	needPrograms(t)
	dir, kill := helper.Start(t, variable, "wait")
	// etcd, API server, controller manager, scheduler, and the shell that removes the files
	if got := processesOf(t, dir); len(got) != 5 {
		t.Errorf("processes of the run are %q", got)
	}
	kill()
	WaitFor(t, limit, func() error { return left(t, dir) })
}

// TestKilledWithNode does so with a node and its containers. Nothing of it may be left either, in the whole machine.
func TestKilledWithNode(t *testing.T) {
	needPrograms(t, "kubelet")
	if err := nodesPossible(); err != nil {
		skip(t, err)
	}
	before := Sysctls()
	line, kill := helper.Start(t, variable, "wait with a node")
	dir, bridge, _ := strings.Cut(line, " ")
	groups, err := ownGroups("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	places := []string{"/sys/class/net/" + bridge}
	for _, g := range groups {
		places = append(places, filepath.Join(g.Dir, filepath.Base(dir)))
	}
	for _, place := range places {
		if _, err := os.Stat(place); err != nil {
			t.Errorf("in the middle: %v", err)
		}
	}
	// Besides the others: shells for files and groups, and in the node its first process, containerd, kubelet, shim, pause and the container.
	if got := processesOf(t, dir); len(got) < 3+2+6 {
		t.Errorf("processes of the run are %q", got)
	}
	kill()
	WaitFor(t, limit, func() error {
		for _, place := range places {
			if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is left: %v", place, err)
			}
		}
		return left(t, dir)
	})
	if after := Sysctls(); !maps.Equal(before, after) {
		t.Errorf("the machine's settings were %v, and are %v", before, after)
	}
}

// left says what there is of a run.
func left(t *testing.T, dir string) error {
	if all := processesOf(t, dir); len(all) > 0 {
		return fmt.Errorf("processes are left: %q", all)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("files are left: %v", err)
	}
	return nil
}

// processesOf returns the command lines in which a directory is named, and those of processes that have something in it
// mounted, as all have on a node.
func processesOf(t *testing.T, dir string) (all []string) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		line, _ := os.ReadFile(process + "/cmdline")
		mounts, _ := os.ReadFile(process + "/mountinfo")
		if bytes.Contains(line, []byte(dir)) || bytes.Contains(mounts, []byte(filepath.Base(dir))) {
			all = append(all, strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " "))
		}
	}
	return all
}

// TestFailures reads what a failing test says.
func TestFailures(t *testing.T) {
	needPrograms(t)
	for _, c := range []struct {
		as   string
		want []string
	}{
		{"bad flag", []string{
			"starting a cluster: kube-apiserver has ended: exit status 1",
			"the end of the log of kube-apiserver:", "unknown flag: --no-such-flag", "the end of the log of etcd:",
		}},
		{"ended", []string{"etcd has ended: signal: killed", "the end of the log of kube-apiserver:"}},
	} {
		t.Run(c.as, func(t *testing.T) {
			out, err := helper.Command(variable, c.as).CombinedOutput()
			if err == nil {
				t.Error("the helper did not fail")
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("nothing is said of %q:\n%s", want, out)
				}
			}
		})
	}
}

func needPrograms(t *testing.T, more ...string) {
	t.Helper()
	unwanted(t)
	all := append([]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}, more...)
	if _, err := find(all...); err != nil {
		skip(t, err)
	}
}

// A tester notes how a test ended.
type tester struct {
	testing.TB
	skipped, failed string
}

func (r *tester) Skip(args ...any)  { r.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (r *tester) Fatal(args ...any) { r.failed = fmt.Sprint(args...); runtime.Goexit() }

func TestNotBuilt(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const want = "etcd, kube-apiserver, kubectl of Kubernetes " + KubernetesVersion + " is not built in "
	const command = "; in the repository, this builds it: go -C cmd/kubectl-unthrottle run ./clustertest/build"
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprintf("required=%v", required), func(t *testing.T) {
			t.Setenv("UNTHROTTLE_REQUIRE_CLUSTER", map[bool]string{true: "1"}[required])
			r := &tester{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Start(r, Options{})
			}()
			<-done
			text, other := r.skipped, r.failed
			if required {
				text, other = other, text
			}
			if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, command) || other != "" {
				t.Errorf("skipped for %q, failed for %q", r.skipped, r.failed)
			}
		})
	}
}

func TestReservePort(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", p.number)
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Errorf("%s is reserved, and was free for somebody else", address)
	}
	p.close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("%s is not free after close: %v", address, err)
	}
	l.Close()
}

func TestWaitFor(t *testing.T) {
	times := 0
	WaitFor(t, limit, func() error {
		if times++; times < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if times != 3 {
		t.Errorf("asked %d times", times)
	}
	never, hopeless := errors.New("never"), errors.New("hopeless")
	err := waitFor(t.Context(), 0, func() error { return never }, func() error { return nil })
	if !errors.Is(err, never) {
		t.Errorf("at the end the error is %v", err)
	}
	err = waitFor(t.Context(), limit, func() error { return never }, func() error { return hopeless })
	if !errors.Is(err, hopeless) {
		t.Errorf("without hope the error is %v", err)
	}
}
