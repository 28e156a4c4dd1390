package clustertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Options say what runs besides etcd and the API server. The zero value is those two alone.
type Options struct {
	// ControllerManager makes ReplicaSets of Deployments, pods of ReplicaSets, service accounts of namespaces, and so on.
	// With it pods need a service account, as anywhere, and Start waits for the one of the namespace default.
	ControllerManager bool
	// Scheduler gives pods to nodes, which a test has to create as objects.
	Scheduler bool
	// ExtraAPIServerFlags come after the API server's own, and so replace them.
	ExtraAPIServerFlags []string
	// Nodes is how many real nodes there are, which run containers. They need root, containerd and runc.
	Nodes int
}

// A Cluster runs until the test ends.
type Cluster struct {
	URL        string // of the API server
	Token      string // its bearer may do everything
	CA         []byte // the certificate of the authority that signed the server's, as PEM
	Kubeconfig string // a file with these three
	Dir        string // of the run, with logs, certificates and keys; it goes with the cluster
	Nodes      []*Node

	t            testing.TB
	programs     map[string]string // paths by names
	certificates certificates
	folder       *folder
	ports        []port
	processes    []*process // in the order in which they were started
	client       *http.Client
	network      *network // of the nodes
	groups       *keeper  // of the nodes' control groups
}

// Generous: they are there so that a hang ends, and judge no speed.
const (
	startTimeout   = 5 * time.Minute
	requestTimeout = 30 * time.Second
	kubectlTimeout = 5 * time.Minute
)

// unwanted skips what starts a cluster where none is wanted.
func unwanted(t testing.TB) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_CLUSTER") == "0" {
		t.Skip("UNTHROTTLE_REQUIRE_CLUSTER=0: no cluster is wanted")
	}
}

// Start starts a cluster for a test and waits until it serves. It skips the test where the programs are not built, and
// fails it if they do not start; the ends of their logs are shown whenever the test fails.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if !supported {
		t.Skip("a cluster for tests needs Linux")
	}
	unwanted(t)
	names := []string{"etcd", "kube-apiserver", "kubectl"}
	if o.ControllerManager {
		names = append(names, "kube-controller-manager")
	}
	if o.Scheduler {
		names = append(names, "kube-scheduler")
	}
	if o.Nodes > 0 {
		names = append(names, "kubelet")
		if err := nodesPossible(); err != nil {
			skip(t, err)
		}
	}
	programs, err := find(names...)
	if err != nil {
		skip(t, err)
	}
	c := &Cluster{t: t, programs: programs}
	t.Cleanup(c.stop)
	begin := time.Now()
	if err := c.start(o); err != nil {
		t.Fatalf("starting a cluster: %v", err)
	}
	t.Logf("a cluster serves at %s after %.1f s", c.URL, time.Since(begin).Seconds())
	return c
}

func skip(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	if errors.Is(err, ErrNotBuilt) {
		text += "; in the repository, this builds it: go -C cmd/kubectl-unthrottle run ./clustertest/build"
	}
	if os.Getenv("UNTHROTTLE_REQUIRE_CLUSTER") == "1" {
		t.Fatal(text)
	}
	t.Skip(text)
}

func (c *Cluster) start(o Options) (err error) {
	if c.folder, err = newFolder(); err != nil {
		return err
	}
	c.Dir = c.folder.path
	if c.certificates, err = makeCertificates(c.Dir); err != nil {
		return err
	}
	if c.CA, err = os.ReadFile(c.certificates.ca); err != nil {
		return err
	}
	c.Token = rand.Text()
	var numbers [3]int
	for i := range numbers {
		p, err := reservePort()
		if err != nil {
			return err
		}
		c.ports = append(c.ports, p)
		numbers[i] = p.number
	}
	etcd, peer := fmt.Sprintf("https://127.0.0.1:%d", numbers[0]), fmt.Sprintf("https://127.0.0.1:%d", numbers[1])
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", numbers[2])
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(c.CA)
	c.client = &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}},
	}
	if err := c.writeKubeconfig(); err != nil {
		return err
	}

	if err := c.run("etcd", c.etcdFlags(etcd, peer)); err != nil {
		return err
	}
	flags, err := c.apiServerFlags(o, etcd, numbers[2])
	if err != nil {
		return err
	}
	if err := c.run("kube-apiserver", flags); err != nil {
		return err
	}
	if err := c.serves("/readyz"); err != nil {
		return err
	}
	if o.ControllerManager {
		if err := c.run("kube-controller-manager", c.controllerManagerFlags()); err != nil {
			return err
		}
	}
	if o.Scheduler {
		if err := c.run("kube-scheduler", c.followerFlags()); err != nil {
			return err
		}
	}
	if o.ControllerManager {
		if err := c.serves("/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
			return err
		}
	}
	if o.Nodes > 0 {
		return c.startNodes(o.Nodes)
	}
	return nil
}

func (c *Cluster) etcdFlags(client, peer string) []string {
	k := c.certificates
	return []string{
		"--name=one", "--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer,
		"--client-cert-auth", "--cert-file=" + k.cert, "--key-file=" + k.key, "--trusted-ca-file=" + k.ca,
		"--peer-client-cert-auth", "--peer-cert-file=" + k.cert, "--peer-key-file=" + k.key, "--peer-trusted-ca-file=" + k.ca,
		"--socket-reuse-port", "--unsafe-no-fsync",
	}
}

func (c *Cluster) apiServerFlags(o Options, etcd string, port int) ([]string, error) {
	tokens := filepath.Join(c.Dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(c.Token+",admin,1,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	k := c.certificates
	flags := []string{
		"--etcd-servers=" + etcd, "--etcd-cafile=" + k.ca, "--etcd-certfile=" + k.cert, "--etcd-keyfile=" + k.key,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--permit-port-sharing",
		// Nodes forward the service "kubernetes" themselves, and it refuses a loopback address.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + k.cert, "--tls-private-key-file=" + k.key, "--cert-dir=" + c.Dir,
		"--token-auth-file=" + tokens, "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + k.ca, "--kubelet-client-certificate=" + k.adminCert, "--kubelet-client-key=" + k.adminKey,
		"--kubelet-certificate-authority=" + k.ca, "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://" + serverName,
		"--service-account-key-file=" + k.accountsKey, "--service-account-signing-key-file=" + k.accountsKey,
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged",
		// Version v1 of a MutatingAdmissionPolicy is served anyway.
		"--runtime-config=admissionregistration.k8s.io/v1beta1=true",
	}
	if !o.ControllerManager { // then nothing makes service accounts, and pods would be refused for lack of one
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return append(flags, o.ExtraAPIServerFlags...), nil
}

func (c *Cluster) controllerManagerFlags() []string {
	return append(c.followerFlags(),
		"--service-account-private-key-file="+c.certificates.accountsKey, "--root-ca-file="+c.certificates.ca)
}

// followerFlags are those of programs that follow the API server: they serve nothing, and there is only one of each.
func (c *Cluster) followerFlags() []string {
	return []string{"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false", "--secure-port=0"}
}

func (c *Cluster) run(name string, flags []string) error {
	p, err := startProcess(c.Dir, c.programs[name], flags...)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

// serves waits until the API server answers a path with 200, as long as all programs run.
func (c *Cluster) serves(path string) error {
	return c.answers(path, func([]byte) error { return nil })
}

// answers waits for an answer that is right.
func (c *Cluster) answers(path string, right func([]byte) error) error {
	return waitFor(c.t.Context(), startTimeout, func() error {
		body, err := c.Get(path)
		if err == nil {
			err = right(body)
		}
		return err
	}, c.early)
}

// Get asks the API server for a path, which may lead to a pod: /api/v1/namespaces/default/pods/http:NAME:8080/proxy/. Any
// answer but 200 is an error that has its text.
func (c *Cluster) Get(path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, response.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// early says which programs have ended, or nil.
func (c *Cluster) early() error {
	var errs []error
	for _, p := range c.processes {
		errs = append(errs, p.early())
	}
	return errors.Join(errs...)
}

// stop ends all programs, the last one first, and shows their logs if the test has failed.
func (c *Cluster) stop() {
	if err := c.early(); err != nil {
		c.t.Error(err)
	}
	for _, p := range slices.Backward(c.processes) {
		p.stop()
		c.t.Log(p.cost())
		if c.t.Failed() {
			c.t.Log(p.logEnds())
		}
	}
	for _, p := range c.ports {
		p.close()
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	if c.groups != nil {
		if err := c.groups.end(); err != nil {
			c.t.Errorf("removing control groups: %v", err)
		}
	}
	if c.network != nil {
		if err := c.network.close(); err != nil {
			c.t.Errorf("removing the network: %v", err)
		}
	}
	if c.folder != nil {
		if err := c.folder.remove(); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *Cluster) writeKubeconfig() error {
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: admin
  user: {token: %q}
contexts:
- name: test
  context: {cluster: test, user: admin}
current-context: test
`, c.URL, base64.StdEncoding.EncodeToString(c.CA), c.Token)
	return os.WriteFile(c.Kubeconfig, []byte(text), 0o600)
}

// Command returns a kubectl for the cluster that has not been started yet. It knows nothing of the user's own settings.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.programs["kubectl"], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HOME="+c.Dir, "KUBECTL_KUBERC=false")
	return cmd
}

// Kubectl runs kubectl. The error has what it wrote to stderr.
func (c *Cluster) Kubectl(args ...string) (stdout, stderr string, err error) {
	return c.KubectlInput("", args...)
}

// Must runs kubectl with an input, and returns what it printed, without the newline.
func (c *Cluster) Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	stdout, _, err := c.KubectlInput(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(stdout)
}

// KubectlInput is Kubectl with an input, such as a manifest for apply -f -.
func (c *Cluster) KubectlInput(stdin string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), kubectlTimeout)
	defer cancel()
	var out, errors bytes.Buffer
	cmd := c.Command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errors
	if err := cmd.Run(); err != nil {
		return out.String(), errors.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errors.Bytes()))
	}
	return out.String(), errors.String(), nil
}
