package clustertest

import (
	"os"
	"path/filepath"
	"strings"
)

// sysctls are those of the machine that a kubelet, a container runtime or a network for pods sets elsewhere.
var sysctls = []string{
	"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops",
	"net/bridge/bridge-nf-call-iptables", "net/ipv4/conf/all/forwarding", "net/ipv4/conf/all/route_localnet",
	"net/ipv4/ip_forward", "net/ipv4/ping_group_range", "net/ipv6/conf/all/forwarding",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// Sysctls are settings of this machine that no cluster may change: a test compares what they were before with what they are
// after. What the machine lacks is missing.
func Sysctls() map[string]string {
	values := map[string]string{}
	for _, name := range sysctls {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			values[name] = strings.TrimSpace(string(value))
		}
	}
	return values
}
