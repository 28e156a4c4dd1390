package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// A Node runs containers. It has a file system, a network and processes of its own, of which it is the root: its pods are in
// /kubepods there, as on any node.
type Node struct {
	Name string
	IP   string // where its kubelet and its pods with hostNetwork are; the test reaches it too
	PID  int    // of its first process
	Dir  string // its root, with what it has written: /var/log/node has the logs of containerd and kubelet

	process *process
	groups  []setup.Cgroup
	cluster *Cluster
	request *json.Encoder
	reply   *json.Decoder
}

const (
	serviceAddress = "10.0.0.1" // of the service "kubernetes", the first of --service-cluster-ip-range
	mostNodes      = 8
	podsPerNode    = 29 // addresses of 32 that are left without the first, the last and the node's
)

// nodePrograms are those of the machine.
var nodePrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "nsenter", "go"}

// nodesPossible says what a node lacks here, or nil.
func nodesPossible() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root")
	}
	var missing []string
	for _, name := range nodePrograms {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a node needs %s: install the packages containerd, runc, iproute2 and util-linux", strings.Join(missing, ", "))
	}
	groups, err := ownGroups("/proc/self")
	if err != nil {
		return err
	}
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "memory"} {
		if _, ok := hierarchy(groups, controller); !ok {
			return fmt.Errorf("a node needs the controller %s of cgroup v1, which this machine has not mounted", controller)
		}
	}
	return nil
}

// A network connects the nodes of a cluster with each other and with this machine. Its number makes addresses of it, of the
// range for tests of networks (RFC 2544).
type network struct {
	number int
	keeper *keeper
	server net.Listener // for the API server, which listens on the loopback interface
}

// newNetwork makes a bridge that goes with this process, and the nodes' devices with it. The bridge's name reserves the number. A
// device whose node was killed stays for a while after it: one that is left from a run before is deleted, too.
func newNetwork() (*network, error) {
	keeper, line, err := newKeeper(`
		devices() {
			for device in /sys/class/net/"unthrottle$n"n*; do
				[ -e "$device" ] && ip link delete "${device##*/}" 2>/dev/null
			done
			return 0
		}
		n=0
		until err=$(ip link add "unthrottle$n" type bridge 2>&1); do
			n=$((n+1))
			if [ "$n" = 256 ]; then echo "$err"; exit; fi
		done
		devices
		err=$(ip address add "198.18.$n.1/24" dev "unthrottle$n" 2>&1 && ip link set "unthrottle$n" up 2>&1) && echo "$n" || echo "$err"`,
		`devices; ip link delete "unthrottle$n"`)
	if err != nil {
		return nil, fmt.Errorf("making a network: %w", err)
	}
	number, err := strconv.Atoi(line)
	if err != nil {
		keeper.end()
		return nil, fmt.Errorf("making a network: %s", line)
	}
	return &network{number: number, keeper: keeper}, nil
}

func (n *network) bridge() string        { return fmt.Sprintf("unthrottle%d", n.number) }
func (n *network) gateway() string       { return fmt.Sprintf("198.18.%d.1", n.number) }
func (n *network) node(index int) string { return fmt.Sprintf("198.18.%d.%d", n.number, 11+index) }

func (n *network) podRange(i int) string { return fmt.Sprintf("198.19.%d.%d/27", n.number, 32*i) }

func (n *network) podGateway(i int) string { return fmt.Sprintf("198.19.%d.%d/27", n.number, 32*i+1) }

func (n *network) device(index int) string { return fmt.Sprintf("unthrottle%dn%d", n.number, index) }

func (n *network) serverAt(port int) string { return net.JoinHostPort(n.gateway(), strconv.Itoa(port)) }

// serve forwards what comes from the network to a port of the loopback interface.
func (n *network) serve(port int) (err error) {
	if n.server, err = net.Listen("tcp", n.serverAt(port)); err != nil {
		return fmt.Errorf("listening for the nodes: %w", err)
	}
	go setup.Forward(n.server, fmt.Sprintf("127.0.0.1:%d", port))
	return nil
}

func (n *network) close() error {
	if n.server != nil {
		n.server.Close()
	}
	return n.keeper.end()
}

// startNodes starts all nodes and waits until they are ready.
func (c *Cluster) startNodes(count int) (err error) {
	if count > mostNodes {
		return fmt.Errorf("there can be %d nodes, not %d", mostNodes, count)
	}
	if c.network, err = newNetwork(); err != nil {
		return err
	}
	port := c.ports[2].number
	if err := c.network.serve(port); err != nil {
		return err
	}
	program := filepath.Join(c.Dir, "node")
	if err := buildGo(program, "github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node"); err != nil {
		return err
	}
	groups, err := ownGroups("/proc/self")
	if err != nil {
		return err
	}
	name := filepath.Base(c.Dir)
	if c.groups, err = keepGroups(groups, name); err != nil {
		return err
	}
	pause := filepath.Join(c.Dir, "pause.tar")
	if err := writeImage(pause, Image{Name: pauseImage, Entrypoint: []string{"/pause", "pause"}, Files: map[string]string{"/pause": program}}); err != nil {
		return err
	}
	for i := range count {
		n := &Node{Name: fmt.Sprintf("node%d", i+1), IP: c.network.node(i), cluster: c}
		n.Dir = filepath.Join(c.Dir, n.Name)
		if n.groups, err = makeGroups(groups, name, n.Name); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
		if err := n.start(i, program, pause); err != nil {
			return fmt.Errorf("starting %s: %w", n.Name, err)
		}
	}
	for _, n := range c.Nodes {
		if err := c.answers("/api/v1/nodes/"+n.Name, ready); err != nil {
			return fmt.Errorf("waiting for %s: %w", n.Name, err)
		}
	}
	return nil
}

// ready tells from its object whether a node is ready.
func ready(object []byte) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(object, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			if condition.Status == "True" {
				return nil
			}
			return fmt.Errorf("not ready: %s", condition.Message)
		}
	}
	return errors.New("not ready: no such condition yet")
}

func (n *Node) start(index int, program, pause string) error {
	network := n.cluster.network
	config := setup.Config{
		Name: n.Name, Root: n.Dir, Cgroups: n.groups,
		Address: n.IP + "/24", Gateway: network.gateway(),
		Service: serviceAddress + ":443", APIServer: network.serverAt(n.cluster.ports[2].number),
		Programs: filepath.Dir(n.cluster.programs["kubelet"]),
		Pods:     setup.Pods{Range: network.podRange(index), Gateway: network.podGateway(index)},
	}
	if err := n.writeFiles(config, program); err != nil {
		return err
	}
	path := filepath.Join(n.cluster.Dir, n.Name+".json")
	data, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return err
	}
	if err := n.startInit(program, path); err != nil {
		return err
	}
	// The node waits for its device, and the device needs the node's namespace.
	err = ip("link", "add", network.device(index), "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(n.PID))
	if err == nil {
		err = ip("link", "set", network.device(index), "master", network.bridge(), "up")
	}
	if err == nil {
		err = ip("route", "add", network.podRange(index), "via", n.IP)
	}
	if err == nil {
		err = n.ask(setup.Request{Do: setup.Start, Program: "containerd"})
	}
	if err == nil {
		err = waitFor(n.cluster.t.Context(), startTimeout, func() error { return n.importFile(pause) }, n.cluster.early)
	}
	if err == nil {
		err = n.StartKubelet()
	}
	return err
}

// startInit starts the first process, with a pipe to it and one from it.
func (n *Node) startInit(program, config string) error {
	in, toNode, err := os.Pipe()
	if err != nil {
		return err
	}
	fromNode, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer out.Close()
	cmd := exec.Command(program, "join", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = in, out, ownNamespaces()
	if n.process, err = start(n.cluster.Dir, n.Name, cmd); err != nil {
		return err
	}
	n.cluster.processes = append(n.cluster.processes, n.process)
	n.process.close = []io.Closer{toNode, fromNode}
	n.process.logs = []string{filepath.Join(n.Dir, setup.Logs, "containerd.log"), filepath.Join(n.Dir, setup.Logs, "kubelet.log")}
	n.PID = n.process.cmd.Process.Pid
	n.request, n.reply = json.NewEncoder(toNode), json.NewDecoder(fromNode)
	return nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n *Node) ask(r setup.Request) error {
	var reply setup.Reply
	err := n.request.Encode(r)
	if err == nil {
		err = n.reply.Decode(&reply)
	}
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	if err != nil {
		return fmt.Errorf("%s: to %s %s: %w", n.Name, r.Do, r.Program, err)
	}
	return nil
}

// StopKubelet ends the node's kubelet. Its containers run on; the API server hears nothing of them.
func (n *Node) StopKubelet() error { return n.ask(setup.Request{Do: setup.Stop, Program: "kubelet"}) }

// StartKubelet starts it again.
func (n *Node) StartKubelet() error { return n.ask(setup.Request{Do: setup.Start, Program: "kubelet"}) }

// Group is the directory of this machine in which the node's hierarchy of a controller of cgroup v1 begins: of what is
// /sys/fs/cgroup/cpu there, for "cpu".
func (n *Node) Group(controller string) string {
	g, _ := hierarchy(n.groups, controller)
	return g.Dir
}

// Command returns a program that has not been started yet and will run in the node, as on it: one of the machine's, with the
// node's files, processes and network. It ends with the node.
func (n *Node) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.PID), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--", name}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// pauseImage is what holds a pod's namespaces.
const pauseImage = "localhost/pause:1"

func writeImage(path string, i Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(i.Write(f), f.Close())
}

// Import gives an image to all nodes. Pods find it by its name, with any imagePullPolicy but Always.
func (c *Cluster) Import(t testing.TB, i Image) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := writeImage(path, i); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if err := n.importFile(path); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *Node) importFile(path string) error {
	ctx, cancel := context.WithTimeout(n.cluster.t.Context(), requestTimeout)
	defer cancel()
	socket := fmt.Sprintf("/proc/%d/root%s", n.PID, setup.ContainerdSocket)
	cmd := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", snapshotter, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("giving %s the image %s: %w: %s", n.Name, filepath.Base(path), err, out)
	}
	return nil
}

// snapshotter copies files for each container. It needs nothing of the file system below, and images are small here.
const snapshotter = "native"

// writeFiles writes what the programs of the node read.
func (n *Node) writeFiles(c setup.Config, program string) error {
	for _, dir := range []string{"etc/kubernetes/pki", "etc/containerd", "etc/cni/net.d", "opt/cni/bin", "root", "run", "tmp", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(n.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Link(program, filepath.Join(n.Dir, setup.Self)); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Base(setup.Self), filepath.Join(n.Dir, "opt/cni/bin/loopback")); err != nil {
		return err
	}
	if err := n.cluster.certificates.node(filepath.Join(n.Dir, "etc/kubernetes/pki"), n.Name, net.ParseIP(n.IP)); err != nil {
		return err
	}
	if err := os.Symlink("/run", filepath.Join(n.Dir, "var/run")); err != nil {
		return err
	}
	files := map[string]string{
		"etc/hostname":         n.Name + "\n",
		"etc/hosts":            "127.0.0.1 localhost\n" + n.IP + " " + n.Name + "\n",
		"etc/machine-id":       fmt.Sprintf("%032x\n", time.Now().UnixNano()),
		"etc/os-release":       "ID=clustertest\nPRETTY_NAME=\"a node of a cluster for tests\"\n",
		"etc/passwd":           "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":            "root:x:0:\n",
		"etc/resolv.conf":      "",
		setup.KubeletConfig:    kubeletConfig,
		setup.Kubeconfig:       fmt.Sprintf(kubeletKubeconfig, serviceAddress),
		setup.ContainerdConfig: containerdConfig,
		"etc/cni/net.d/10-pods.conflist": fmt.Sprintf(
			`{"cniVersion":"0.4.0","name":"pods","plugins":[{"type":%q,"range":%q,"gateway":%q}]}`,
			filepath.Base(setup.Self), c.Pods.Range, c.Pods.Gateway),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(n.Dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kubeletConfig is as kubeadm writes it where the cluster allows that.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: /etc/kubernetes/pki/node.crt
tlsPrivateKeyFile: /etc/kubernetes/pki/node.key
containerRuntimeEndpoint: unix://` + setup.ContainerdSocket + `
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false # nobody needs them without kube-proxy
resolvConf: ""
# The machine's disk is not the cluster's to clean up.
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, imagefs.available: 0%}
imageGCHighThresholdPercent: 100
syncFrequency: 10s
`

const kubeletKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {server: "https://%s", certificate-authority: /etc/kubernetes/pki/ca.crt}
users:
- name: node
  user: {client-certificate: /etc/kubernetes/pki/node.crt, client-key: /etc/kubernetes/pki/node.key}
contexts:
- name: test
  context: {cluster: test, user: node}
current-context: test
`

// containerdConfig has restrict_oom_score_adj for machines that do not allow a negative one.
const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "` + snapshotter + `"
`
