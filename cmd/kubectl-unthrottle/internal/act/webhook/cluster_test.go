package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/webhook"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

// As the command itself the test binary can be killed.
const command = "UNTHROTTLE_WEBHOOK_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(command) == "1" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const limit = 8 * time.Minute // so that a hang ends; it judges no speed

// The configuration gives a webhook two seconds. Anything above that is the machine's fault.
const (
	timeout = 2 * time.Second
	slack   = 20 * time.Second
)

// A bench is a cluster with what deploy/webhook puts there, and the credentials of its service account.
type bench struct {
	*clustertest.Cluster
	t           *testing.T
	credentials string
	client      *http.Client
}

func newBench(t *testing.T) *bench {
	c := clustertest.Start(t, clustertest.Options{ControllerManager: true})
	b := &bench{Cluster: c, t: t, credentials: t.TempDir()}
	b.must("apply", "-k", "../../../../../deploy/webhook")
	b.must("create", "namespace", "shop")
	token := b.must("create", "token", "unthrottle-webhook", "-n", "unthrottle")
	for name, text := range map[string][]byte{"token": []byte(token), "ca.crt": c.CA, "namespace": []byte("unthrottle")} {
		if err := os.WriteFile(filepath.Join(b.credentials, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	b.client = &http.Client{Timeout: limit, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	t.Cleanup(b.client.CloseIdleConnections)
	clustertest.WaitFor(t, limit, func() error {
		_, _, err := b.Kubectl("get", "serviceaccount", "default", "-n", "shop")
		return err
	})
	return b
}

func (b *bench) must(args ...string) string {
	b.t.Helper()
	return b.Must(b.t, "", args...)
}

func (b *bench) env(name string) string {
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(b.URL, "https://"))
	return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
}

// point makes the API server call an address for what the committed configuration sends to the Service. ca replaces the
// caBundle; nil leaves it to the webhook.
func (b *bench) point(address string, ca []byte) {
	b.t.Helper()
	var patch []map[string]any
	for i, path := range []string{webhook.MutatePath, webhook.ResizePath} {
		at := fmt.Sprintf("/webhooks/%d/clientConfig", i)
		patch = append(patch,
			map[string]any{"op": "add", "path": at + "/service", "value": nil},
			map[string]any{"op": "add", "path": at + "/url", "value": "https://" + address + path})
		if ca != nil {
			patch = append(patch, map[string]any{"op": "add", "path": at + "/caBundle", "value": ca})
		}
	}
	text, err := json.Marshal(patch)
	if err != nil {
		b.t.Fatal(err)
	}
	b.must("patch", "mutatingwebhookconfiguration", "unthrottle-webhook", "--type=json", "-p", string(text))
}

// A process is the command as a process.
type process struct {
	cmd                 *exec.Cmd
	reviews, operations string
	read                chan struct{} // closed at the end of its log
	mu                  sync.Mutex
	log                 bytes.Buffer
}

var addresses = regexp.MustCompile(`reviews=https://(\S+) operations=(\S+)`)

func (b *bench) start(args ...string) *process {
	b.t.Helper()
	args = append([]string{"webhook", "--listen=127.0.0.1:0", "--operations=127.0.0.1:0", "--dns-name=127.0.0.1", "--credentials=" + b.credentials, "--drain=1s"}, args...)
	p := &process{cmd: exec.Command(os.Args[0], args...), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), command+"=1", "GOMEMLIMIT=200MiB", // as in the Deployment
		"KUBERNETES_SERVICE_HOST="+b.env("KUBERNETES_SERVICE_HOST"), "KUBERNETES_SERVICE_PORT="+b.env("KUBERNETES_SERVICE_PORT"))
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	found := make(chan []string, 1)
	go func() {
		defer close(p.read)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.log, s.Text())
			p.mu.Unlock()
			if m := addresses.FindStringSubmatch(s.Text()); m != nil {
				found <- m
			}
		}
	}()
	b.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.read
		p.cmd.Wait()
		if b.t.Failed() {
			b.t.Logf("the end of the webhook's log:\n%s", p.text(8000))
		}
	})
	select {
	case m := <-found:
		p.reviews, p.operations = m[1], m[2]
	case <-p.read:
		b.t.Fatalf("the webhook has ended:\n%s", p.text(8000))
	}
	clustertest.WaitFor(b.t, limit, func() error {
		_, err := fetch(p.operations + "/readyz")
		return err
	})
	return p
}

func (p *process) text(most int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.log.String()
	return text[max(0, len(text)-most):]
}

func fetch(url string) (string, error) {
	r, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return string(text), err
}

// A made pod is what the API server answered.
type made struct {
	Code     int
	Message  string
	Pod      pod
	Warnings []string
	Took     time.Duration
}

type pod struct {
	Metadata struct{ Name string }
	Spec     struct{ Containers []struct{ Env []variable } }
}

type variable struct {
	Name, Value string
	ValueFrom   *struct {
		ResourceFieldRef struct{ Resource, Divisor string }
	}
}

// procs is GOMAXPROCS of the first container: its value, or what it comes from.
func (p pod) procs() string {
	if len(p.Spec.Containers) == 0 {
		return "no container"
	}
	for _, v := range p.Spec.Containers[0].Env {
		switch {
		case v.Name != "GOMAXPROCS":
		case v.ValueFrom != nil:
			return v.ValueFrom.ResourceFieldRef.Resource + "/" + v.ValueFrom.ResourceFieldRef.Divisor
		default:
			return v.Value
		}
	}
	return ""
}

// create makes a pod of a text in YAML; with dry it is not kept.
func (b *bench) create(text string, dry bool) (m made, err error) {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return m, err
	}
	url := b.URL + "/api/v1/namespaces/shop/pods"
	if dry {
		url += "?dryRun=All"
	}
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return m, err
	}
	r.Header.Set("Authorization", "Bearer "+b.Token)
	r.Header.Set("Content-Type", "application/json")
	start := time.Now()
	answer, err := b.client.Do(r)
	if err != nil {
		return m, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return m, err
	}
	m.Code, m.Took = answer.StatusCode, time.Since(start)
	for _, w := range answer.Header.Values("Warning") { // 299 - "text"
		text, err := strconv.Unquote(strings.TrimPrefix(w, "299 - "))
		if err != nil {
			return m, fmt.Errorf("the warning %s: %w", w, err)
		}
		m.Warnings = append(m.Warnings, text)
	}
	var status struct{ Message string }
	json.Unmarshal(body, &status)
	m.Message = status.Message
	return m, json.Unmarshal(body, &m.Pod)
}

// thousandths is a pod that is repaired.
const thousandths = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - name: app
    image: registry.example.com/app:1
    resources: {limits: {cpu: 250m}}
    env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]
`

func named(text, name string) string { return strings.ReplaceAll(text, "NAME", name) }

// reached waits until pods are looked at: the API server follows its configurations in its own time.
func (b *bench) reached(want bool) {
	b.t.Helper()
	clustertest.WaitFor(b.t, limit, func() error {
		m, err := b.create(named(thousandths, "probe"), true)
		if err == nil && (m.Code != http.StatusCreated || len(m.Warnings) > 0 != want) {
			err = fmt.Errorf("%d %s, warnings %q", m.Code, m.Message, m.Warnings)
		}
		return err
	})
}

// Load is what became of many pods at a steady rate.
type load struct {
	sent, seen int // seen: they were looked at
	refused    []string
	took       []time.Duration
}

// run creates pods at a rate, without keeping them. A pod is due at its time, regardless of what became of those before.
func (b *bench) run(rate int, during time.Duration) *load {
	l := &load{sent: int(float64(rate) * during.Seconds())}
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := time.Now()
	for i := range l.sent {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		all.Go(func() {
			m, err := b.create(named(thousandths, "load-"+strconv.Itoa(i)), true)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || m.Code != http.StatusCreated {
				l.refused = append(l.refused, fmt.Sprintf("%v %d %s", err, m.Code, m.Message))
			}
			if len(m.Warnings) > 0 {
				l.seen++
			}
			l.took = append(l.took, m.Took)
		})
	}
	all.Wait()
	slices.Sort(l.took)
	return l
}

// judge holds a load to what must never happen, and logs the rest.
func (l *load) judge(t *testing.T, what string) {
	t.Helper()
	at := func(share float64) time.Duration {
		return l.took[int(share*float64(len(l.took)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%s: %d pods, %d looked at, %d refused; p50 %v, p99 %v, most %v", what, l.sent, l.seen, len(l.refused), at(0.5), at(0.99), at(1))
	if len(l.refused) > 0 {
		t.Errorf("%s: %d pods were refused, one with %s", what, len(l.refused), l.refused[0])
	}
	if most := at(1); most > timeout+slack {
		t.Errorf("%s: a pod took %v", what, most)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel() // with TestRotation, which waits
	b := newBench(t)
	t.Run("nobody there", func(t *testing.T) { b.nobody(t) })
	t.Run("warn", func(t *testing.T) { b.warns(t) })
	t.Run("its caBundle alone", func(t *testing.T) { b.alone(t) })
	t.Run("fix", func(t *testing.T) { b.fixes(t) })
	t.Run("trouble", func(t *testing.T) { b.trouble(t) })
}

// nobody is the time before the first replica serves: the Service has no endpoint.
func (b *bench) nobody(t *testing.T) {
	clustertest.WaitFor(t, limit, func() error {
		if got := b.must("get", "deployment", "unthrottle-webhook", "-n", "unthrottle", "-o", "jsonpath={.status.replicas}"); got != "2" {
			return fmt.Errorf("the Deployment has %q pods", got)
		}
		return nil
	})
	// The API server warns of pods that such a namespace would not admit.
	if _, stderr, err := b.Kubectl("label", "--dry-run=server", "--overwrite", "namespace", "unthrottle", "pod-security.kubernetes.io/enforce=restricted"); err != nil || stderr != "" {
		t.Errorf("a restricted namespace: %v %s", err, stderr)
	}
	m, err := b.create(named(thousandths, "nobody"), true)
	if err != nil || m.Code != http.StatusCreated {
		t.Errorf("%d %s %v", m.Code, m.Message, err)
	}
	b.checked("shop", 1, "no caBundle yet", "kubectl -n unthrottle get pods,endpointslices")
	b.run(100, 2*time.Second).judge(t, "a Service without endpoints, 100 a second")
}

// checked runs webhook --check in a namespace.
func (b *bench) checked(namespace string, code int, wants ...string) {
	b.t.Helper()
	var out bytes.Buffer
	got := cli.Main(b.t.Context(), []string{"webhook", "--check", "-n", namespace, "--kubeconfig", b.Kubeconfig}, os.Getenv, strings.NewReader(""), &out, &out)
	for _, want := range wants {
		if got != code || !strings.Contains(out.String(), want) {
			b.t.Errorf("--check in %s: exit code %d, want %d and %q: %s", namespace, got, code, want, out.String())
		}
	}
	if pods := b.must("get", "pods", "-n", namespace, "-o", "name"); strings.Contains(pods, "probe") {
		b.t.Errorf("--check left %s", pods)
	}
}

func (b *bench) warns(t *testing.T) {
	p := b.start()
	b.point(p.reviews, nil)
	b.reached(true)
	m, err := b.create(named(thousandths, "warned"), false)
	if err != nil || m.Code != http.StatusCreated || m.Pod.procs() != "limits.cpu/1m" {
		t.Fatalf("%+v, %v", m, err)
	}
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "GOMAXPROCS is 250 for 0.25 CPUs (K001)") {
		t.Errorf("warnings %q", m.Warnings)
	}
	_, stderr, err := b.KubectlInput(named(thousandths, "seen"), "apply", "-n", "shop", "-f", "-")
	if err != nil || !strings.Contains(stderr, `Warning: unthrottle: container "app": GOMAXPROCS is 250`) {
		t.Errorf("kubectl: %v, %s", err, stderr)
	}
	t.Logf("kubectl apply says\n%s", stderr)
	b.checked("shop", 0, "The webhook works", `container "unthrottle-webhook-probe": GOMEMLIMIT is 64 bytes for a memory limit of 64Mi (K001)`)
	b.checked("unthrottle", 1, "leaves the namespace unthrottle alone", "-n NAME")
	b.checked("nosuch", 1, `namespaces "nosuch" not found`)
	// It exits when asked to, and says so in its exit code.
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.read
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.text(1<<20), "msg=left") {
		t.Errorf("its end: %v", err)
	}
	b.checked("shop", 1, "the API server did not reach its Service in time")
	t.Logf("the log of the webhook:\n%s", p.text(4000))
	b.may(t)
}

// may asks the API server what the service account may do.
func (b *bench) may(t *testing.T) {
	as := "--as=system:serviceaccount:unthrottle:unthrottle-webhook"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"yes", []string{"update", "secrets/unthrottle-webhook-certificate", "-n", "unthrottle"}},
		{"yes", []string{"patch", "mutatingwebhookconfigurations/unthrottle-webhook"}},
		{"no", []string{"get", "secrets", "-n", "unthrottle"}},
		{"no", []string{"create", "secrets", "-n", "unthrottle"}},
		{"no", []string{"get", "secrets/unthrottle-webhook-certificate", "-n", "shop"}},
		{"no", []string{"update", "mutatingwebhookconfigurations/unthrottle-webhook"}},
		{"no", []string{"patch", "mutatingwebhookconfigurations/another"}},
		{"no", []string{"list", "pods", "-A"}},
	} {
		stdout, _, _ := b.Kubectl(append([]string{"auth", "can-i", as}, c.args...)...)
		if got := strings.TrimSpace(stdout); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
}

// alone changes the webhook's configuration as its own account, and as another user.
func (b *bench) alone(t *testing.T) {
	const bundle = `[{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":"%s"}]`
	before := b.must("get", "mutatingwebhookconfiguration", "unthrottle-webhook", "-o", "jsonpath={.webhooks[1].clientConfig.caBundle}")
	_, other := signed(t, time.Now().Add(time.Hour))
	patch := func(who, text string) error {
		args := []string{"patch", "mutatingwebhookconfiguration", "unthrottle-webhook", "--type=json", "-p", text}
		if who != "" {
			args = append(args, "--as=system:serviceaccount:unthrottle:"+who)
		}
		_, _, err := b.Kubectl(args...)
		return err
	}
	const rule = `[{"op":"replace","path":"/webhooks/0/rules/0/resources/0","value":"%s"}]`
	// The API server follows its policies in its own time.
	clustertest.WaitFor(t, limit, func() error {
		if err := patch("unthrottle-webhook", fmt.Sprintf(rule, "secrets")); err == nil {
			b.must("patch", "mutatingwebhookconfiguration", "unthrottle-webhook", "--type=json", "-p", fmt.Sprintf(rule, "pods"))
			return errors.New("the webhook's account changes the rules")
		} else if !strings.Contains(err.Error(), "may change the caBundle of its own configuration, and nothing else") {
			return err
		}
		return nil
	})
	for name, text := range map[string]string{
		"another address": `[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://attacker.example/"}}]`,
		"one more":        `[{"op":"copy","from":"/webhooks/0","path":"/webhooks/-"},{"op":"replace","path":"/webhooks/2/name","value":"more.unthrottle.dev"}]`,
		"none":            `[{"op":"replace","path":"/webhooks","value":[]}]`,
		"failing":         `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`,
		"no conditions":   `[{"op":"remove","path":"/webhooks/0/matchConditions"}]`,
		"no exemptions":   `[{"op":"replace","path":"/webhooks/0/namespaceSelector","value":{}}]`,
		"its time":        `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}]`,
		"a label":         `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
		"an annotation":   `[{"op":"add","path":"/metadata/annotations/a","value":"b"}]`,
	} {
		if err := patch("unthrottle-webhook", text); err == nil || !strings.Contains(err.Error(), "and nothing else") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ca := range []string{base64.StdEncoding.EncodeToString(other), before} {
		if err := patch("unthrottle-webhook", fmt.Sprintf(bundle, ca)); err != nil {
			t.Errorf("its caBundle: %v", err)
		}
	}
	for _, text := range []string{fmt.Sprintf(rule, "services"), fmt.Sprintf(rule, "pods")} {
		if err := patch("", text); err != nil {
			t.Errorf("an administrator: %v", err)
		}
	}
}

func (b *bench) fixes(t *testing.T) {
	p := b.start("--mode=fix", "--exempt-container=proxy", "--verbose")
	b.point(p.reviews, nil)
	b.reached(true)
	b.checked("shop", 0, "The webhook works", "GOMEMLIMIT is now")
	const container = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, METADATA}
spec: {containers: [{name: app, image: registry.example.com/app:1, CONTAINER}]}
`
	const reference = `env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]`
	for _, c := range []struct {
		name, metadata, container string
		want                      string
		warning                   string // "" for none
	}{
		{"divisor", "", `resources: {limits: {cpu: 250m}}, ` + reference, "limits.cpu/1", `the divisor of GOMAXPROCS is now`},
		{"no-limit", "", reference, "", "GOMAXPROCS is taken out: "},
		{"no-number", "", `resources: {limits: {cpu: 1500m}}, env: [{name: GOMAXPROCS, value: "1.5"}]`, "limits.cpu/1", "GOMAXPROCS is now limits.cpu"},
		{"too-many", "", `resources: {limits: {cpu: 250m}}, env: [{name: GOMAXPROCS, value: "64"}]`, "2", `GOMAXPROCS is now "2"`},
		{"already", "", `resources: {limits: {cpu: 2}}, env: [{name: GOMAXPROCS, value: "2"}]`, "2", ""},
		{"without", "", `resources: {limits: {cpu: 2}}`, "", ""},
		{"memory", "", `resources: {limits: {memory: 512Mi}}, env: [{name: GOMEMLIMIT, value: 400MiB}]`, "", ""},
		{"labelled", "labels: {unthrottle.dev/ignore: all}", `resources: {limits: {cpu: 250m}}, ` + reference, "limits.cpu/1m", ""},
		{"annotated", "annotations: {unthrottle.dev/ignore: 'K001 it is so'}", `resources: {limits: {cpu: 250m}}, ` + reference, "limits.cpu/1m", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.NewReplacer("METADATA", c.metadata, "CONTAINER", c.container, "NAME", c.name).Replace(container)
			m, err := b.create(text, false)
			if err != nil || m.Code != http.StatusCreated {
				t.Fatalf("%d %s %v", m.Code, m.Message, err)
			}
			if got := m.Pod.procs(); got != c.want {
				t.Errorf("GOMAXPROCS is %q, want %q", got, c.want)
			}
			if c.warning == "" && len(m.Warnings) > 0 || c.warning != "" && (len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], c.warning)) {
				t.Errorf("warnings %q, want %q", m.Warnings, c.warning)
			}
		})
	}
	t.Run("exempt container", func(t *testing.T) {
		m, err := b.create(strings.Replace(named(thousandths, "exempt"), "name: app", "name: proxy", 1), true)
		if err != nil || m.Pod.procs() != "limits.cpu/1m" || len(m.Warnings) > 0 {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("namespaces", func(t *testing.T) {
		for _, args := range [][]string{{"create", "namespace", "alone"}, {"label", "namespace", "alone", "unthrottle.dev/ignore=all"}} {
			b.must(args...)
		}
		clustertest.WaitFor(t, limit, func() error {
			_, _, err := b.Kubectl("get", "serviceaccount", "default", "-n", "alone")
			return err
		})
		for _, namespace := range []string{"alone", "kube-system"} {
			_, stderr, err := b.KubectlInput(named(thousandths, "there"), "create", "--dry-run=server", "-n", namespace, "-f", "-")
			if err != nil || strings.Contains(stderr, "Warning") {
				t.Errorf("%s: %v %s", namespace, err, stderr)
			}
		}
	})
	t.Run("Deployment and Job", func(t *testing.T) {
		for _, c := range []struct{ name, text string }{
			{"served", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: served}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: served}}\n  template:\n    metadata: {labels: {app: served}}\nSPEC"},
			{"done", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: done}\nspec:\n  template:\n    metadata: {labels: {app: done}}\nSPEC      restartPolicy: Never\n"},
		} {
			_, spec, _ := strings.Cut(thousandths, "spec:\n")
			var indented strings.Builder
			for line := range strings.Lines("spec:\n" + spec) {
				indented.WriteString("    " + line)
			}
			if _, _, err := b.KubectlInput(strings.Replace(c.text, "SPEC", indented.String(), 1), "create", "-n", "shop", "-f", "-"); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"served": "1 1", "done": "1"}[c.name]
			clustertest.WaitFor(t, limit, func() error {
				got, _, err := b.Kubectl("get", "pods", "-n", "shop", "-l", "app="+c.name, "-o", "jsonpath={.items[*].spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor}")
				if err == nil && got != want {
					err = fmt.Errorf("%s: the divisors are %q, want %q", c.name, got, want)
				}
				return err
			})
		}
		for _, subject := range []string{"pod=Deployment/served", "pod=Job/done"} {
			if !strings.Contains(p.text(1<<20), subject) {
				t.Errorf("the log has no %s", subject)
			}
		}
	})
	t.Run("resize", func(t *testing.T) {
		resize := func(name, resource, to string) string {
			t.Helper()
			patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"limits":{%[1]q:%[2]q},"requests":{%[1]q:%[2]q}}}]}}`, resource, to)
			_, stderr, err := b.Kubectl("patch", "pod", name, "-n", "shop", "--subresource=resize", "-p", patch)
			if err != nil {
				t.Error(err)
			}
			t.Logf("kubectl patch pod %s --subresource=resize, to %s: %s", name, to, stderr)
			return stderr
		}
		for _, c := range []struct{ pod, resource, to, want string }{
			{"divisor", "cpu", "500m", "GOMAXPROCS stays 1: it is pinned by limits.cpu"},
			{"divisor", "cpu", "2", "GOMAXPROCS stays what it was at its start"},
			{"already", "cpu", "3", "GOMAXPROCS stays 2: it is pinned by a value"},
			{"memory", "memory", "256Mi", "GOMEMLIMIT stays 400MiB: it is pinned by a value in its environment, which can't change while it runs; it leaves nothing of the new memory limit of 256Mi"},
			{"without", "cpu", "3", ""},
			{"labelled", "cpu", "1", ""},
		} {
			if got := resize(c.pod, c.resource, c.to); c.want == "" && strings.Contains(got, "unthrottle") || !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.pod, got, c.want)
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		text, err := fetch(p.operations + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`review_seconds_count{review="resize"} 4`, `reviews_total{review="mutate",outcome="failed"} 0`, `reviews_total{review="mutate",outcome="unread"} 0`} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("the metrics lack %s:\n%s", want, text)
			}
		}
	})
	b.run(500, 2*time.Second).judge(t, "warming up, 500 a second")
	before := p.cpu(t)
	b.run(500, 5*time.Second).judge(t, "500 a second")
	t.Logf("the webhook took %v of CPU time for 5 s of that, and %d MiB of memory so far", p.cpu(t)-before, p.memory(t)>>20)
	text, err := fetch(p.operations + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, `review_seconds`) && strings.Contains(line, `"mutate"`) {
			t.Log(strings.TrimSpace(line))
		}
	}
	t.Run("largest", func(t *testing.T) { b.largest(t, p) })
	t.Run("killed under load", func(t *testing.T) {
		done := make(chan *load)
		go func() { done <- b.run(300, 4*time.Second) }()
		time.Sleep(2 * time.Second)
		p.cmd.Process.Kill()
		(<-done).judge(t, "killed after half of the time, 300 a second")
		b.reached(false)
	})
	if text := p.text(1 << 26); !strings.Contains(text, "outcome=quiet") || strings.Contains(text, "registry.example.com") {
		t.Error("the log has an image's name, or not each review")
	}
}

// largest sends a crowd of reviews of the largest size, which the API server's own bound hardly lets pass.
func (b *bench) largest(t *testing.T, p *process) {
	variables := strings.Repeat(`{"name":"A","value":"b"},`, 60_000)
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},` +
		`"operation":"CREATE","namespace":"shop","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"large"},"spec":{"containers":[` +
		`{"name":"app","image":"a","env":[` + variables + `{"name":"GOMAXPROCS","value":"auto"}]}]}}}}`
	client := &http.Client{Timeout: limit, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	read := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				r, err := client.Post("https://"+p.reviews+webhook.MutatePath, "application/json", strings.NewReader(review))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || !strings.Contains(string(text), `"uid":"1","allowed":true`) {
					t.Errorf("%.200s, %v", text, err)
				}
				mu.Lock()
				if strings.Contains(string(text), `"patch":`) {
					read++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	memory := p.memory(t) >> 20
	t.Logf("of 40 reviews of %.1f MiB, 8 at a time, %d were looked at; the webhook took %d MiB of memory at most", float64(len(review))/(1<<20), read, memory)
	if read == 0 || memory > 256 {
		t.Errorf("%d were read, with %d MiB; the Deployment's limit is 256 MiB", read, memory)
	}
}

// memory is the most that a process has had so far.
func (p *process) memory(t *testing.T) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// cpu is its CPU time so far: the fields utime and stime of /proc/PID/stat, in hundredths of a second.
func (p *process) cpu(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestRotation runs two replicas whose certificates live for seconds, under load.
func TestRotation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lives := certs.Lives{Authority: 24 * time.Second, Certificate: 8 * time.Second, Skew: time.Second, Settle: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var log lockedBuffer
	var addresses []string
	for range 2 {
		client, namespace, err := certs.InCluster(b.env, b.credentials)
		if err != nil {
			t.Fatal(err)
		}
		logger := slog.New(slog.NewTextHandler(&log, nil))
		k := &certs.Keeper{
			Client: client, Namespace: namespace, Secret: "unthrottle-webhook-certificate", Configuration: "unthrottle-webhook",
			Names: []string{"unthrottle-webhook.unthrottle.svc", "127.0.0.1"}, Lives: lives, Every: 200 * time.Millisecond, Log: logger,
		}
		if err := k.Check(); err != nil {
			t.Fatal(err)
		}
		reviews, operations := listen(t), listen(t)
		addresses = append(addresses, reviews.Addr().String())
		s := &webhook.Server{Handler: webhook.New(webhook.Options{Mode: webhook.Fix}), Source: k, Log: logger}
		all.Go(func() {
			if err := s.Serve(ctx, reviews, operations); err != nil {
				t.Error(err)
			}
		})
	}
	b.point(addresses[0], nil)
	b.reached(true)
	// The other replica is asked once it is ready, that is, once it has a certificate: both have begun at the same time.
	for end := time.Now().Add(time.Minute); b.trusts(addresses[1]) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the other replica: %v", b.trusts(addresses[1]))
		}
	}
	// It is looked at as an API server would, with the caBundle of the moment.
	distrust := make(chan error, 1)
	all.Go(func() {
		defer close(distrust)
		for ctx.Err() == nil {
			if err := b.trusts(addresses[1]); err != nil && ctx.Err() == nil {
				distrust <- err
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	before, unseen := strings.Count(log.String(), "certificate made"), len(b.unseen())
	l := b.run(100, 32*time.Second) // twice as long as an authority is in use
	l.judge(t, "rotation, 100 a second")
	// Where the API server takes seconds to answer, a certificate that lives for eight is renewed too late: in use it is weeks.
	if most := l.took[len(l.took)-1]; most > lives.Certificate/5 {
		t.Skipf("an answer took %v: this machine is too busy to judge certificates that live for %v", most, lives.Certificate)
	}
	cancel()
	if err := <-distrust; err != nil {
		t.Errorf("the other replica: %v", err)
	}
	// A pod that passes unseen may be the machine's fault, if it is that slow, but never a certificate's.
	for _, line := range b.unseen()[unseen:] {
		if !strings.Contains(line, "deadline exceeded") {
			t.Error(line)
		}
	}
	text := log.String()
	authorities, made := strings.Count(text, "authority made"), strings.Count(text, "certificate made")-before
	t.Logf("in 32 s: %d authorities, %d certificates", authorities, made)
	if authorities < 2 || made < 4 {
		t.Errorf("%d authorities and %d certificates were made:\n%s", authorities, made, text)
	}
	if strings.Contains(text, "not looked after") {
		t.Errorf("the log:\n%s", text)
	}
}

// unseen are the API server's lines about webhooks that it could not ask.
func (b *bench) unseen() (lines []string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Dir, "kube-apiserver.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "Failed calling webhook, failing open") {
			lines = append(lines, line)
		}
	}
	return lines
}

// trusts shakes hands with a replica as the API server does.
func (b *bench) trusts(address string) error {
	text, _, err := b.Kubectl("get", "mutatingwebhookconfiguration", "unthrottle-webhook", "-o", "jsonpath={.webhooks[1].clientConfig.caBundle}")
	if err != nil {
		return err
	}
	ca, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if err != nil {
		return err
	}
	return c.Close()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(text)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// trouble has webhooks that are there and do not answer as they should.
func (b *bench) trouble(t *testing.T) {
	serve := func(t *testing.T, c tls.Certificate) string {
		l := listen(t)
		s := &http.Server{
			Handler: webhook.New(webhook.Options{}), TLSConfig: &tls.Config{Certificates: []tls.Certificate{c}},
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		}
		go s.ServeTLS(l, "", "")
		t.Cleanup(func() { s.Close() })
		return l.Addr().String()
	}
	good, ca := signed(t, time.Now().Add(time.Hour))
	expired, expiredCA := signed(t, time.Now().Add(-time.Hour))
	_, other := signed(t, time.Now().Add(time.Hour))

	t.Run("well", func(t *testing.T) {
		b.point(serve(t, good), ca)
		b.reached(true)
	})
	t.Run("signed by another", func(t *testing.T) {
		b.point(serve(t, good), other)
		b.reached(false)
		b.run(100, 2*time.Second).judge(t, "another's certificate, 100 a second")
	})
	t.Run("expired", func(t *testing.T) {
		b.point(serve(t, expired), expiredCA)
		b.reached(false)
		b.run(100, 2*time.Second).judge(t, "an expired certificate, 100 a second")
	})
	t.Run("nonsense", func(t *testing.T) {
		l := listen(t)
		s := &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{good}}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		}
		go s.ServeTLS(l, "", "")
		defer s.Close()
		b.point(l.Addr().String(), ca)
		b.reached(false)
		b.run(100, 2*time.Second).judge(t, "nonsense for an answer, 100 a second")
	})
	t.Run("hanging", func(t *testing.T) {
		l := listen(t)
		var open []net.Conn
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				open = append(open, c)
			}
		}()
		defer func() {
			l.Close()
			<-done
			for _, c := range open {
				c.Close()
			}
		}()
		b.point(l.Addr().String(), ca)
		b.reached(false)
		b.run(50, 4*time.Second).judge(t, "accepting and never answering, 50 a second")
	})
}

// signed is a certificate for 127.0.0.1, good until a time, and its authority.
func signed(t *testing.T, until time.Time) (tls.Certificate, []byte) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	authorityKey, serverKey := key(), key()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	sign := func(c *x509.Certificate, k *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, authority, k.Public(), authorityKey)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(authority, authorityKey)})
	return tls.Certificate{Certificate: [][]byte{sign(server, serverKey)}, PrivateKey: serverKey}, ca
}
