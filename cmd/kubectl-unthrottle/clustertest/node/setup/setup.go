// Package setup answers: what do a test and the program of its node say to each other? The test writes a Config to a file and
// starts command node with its path. Then it sends Requests to its stdin, and reads a Reply to each from its stdout, all of
// them JSON.
package setup

// Config is what a node should be.
type Config struct {
	Name    string   // of the node, and of the host that its programs see
	Root    string   // the directory that becomes its root file system
	Cgroups []Cgroup // in which it runs, and beyond which it sees nothing
	Address string   // on its network, with the length of the prefix
	Gateway string   // of its network: the address of the machine
	// Service is the address of the service "kubernetes", with port. Connections to it are forwarded to APIServer.
	Service, APIServer string
	Programs           string // the directory with Kubernetes' programs, which it sees as /opt/kubernetes
	Pods               Pods
}

// Pods is the network of the pods that do not take their node's.
type Pods struct {
	Range   string // of the addresses on this node
	Gateway string // of those the first, with the length of the prefix: the node's own
}

// A Cgroup is a directory in a hierarchy of cgroup v1.
type Cgroup struct {
	Controllers string // as in /proc/self/cgroup, such as "cpu,cpuacct" or "name=systemd"
	Dir         string
}

// Where the programs of a node have their files, as the node sees them.
const (
	KubeletConfig    = "/etc/kubernetes/kubelet.yaml"
	Kubeconfig       = "/etc/kubernetes/kubelet.conf"
	ContainerdConfig = "/etc/containerd/config.toml"
	ContainerdSocket = "/run/containerd/containerd.sock"
	Self             = "/opt/cni/bin/unthrottle-clustertest" // the program of the node, which makes the network of pods too
	Programs         = "/opt/kubernetes"
	Logs             = "/var/log/node" // of containerd and kubelet
)

// What a Request may ask for. A program that was asked to start is running when the answer comes, and may not serve yet.
const (
	Start = "start"
	Stop  = "stop" // with a signal, and the answer comes when it has ended
)

// A Request is what a node should do.
type Request struct {
	Do      string
	Program string // containerd, kubelet
}

// A Reply says how it went.
type Reply struct {
	Error string
}
