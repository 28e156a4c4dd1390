package podpath

import (
	"strings"
	"testing"
)

// The paths of containers are real, except where noted, and each names where it was published.
var paths = []struct {
	name, path string
	want       Ref
	level      string
}{
	// containerd, systemd driver.
	{
		"EKS, v2", // github.com/elastic/beats/issues/32961
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2d5133c0_65f3_40b2_b375_c04866d418e1.slice/cri-containerd-e01a26336924e2fb8089bcf4cf943954fd9ea616cc5678f38f65928307979459.scope",
		Ref{"containerd", "2d5133c0-65f3-40b2-b375-c04866d418e1", "e01a26336924e2fb8089bcf4cf943954fd9ea616cc5678f38f65928307979459", "burstable", "systemd"},
		Container,
	},
	{
		"below a v1 mount", // github.com/netdata/netdata/issues/4868
		"/sys/fs/cgroup/cpu,cpuacct/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod03f3f104_3215_44f2_9686_d4dd1f05a7ed.slice/cri-containerd-09d185410c4e25236cc24717f881589bb0978b24eafd101624e627a4dd8d3439.scope",
		Ref{"containerd", "03f3f104-3215-44f2-9686-d4dd1f05a7ed", "09d185410c4e25236cc24717f881589bb0978b24eafd101624e627a4dd8d3439", "burstable", "systemd"},
		Container,
	},
	{
		"static pod", // the same issue
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod187bff14cccb94f179e943eacce55bb3.slice/cri-containerd-c203a2647ef1ad78e990157c50331f3b6ef0b33336cf08535d6bf7faa5421415.scope",
		Ref{"containerd", "187bff14cccb94f179e943eacce55bb3", "c203a2647ef1ad78e990157c50331f3b6ef0b33336cf08535d6bf7faa5421415", "burstable", "systemd"},
		Container,
	},
	{
		"k3s in a virtual machine of colima", // github.com/cryptnono/cryptnono/issues/47
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7fda01c4_0ece_403d_88b4_c371d66d132a.slice/cri-containerd-e58a24d4a722c99712cff74ef69d93311089584eb32617b3890e0dcb996133f1.scope",
		Ref{"containerd", "7fda01c4-0ece-403d-88b4-c371d66d132a", "e58a24d4a722c99712cff74ef69d93311089584eb32617b3890e0dcb996133f1", "besteffort", "systemd"},
		Container,
	},
	// containerd, which takes systemd's names for a path of cgroupfs.
	{
		"containerd without SystemdCgroup", // github.com/elastic/apm-agent-nodejs/issues/3550
		"/system.slice/containerd.service/kubepods-burstable-podff49d0be_16b7_4a49_bb9e_8ec1f1f4e27f.slice:cri-containerd:0f99ad5f45163ed14ab8eaf92ed34bb4a631d007f8755a7d79be614bcb0df0ef",
		Ref{"containerd", "ff49d0be-16b7-4a49-bb9e-8ec1f1f4e27f", "0f99ad5f45163ed14ab8eaf92ed34bb4a631d007f8755a7d79be614bcb0df0ef", "burstable", "systemd"},
		Container,
	},
	{
		"the same, guaranteed", // opentelemetry-java-instrumentation, its test of the container's resource
		"/system.slice/containerd.service/kubepods-pod87a18a64_b74a_454a_b10b_a4a36059d0a3.slice:cri-containerd:05c48c82caff3be3d7f1e896981dd410e81487538936914f32b624d168de9db0",
		Ref{"containerd", "87a18a64-b74a-454a-b10b-a4a36059d0a3", "05c48c82caff3be3d7f1e896981dd410e81487538936914f32b624d168de9db0", "guaranteed", "systemd"},
		Container,
	},
	{
		"the same, in the root", // github.com/spiffe/spire, k8s_posix_test.go
		"/kubepods-besteffort-pod72f7f152_440c_66ac_9084_e0fc1d8a910c.slice:cri-containerd:b2a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd2004a2",
		Ref{"containerd", "72f7f152-440c-66ac-9084-e0fc1d8a910c", "b2a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd2004a2", "besteffort", "systemd"},
		Container,
	},
	// containerd, cgroupfs driver: the path does not name it.
	{
		"EKS on v1", // github.com/sustainable-computing-io/kepler/issues/907
		"/sys/fs/cgroup/cpuset/kubepods/burstable/pod69ec2724-f389-498a-9a04-ed9b2065005d/d2bd18310b0f469c8d77b914762d0744aa60963364497fe53887b1f8ef5a1dfa",
		Ref{"", "69ec2724-f389-498a-9a04-ed9b2065005d", "d2bd18310b0f469c8d77b914762d0744aa60963364497fe53887b1f8ef5a1dfa", "burstable", "cgroupfs"},
		Container,
	},
	{
		"k3s", // github.com/rancher/k3k/pull/792
		"/kubepods/burstable/pod404bd273-57bc-4508-a386-e2b76d3c9cfe/3aaaa76f09e1de6bb75e84f9c15b737a2d590f69757953e3ec262bd5861dc15b",
		Ref{"", "404bd273-57bc-4508-a386-e2b76d3c9cfe", "3aaaa76f09e1de6bb75e84f9c15b737a2d590f69757953e3ec262bd5861dc15b", "burstable", "cgroupfs"},
		Container,
	},
	{
		"GKE, a static pod", // github.com/grafana/beyla, container_info_test.go
		"/kubepods/burstable/podb53dfa9e2dc9b890f7fadb2770857b03/40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9",
		Ref{"", "b53dfa9e2dc9b890f7fadb2770857b03", "40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9", "burstable", "cgroupfs"},
		Container,
	},
	{
		"GKE", // github.com/Qard/container-info, its fixtures: a UID of GCE's time-based kind
		"/kubepods/besteffort/pod74c13223-5a00-11e9-b385-42010a80018d/34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376",
		Ref{"", "74c13223-5a00-11e9-b385-42010a80018d", "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376", "besteffort", "cgroupfs"},
		Container,
	},
	{
		"guaranteed", // github.com/coroot/coroot-node-agent, cgroup_test.go
		"/kubepods/poda38c12e8-255a-11e9-8cd9-0007cb0b2cc8/32c562ed81a2622b37b80cb216859820ba51bd694f60ee4cf10d07a4011266f8",
		Ref{"", "a38c12e8-255a-11e9-8cd9-0007cb0b2cc8", "32c562ed81a2622b37b80cb216859820ba51bd694f60ee4cf10d07a4011266f8", "guaranteed", "cgroupfs"},
		Container,
	},
	// CRI-O.
	{
		"OpenShift", // github.com/containerd/nri/pull/227
		"/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod35550f44_f691_427e_b57d_ab6127d2cb65.slice/crio-805b902ed98fdc1409c76e9aa94964787a904c80f46fc3ee74283509108f5e73.scope",
		Ref{"cri-o", "35550f44-f691-427e-b57d-ab6127d2cb65", "805b902ed98fdc1409c76e9aa94964787a904c80f46fc3ee74283509108f5e73", "burstable", "systemd"},
		Container,
	},
	{
		"OpenShift, the sandbox", // the same: no scope, since nothing runs in it
		"/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod35550f44_f691_427e_b57d_ab6127d2cb65.slice/crio-468f848e2ebec7203ed55748d08337851af589ac42eb551c572446a5c68fe631",
		Ref{"cri-o", "35550f44-f691-427e-b57d-ab6127d2cb65", "468f848e2ebec7203ed55748d08337851af589ac42eb551c572446a5c68fe631", "burstable", "systemd"},
		Container,
	},
	{
		"CRI-O with crun, which makes a group inside", // coroot, cgroup_test.go
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podea19ff5d_943a_4466_a07e_a71e9e50cc62.slice/crio-21572039dd8398ff8272b031fa5422a40165145ab37f2f8794e1e7f844fe8118.scope/container",
		Ref{"cri-o", "ea19ff5d-943a-4466-a07e-a71e9e50cc62", "21572039dd8398ff8272b031fa5422a40165145ab37f2f8794e1e7f844fe8118", "burstable", "systemd"},
		Container,
	},
	{
		"conmon, which watches a container and is none", // github.com/opencontainers/runc/issues/4620
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod207aaad1_659f_4db8_88e0_46e0cdcc3004.slice/crio-conmon-32da98c8522068be05a7510a3eddb09cad6ed2f03286180d0e931d0d0b6224a6.scope",
		Ref{"cri-o", "207aaad1-659f-4db8-88e0-46e0cdcc3004", "", "burstable", "systemd"},
		Other,
	},
	{
		"CRI-O with cgroupfs", // coroot, cgroup_test.go
		"/kubepods/poda48c12e8-255a-11e9-8cd9-0007cb0b2cc8/crio-63425c4a8b4291744a79dd9011fddc7a1f8ffda61f65d72196aa01d00cae2e2e",
		Ref{"cri-o", "a48c12e8-255a-11e9-8cd9-0007cb0b2cc8", "63425c4a8b4291744a79dd9011fddc7a1f8ffda61f65d72196aa01d00cae2e2e", "guaranteed", "cgroupfs"},
		Container,
	},
	{
		"minikube with CRI-O", // spire, k8s_posix_test.go
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod561fd272_d131_47ef_a01b_46a997a778f3.slice/crio-030ded69d4c98fcf69c988f75a5eb3a1b4357e1432bd5510c936a40d7e9a1198.scope",
		Ref{"cri-o", "561fd272-d131-47ef-a01b-46a997a778f3", "030ded69d4c98fcf69c988f75a5eb3a1b4357e1432bd5510c936a40d7e9a1198", "besteffort", "systemd"},
		Container,
	},
	// Docker, by dockershim and cri-dockerd.
	{
		"docker", // coroot, its fixture of a node
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod8712f785_1a3e_41ec_a00b_e2dcc77431cb.slice/docker-73051af271105c07e1f493b34856a77e665e3b0b4fc72f76c807dfbffeb881bd.scope",
		Ref{"docker", "8712f785-1a3e-41ec-a00b-e2dcc77431cb", "73051af271105c07e1f493b34856a77e665e3b0b4fc72f76c807dfbffeb881bd", "besteffort", "systemd"},
		Container,
	},
	{
		"a group that kube-proxy makes inside of its own", // coroot, cgroup_test.go
		"/kubepods/besteffort/pod0d08203e-255a-11e9-8cd9-0007cb0b2cc8/671a50f5d60566556912f61511d0ec9e4d5c78d53fbc4676727180438bbbbc55/kube-proxy",
		Ref{"", "0d08203e-255a-11e9-8cd9-0007cb0b2cc8", "671a50f5d60566556912f61511d0ec9e4d5c78d53fbc4676727180438bbbbc55", "besteffort", "cgroupfs"},
		Container,
	},
	{
		"Docker Desktop", // spire, k8s_posix_test.go
		"/kubepods/kubepods/besteffort/pod6bd2a4d3-a55a-4450-b6fd-2a7ecc72c904/a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38",
		Ref{"", "6bd2a4d3-a55a-4450-b6fd-2a7ecc72c904", "a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38", "besteffort", "cgroupfs"},
		Container,
	},
	// Nodes that are containers, seen from outside of them.
	{
		"kind", // github.com/sustainable-computing-io/kepler, container_test.go
		"/system.slice/docker-fd9d0ea06257a9780827cbc7fd92e3812a54fca26d63e191b73610d5d48b9cbd.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-podeab5a334_93fe_48a8_b139_9e8079c1f163.slice/cri-containerd-99f3a16ea25b7724cb56a4f0c0df1113ad9474fbf5545bead97fd5c7f61c13f4.scope",
		Ref{"containerd", "eab5a334-93fe-48a8-b139-9e8079c1f163", "99f3a16ea25b7724cb56a4f0c0df1113ad9474fbf5545bead97fd5c7f61c13f4", "besteffort", "systemd"},
		Container,
	},
	{
		"kind on docker with cgroupfs", // github.com/grafana/beyla, container_info_test.go
		"/docker/8afe480d66074930353da456a1344caca810fe31c1e31f6e08c95a66887235d6/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod44c76ce5_f953_4bd3_bc89_12621681af49.slice/cri-containerd-40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9.scope",
		Ref{"containerd", "44c76ce5-f953-4bd3-bc89-12621681af49", "40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9", "besteffort", "systemd"},
		Container,
	},
	{
		"kind of 2022", // github.com/DataDog/datadog-agent, pid_mapper_test.go
		"/docker/88ea268ece65a02d68b169fd74bcbcb427eb7f28900db0e3b906fb2eeb7341df/kubelet/kubepods/burstable/poda5ea884f-9e60-4912-bd62-fef9a31db47a/a51a9f7d073f848e7fc59e56e8f11524f330a2175a4ed26327da2dfe0d28015e",
		Ref{"", "a5ea884f-9e60-4912-bd62-fef9a31db47a", "a51a9f7d073f848e7fc59e56e8f11524f330a2175a4ed26327da2dfe0d28015e", "burstable", "cgroupfs"},
		Container,
	},
	{
		"kind, guaranteed", // github.com/cilium/tetragon, proc_test.go
		"/system.slice/docker-c1146e7ccca9ab4436abd69923c07d097b37b762ed21cc3f24584c2f84e77c57.scope/kubelet/kubepods/pod55db13a1-c151-4cdd-a48b-e002a2b1fb58/21e677e6fe95215ea48bcb5609c10e67ba8e76a7a3ea749af704e72260eb93fe",
		Ref{"", "55db13a1-c151-4cdd-a48b-e002a2b1fb58", "21e677e6fe95215ea48bcb5609c10e67ba8e76a7a3ea749af704e72260eb93fe", "guaranteed", "cgroupfs"},
		Container,
	},
	{
		"minikube with docker in docker", // tetragon, proc_test.go
		"/system.slice/docker-1b3319ed9c1d4cca681f9c102da9b015555785b6240c4e4619f11b535cabdc07.scope/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podeb653d22_2525_47ca_9fc4_3762497ae1d2.slice/docker-84e9ffffe97fea4c5a0f01d401611cbafbf7e559fc6190ed74abfc2b25e889d4.scope",
		Ref{"docker", "eb653d22-2525-47ca-9fc4-3762497ae1d2", "84e9ffffe97fea4c5a0f01d401611cbafbf7e559fc6190ed74abfc2b25e889d4", "besteffort", "systemd"},
		Container,
	},
	{
		"minikube with containerd", // tetragon, proc_test.go
		"/system.slice/docker-94acc75af8cf9c56e10676b0760ed424bec95dadc91f68f6564014686930200e.scope/kubepods/besteffort/pod13cb8437-00ed-40e4-99d8-e17193a58086/a5a6a3af5d51ad95b915ca948710b90a94abc279e84963b9d22a39f342ce67d9",
		Ref{"", "13cb8437-00ed-40e4-99d8-e17193a58086", "a5a6a3af5d51ad95b915ca948710b90a94abc279e84963b9d22a39f342ce67d9", "besteffort", "cgroupfs"},
		Container,
	},
	{
		"kind's kubelet", // tetragon, proc_test.go
		"/system.slice/docker-c1146e7ccca9ab4436abd69923c07d097b37b762ed21cc3f24584c2f84e77c57.scope/system.slice/kubelet.service", Ref{}, Other,
	},
	// Pods in pods.
	{
		"k3s in a pod of a virtual cluster", // as k3k does since github.com/rancher/k3k/pull/792: the paths of EKS and of k3s above, joined
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2d5133c0_65f3_40b2_b375_c04866d418e1.slice/cri-containerd-e01a26336924e2fb8089bcf4cf943954fd9ea616cc5678f38f65928307979459.scope/kubepods/burstable/pod404bd273-57bc-4508-a386-e2b76d3c9cfe/3aaaa76f09e1de6bb75e84f9c15b737a2d590f69757953e3ec262bd5861dc15b",
		Ref{"containerd", "2d5133c0-65f3-40b2-b375-c04866d418e1", "e01a26336924e2fb8089bcf4cf943954fd9ea616cc5678f38f65928307979459", "burstable", "systemd"},
		Container,
	},
	{
		"docker in a pod", // the paths of kube-proxy above and of docker, joined
		"/kubepods/besteffort/pod0d08203e-255a-11e9-8cd9-0007cb0b2cc8/671a50f5d60566556912f61511d0ec9e4d5c78d53fbc4676727180438bbbbc55/docker/63425c4a8b4291744a79dd9011fddc7a1f8ffda61f65d72196aa01d00cae2e2d",
		Ref{"", "0d08203e-255a-11e9-8cd9-0007cb0b2cc8", "671a50f5d60566556912f61511d0ec9e4d5c78d53fbc4676727180438bbbbc55", "besteffort", "cgroupfs"},
		Container,
	},
	// From inside of another cgroup namespace.
	{
		"another pod of a node with docker", // github.com/neuvector/neuvector, cgroup_test.go
		"/../../kubepods-besteffort-podfd698699_eabf_4c23_92ef_cf0bbdb78261.slice/docker-2cc65c162ca1388b6b8d5ccfb701d22fc96675ccf8b2f1590c490c2c4039547f.scope",
		Ref{"docker", "fd698699-eabf-4c23-92ef-cf0bbdb78261", "2cc65c162ca1388b6b8d5ccfb701d22fc96675ccf8b2f1590c490c2c4039547f", "besteffort", "systemd"},
		Container,
	},
	{
		"a pod of another class", // spire, k8s_posix_test.go
		"/../../../burstable/pod095e82d2-713c-467a-a18a-cbb50a075296/6d1234da0f5aa7fa0ccae4c7d2d109929eb9a81694e6357bcd4547ab3985911b",
		Ref{"", "095e82d2-713c-467a-a18a-cbb50a075296", "6d1234da0f5aa7fa0ccae4c7d2d109929eb9a81694e6357bcd4547ab3985911b", "burstable", "cgroupfs"},
		Container,
	},
	{
		"a pod of the same class, which is not said", // beyla, container_info_test.go
		"/../../pode039200acb850c82bb901653cc38ff6e/40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9",
		Ref{"", "e039200acb850c82bb901653cc38ff6e", "40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9", "", "cgroupfs"},
		Container,
	},
	{
		"a path without a slash in front", // datadog-agent, pid_mapper_test.go
		"../../../kubepods-burstable.slice/kubepods-burstable-pod562c01d6_6aba_49fe_ae52_61c40c04eca4.slice/docker-a51a9f7d073f848e7fc59e56e8f11524f330a2175a4ed26327da2dfe0d28015f.scope",
		Ref{"docker", "562c01d6-6aba-49fe-ae52-61c40c04eca4", "a51a9f7d073f848e7fc59e56e8f11524f330a2175a4ed26327da2dfe0d28015f", "burstable", "systemd"},
		Container,
	},
	{
		"the same pod, containerd", // beyla, container_info_test.go
		"/../cri-containerd-40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9.scope",
		Ref{"containerd", "", "40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9", "", "systemd"},
		Container,
	},
	{
		"the same pod, CRI-O on KubeEdge", // spire, k8s_posix_test.go
		"/../crio-45490e76e0878aaa4d9808f7d2eefba37f093c3efbba9838b6d8ab804d9bd814.scope",
		Ref{"cri-o", "", "45490e76e0878aaa4d9808f7d2eefba37f093c3efbba9838b6d8ab804d9bd814", "", "systemd"},
		Container,
	},
	{"a neighbour that may be any container of docker", "/../docker-656959d9ee87a0b131c601ce9d9f8f76b1dda60e8608c503b5979d849cbdc714.scope", Ref{}, Other},
	{"a neighbour whose runtime is not known", "/../40c03570b6f4c30bc8d69923d37ee698f5cfcced92c7b7df1c47f6f7887378a9", Ref{}, Other},
	{"oneself", "/", Ref{}, Other},
	{"the one above", "/..", Ref{}, Other},
	{"a session", "/../../user.slice/user-501.slice/session-3.scope", Ref{}, Other}, // github.com/grafana/pyroscope, target_test.go
	// Levels.
	{"cgroupfs' pod", "/kubepods/poda2830d0d-b0f0-4ff0-81b5-0ee4e299cf80", Ref{"", "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80", "", "guaranteed", "cgroupfs"}, Pod}, // spire
	{
		"systemd's pod", "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod35550f44_f691_427e_b57d_ab6127d2cb65.slice",
		Ref{"", "35550f44-f691-427e-b57d-ab6127d2cb65", "", "burstable", "systemd"},
		Pod,
	},
	{"cgroupfs' class", "/sys/fs/cgroup/cpu/kubepods/besteffort", Ref{}, QoS},
	{"systemd's class", "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice", Ref{}, QoS},
	{"kind's class", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice", Ref{}, QoS},
	{"all pods, cgroupfs", "/sys/fs/cgroup/kubepods", Ref{}, Kubepods},
	{"all pods, systemd", "/sys/fs/cgroup/kubepods.slice/", Ref{}, Kubepods},
	{"all pods, kind", "/kubelet.slice/kubelet-kubepods.slice", Ref{}, Kubepods},
	{"the kubelet's root", "/kubelet.slice", Ref{}, Other},
	{"the mount", "/sys/fs/cgroup", Ref{}, Other},
	{"nothing", "", Ref{}, Other},
	// What looks like it.
	{"docker", "/docker/63425c4a8b4291744a79dd9011fddc7a1f8ffda61f65d72196aa01d00cae2e2d", Ref{}, Other},
	{"docker, systemd", "/system.slice/docker-cf87ba651579c9231db817909e7865e5747bd7abcac0c57ce23cf4abbaee046b.scope", Ref{}, Other},
	{"a pod of podman", "/machine.slice/machine-libpod_pod_3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc.slice/libpod-06dc5f321aad8726aa26559f16ec203bc099245bc44894b14a89fc02b022d1d5.scope", Ref{}, Other},
	{"ECS", "/ecs/8474ac4cec7a4f488834b00591271ec3/8474ac4cec7a4f488834b00591271ec3-3054012820", Ref{}, Other}, // datadog-agent
	{"no pod", "/kubepods/09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6", Ref{}, Other},     // spire
	{"Talos", "/podruntime/kubelet", Ref{}, Other}, // coroot
	{"a class of something else", "/burstable/x", Ref{}, Other},
	{"a slice of that name", "/mykubepods.slice", Ref{}, Other},
	{"a UID that is none", "/kubepods.slice/kubepods-pod1.slice", Ref{}, Other},
	{
		"gone", "/kubepods/besteffort/pod74c13223-5a00-11e9-b385-42010a80018d/34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376 (deleted)",
		Ref{"", "74c13223-5a00-11e9-b385-42010a80018d", "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376", "besteffort", "cgroupfs"},
		Container,
	},
	{
		"a virtual machine beside the containers", "/kubepods/burstable/pod69ec2724-f389-498a-9a04-ed9b2065005d/kata_d2bd18310b0f469c8d77b914762d0744aa60963364497fe53887b1f8ef5a1dfa",
		Ref{"", "69ec2724-f389-498a-9a04-ed9b2065005d", "", "burstable", "cgroupfs"},
		Other,
	},
}

func TestParse(t *testing.T) {
	for _, c := range paths {
		got, ok := Parse(c.path)
		if got != c.want || ok != (c.want.PodUID != "" || c.want.Container != "") {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, ok, c.want)
		}
		if level := Level(c.path); level != c.level {
			t.Errorf("%s: level %s, want %s", c.name, level, c.level)
		}
		holds(t, c.path)
	}
}

// holds fails if Parse says what the text doesn't, or if Level says something else.
func holds(t *testing.T, path string) {
	r, ok := Parse(path)
	level := Level(path)
	if ok == (r == Ref{}) {
		t.Errorf("%q: %+v, %v, level %s", path, r, ok, level)
	}
	switch {
	case r.Container != "" && level != Container, level == Container && r.Container == "",
		level == Pod && (r.PodUID == "" || r.Container != ""), (level == QoS || level == Kubepods) && ok:
		t.Errorf("%q: %+v is of level %s", path, r, level)
	}
	if !ok {
		return
	}
	in := func(text string) bool { return strings.Contains(path, text) }
	if r.PodUID != "" && !in("pod"+r.PodUID) && !in("-pod"+strings.ReplaceAll(r.PodUID, "-", "_")+".slice") {
		t.Errorf("%q has no pod %s", path, r.PodUID)
	}
	if r.Container != "" && (len(r.Container) != 64 || !in(r.Container)) {
		t.Errorf("%q has no container %s", path, r.Container)
	}
	words := map[string]string{"": "", "containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}
	if word, known := words[r.Runtime]; !known || !in(word) {
		t.Errorf("%q is not of %s", path, r.Runtime)
	}
	if r.QoS == "guaranteed" && !in("kubepods") || r.QoS != "guaranteed" && !in(r.QoS) {
		t.Errorf("%q is not %s", path, r.QoS)
	}
	if r.Driver != systemd && r.Driver != cgroupfs || r.Driver == systemd && !in(".slice") && !in(".scope") {
		t.Errorf("%q: driver %q", path, r.Driver)
	}
	if r.Container == "" {
		return
	}
	whole := strings.TrimSuffix(path, " (deleted)")
	if inside, _ := Parse(whole + "/init.scope"); inside != r || Level(whole+"/init.scope") != Container {
		t.Errorf("%q: inside of it is %+v", path, inside)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range paths {
		f.Add(c.path)
	}
	f.Fuzz(holds)
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		Parse(paths[0].path)
	}
}
