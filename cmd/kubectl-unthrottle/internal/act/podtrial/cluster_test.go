package podtrial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/sidecar"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

const limit = 8 * time.Minute // so that a hang ends; it judges no speed

// A bench is a real API server with the controllers and the scheduler, and without a kubelet: objects only.
type bench struct {
	*clustertest.Cluster
	t   *testing.T
	api *API
}

func (b *bench) must(stdin string, args ...string) string {
	b.t.Helper()
	return b.Must(b.t, stdin, args...)
}

func (b *bench) eventually(what string, is func() error) {
	b.t.Helper()
	clustertest.WaitFor(b.t, limit, func() error {
		if err := is(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// open opens a study of deployment/api in namespace team.
func (b *bench) open(study string, lease time.Duration) (*Server, *Space) {
	b.t.Helper()
	data, err := b.api.Workload(b.t.Context(), "team", "deploy/api")
	if err != nil {
		b.t.Fatal(err)
	}
	s := &Server{API: b.api, Scheme: "http", Path: "/", Patience: time.Second, Kit: Kit{
		Study: study, Namespace: "unthrottle-tune-" + study, Owned: true, Image: "unthrottle", PullPolicy: "Never", Port: 8080,
	}}
	if s.Template, err = ParseTemplate(data, "server"); err != nil {
		b.t.Fatal(err)
	}
	space, err := OpenSpace(b.t.Context(), b.api, &s.Kit, s.Template, lease)
	if err != nil {
		b.t.Fatal(err)
	}
	return s, space
}

func TestCluster(t *testing.T) {
	t.Parallel() // with TestNode: both wait
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true})
	place, err := cluster.Locate(cluster.Options{Kubeconfig: c.Kubeconfig, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	client, err := place.Client()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{c, t, &API{client}}
	b.must("", "create", "namespace", "team")
	b.must("", "create", "configmap", "settings", "-n", "team", "--from-literal=A=1")
	b.must("", "create", "secret", "generic", "tls", "-n", "team", "--from-literal=key=secret")
	b.must("", "create", "secret", "generic", "database", "-n", "team", "--from-literal=dsn=x")
	b.must("", "create", "secret", "docker-registry", "registry", "-n", "team", "--docker-server=example.com", "--docker-username=a", "--docker-password=b")
	b.must("", "create", "quota", "cpus", "-n", "team", "--hard=limits.cpu=1500m")
	b.must(deployment, "apply", "-f", "-")
	before := b.state()
	t.Run("manifests", b.manifests)
	t.Run("quota", b.quota)
	t.Run("unscheduled", b.unscheduled)
	t.Run("levels", b.levels)
	t.Run("killed", b.killed)
	t.Run("given namespace", b.given)
	b.t = t
	if after := b.state(); after != before {
		t.Errorf("the user's namespace was\n%s\nand is\n%s", before, after)
	}
}

// state is what is in the user's namespace that we could have changed.
func (b *bench) state() string {
	return b.must("", "get", "deployments,services,configmaps,secrets,quota,limits,serviceaccounts", "-n", "team",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation}{"\n"}{end}`)
}

// manifests: the API server takes all that --dry-run prints, and warns of nothing.
func (b *bench) manifests(t *testing.T) {
	b.t = t
	b.must("", "create", "namespace", "unthrottle-tune-dry")
	for name, test := range map[string]string{deployment: "server", simple: ""} {
		s := &Server{Template: template(t, name, test), Scheme: "http", Path: "/", Kit: Kit{Study: "dry", Namespace: "unthrottle-tune-dry", Owned: true, Image: "unthrottle", Port: 8080, Node: "n1"}}
		all, err := s.Manifests(lab.Setting{CPUs: 1.5, Procs: 2}, trial.Shot{Rate: 100, Lasting: time.Second}, Lease)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := Print(&text, all[1:]); err != nil {
			t.Fatal(err)
		}
		_, stderr, err := b.KubectlInput(text.String(), "create", "--dry-run=server", "--validate=strict", "-f", "-")
		if err != nil || strings.Contains(stderr, "Warning") {
			t.Errorf("%v, %s", err, stderr)
		}
	}
}

// quota: that of the user's namespace is kept to in the study's, and what does not fit is reported.
func (b *bench) quota(t *testing.T) {
	b.t = t
	s, space := b.open("quota", Lease)
	defer space.Close(context.Background())
	b.eventually("the quota is counted", func() error {
		if got := b.must("", "get", "quota", "cpus", "-n", s.Kit.Namespace, "-o", "jsonpath={.status.hard}"); !strings.Contains(got, "1500m") {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	_, err := s.Open(t.Context(), lab.Setting{CPUs: 2}, false)
	if err == nil || !strings.Contains(err.Error(), "the quota has no room for a trial: exceeded quota: cpus, requested: limits.cpu=") {
		t.Errorf("got %v", err)
	}
}

// conforming is a pod that the strictest level takes.
const conforming = `
kind: Pod
metadata: {name: good, namespace: team}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: server
    image: example.com/server:7
    ports: [{containerPort: 8080}]
    securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// levels: trials are held to what the user's namespace lets pods do. Violations are reported, and a pod that conforms has all that a trial
// puts next to it.
func (b *bench) levels(t *testing.T) {
	b.t = t
	labels := []string{"enforce=restricted", "enforce-version=latest", "warn=restricted", "audit=baseline"}
	for _, l := range labels {
		b.must("", "label", "namespace", "team", security+l)
		name, _, _ := strings.Cut(l, "=")
		defer b.must("", "label", "namespace", "team", security+name+"-")
	}
	s, space := b.open("levels", Lease)
	defer space.Close(context.Background())
	got := b.must("", "get", "namespace", s.Kit.Namespace, "--show-labels", "--no-headers")
	for _, l := range labels {
		if !strings.Contains(got, security+l) {
			t.Errorf("%s is not in %s", l, got)
		}
	}
	_, err := s.Open(t.Context(), lab.Setting{CPUs: 0.5}, false)
	if err == nil || !strings.Contains(err.Error(), `no pod may be made for a trial: violates PodSecurity "restricted:latest"`) || !strings.Contains(strings.Join(hint.Of(err), "; "), "Pod Security level of the workload's") {
		t.Errorf("got %v; %q", err, hint.Of(err))
	}
	s.Template = template(t, conforming, "")
	if _, err = s.Open(t.Context(), lab.Setting{CPUs: 0.5}, false); err == nil || !strings.Contains(err.Error(), "no node took the pod within") {
		t.Errorf("a pod that conforms: %v", err)
	}
	load := s.Kit.LoadJob(s.Template, "run-2", "load-2-1", []string{"http://10.0.0.1:8080/"}, time.Minute)
	if err := s.API.Create(t.Context(), load, nil); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"load-2-1", "expire"} {
		b.eventually("a pod of "+job, func() error {
			if b.must("", "get", "pods", "-n", s.Kit.Namespace, "-l", "batch.kubernetes.io/job-name="+job, "-o", "name") == "" {
				return errors.New("there is none")
			}
			return nil
		})
	}
}

// unscheduled: what the scheduler says is reported.
func (b *bench) unscheduled(t *testing.T) {
	b.t = t
	s, space := b.open("nodes", Lease)
	defer space.Close(context.Background())
	_, err := s.Open(t.Context(), lab.Setting{CPUs: 0.5}, false)
	if err == nil || !strings.Contains(err.Error(), "no node took the pod within") || !strings.Contains(err.Error(), "no nodes available") {
		t.Errorf("got %v", err)
	}
	if got := b.must("", "get", "jobs", "-n", s.Kit.Namespace, "-o", "name"); strings.Contains(got, "run-1") {
		t.Errorf("left are %s", got)
	}
}

// killed: nothing is left of an abandoned study after its deadline: what it owns goes with its owner, and the namespace is
// removed by what runs in it, with the rights that it has.
func (b *bench) killed(t *testing.T) {
	b.t = t
	s, space := b.open("killed", 5*time.Second)
	space.stop() // as if it were killed
	space.done.Wait()
	job, err := s.Kit.ServerJob(s.Template, "run-1", lab.Setting{CPUs: 1}, false, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.API.Create(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	in := s.Kit.Namespace
	if got := b.must("", "get", "secrets,configmaps", "-n", in, "-o", "name"); !strings.Contains(got, "secret/registry") || !strings.Contains(got, "configmap/settings") {
		t.Errorf("taken along were %s", got)
	}
	u, _ := url.Parse(b.URL)
	host, port, _ := net.SplitHostPort(u.Host)
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.crt": string(b.CA), "token": b.must("", "create", "token", "expire", "-n", in)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err = sidecar.Expire(ctx, sidecar.Expiry{Namespace: in, Owner: "study", Every: 100 * time.Millisecond, Dir: dir, Log: &log, Env: func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
	}})
	if err != nil || ctx.Err() != nil || log.Len() > 0 {
		t.Errorf("%v, %v, its log: %s", err, ctx.Err(), &log)
	}
	b.gone(in)
}

// gone waits until a namespace is, with what is in it.
func (b *bench) gone(namespace string) {
	b.t.Helper()
	b.eventually("namespace "+namespace, func() error {
		out, _, err := b.Kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("it is there still")
		}
		return err
	})
}

// given: in a namespace that was there before, all that was made goes on its own as well.
func (b *bench) given(t *testing.T) {
	b.t = t
	b.must("", "create", "namespace", "trials")
	s := &Server{API: b.api, Template: template(t, simple, ""), Scheme: "http", Kit: Kit{Study: "given", Namespace: "trials", Image: "unthrottle", Port: 80}}
	space, err := OpenSpace(t.Context(), b.api, &s.Kit, s.Template, 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	space.stop()
	space.done.Wait()
	job, err := s.Kit.ServerJob(s.Template, "run-1", lab.Setting{CPUs: 1}, false, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.API.Create(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("what was made", func() error {
		var all struct{ Items []json.RawMessage }
		if err := s.API.List(t.Context(), jobs("trials"), "", &all); err != nil {
			return err
		}
		if n := len(all.Items); n > 0 {
			return fmt.Errorf("%d Jobs are left", n)
		}
		return nil
	})
}
