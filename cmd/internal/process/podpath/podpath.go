// Package podpath answers: which pod and which container of Kubernetes is this cgroup?
//
// In goes a path, as /proc/PID/cgroup writes it or as a directory below a mount. Out comes what its text says: the pod's UID, the
// container's ID, the runtime where its name is part of the path, the QoS class. The package reads no file and asks no server, so it
// doesn't know a pod's name: package pods of the cluster's command does.
//
// The shapes are those of the kubelet's two drivers, below whatever --cgroup-root or a node that is a container itself put in front:
//
//	/kubepods/burstable/podUID/ID                                                                          cgroupfs
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope       systemd
//	/system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:ID                     both: systemd's names, which
//	                                                                                                       a runtime took for cgroupfs
//
// Not recognised are static pods whose manifest sets a UID that is neither a UUID nor a hash, and pods of kubelets older than 1.6.
package podpath

import "strings"

// A Ref is what a path says. Empty fields are not in it.
type Ref struct {
	Runtime   string // containerd, cri-o or docker
	PodUID    string // with dashes, as the API writes it; a static pod's is a hash without any
	Container string // 64 hexadecimal digits; "" for a pod's own group, and for one next to the containers, such as conmon's
	QoS       string // guaranteed, burstable or besteffort
	Driver    string // systemd or cgroupfs
}

// Whose group a directory is.
const (
	Container = "container" // a container's, or one that it made inside of its own
	Pod       = "pod"
	QoS       = "qos" // all pods of a class
	Kubepods  = "kubepods"
	Other     = "other"
)

const (
	systemd  = "systemd"
	cgroupfs = "cgroupfs"
)

// Parse says to which pod and container a path belongs; false: to none. Where one pod runs inside of another, as the nodes of a
// virtual cluster do, it is the outer one: its limits hold for both, and the node's own API server knows it.
//
// From inside of another cgroup namespace, paths begin with "/..", and may lack the pod or its class. The ID alone is enough if
// only pods have such a name: /../cri-containerd-ID.scope, but not /../docker-ID.scope.
func Parse(path string) (Ref, bool) {
	r, _ := read(path)
	if r.PodUID == "" && r.Container == "" {
		return Ref{}, false
	}
	return r, true
}

// Level says whose group a directory is: Container, Pod, QoS, Kubepods or Other. A container that makes groups inside of its own,
// as some runtimes do for it, has more than one directory of the level Container.
func Level(path string) string {
	_, level := read(path)
	return level
}

// read goes down a path, from directory to directory.
func read(path string) (r Ref, level string) {
	level = Other
	up := false // the directory before was "..", so this one may be anything
	for name := range strings.SplitSeq(strings.TrimSuffix(path, " (deleted)"), "/") {
		switch name {
		case "", ".":
			continue
		case "..":
			r, level, up = Ref{}, Other, true
			continue
		}
		slice, scope, both := strings.Cut(name, ":")
		if r.PodUID == "" {
			level = r.parent(slice, level, up)
			up = false
			if both && level == Pod {
				name = strings.Replace(scope, ":", "-", 1)
			} else if level != Other {
				continue
			}
		}
		if runtime, id, driver := container(name); id != "" && (r.PodUID != "" || runtime == "containerd" || runtime == "cri-o") {
			r.Container, r.Runtime = id, runtime
			if r.Driver == "" {
				r.Driver = driver
			}
			return r, Container
		}
		level = Other
		if r.PodUID != "" && strings.HasPrefix(name, "crio-conmon-") {
			r.Runtime = "cri-o"
		}
	}
	return r, level
}

// parent reads the name of a directory above the containers, and gives its level. above is that of the directory which it is in.
func (r *Ref) parent(name, above string, up bool) string {
	class := name
	switch name {
	case "kubepods":
		r.QoS = ""
		return Kubepods
	case "burstable", "besteffort":
		if above == Kubepods || up {
			r.QoS = class
			return QoS
		}
		return Other
	}
	if uid, ok := strings.CutPrefix(name, "pod"); ok && isUID(uid, '-') {
		r.PodUID, r.Driver = uid, cgroupfs
		switch above {
		case Kubepods:
			r.QoS = "guaranteed"
		case Other:
			r.QoS = ""
		}
		return Pod
	}
	name, ok := strings.CutSuffix(name, ".slice")
	if !ok {
		return Other
	}
	return r.slice(name)
}

// slice reads the name of a slice, without its suffix. Systemd's slices hold the names of those that they are in:
//
//	kubelet-kubepods-burstable-pod2c48913c_b29f_11e7_9350_020968147796
func (r *Ref) slice(name string) string {
	i := strings.LastIndex("-"+name, "-kubepods")
	if i < 0 {
		return Other
	}
	rest := name[i+len("kubepods"):]
	if rest == "" {
		return Kubepods
	}
	class := "guaranteed"
	for _, c := range []string{"burstable", "besteffort"} {
		if after, ok := strings.CutPrefix(rest, "-"+c); ok {
			class, rest = c, after
			break
		}
	}
	if rest == "" {
		r.QoS = class
		return QoS
	}
	uid, ok := strings.CutPrefix(rest, "-pod")
	if !ok || !isUID(uid, '_') {
		return Other
	}
	r.PodUID, r.QoS, r.Driver = strings.ReplaceAll(uid, "_", "-"), class, systemd
	return Pod
}

// container reads the name of a container's directory; id is "" if it isn't one.
func container(name string) (runtime, id, driver string) {
	name, ok := strings.CutSuffix(name, ".scope")
	driver = cgroupfs
	if ok {
		driver = systemd
	}
	for _, known := range []struct{ prefix, runtime string }{
		{"cri-containerd-", "containerd"}, {"crio-", "cri-o"}, {"docker-", "docker"},
	} {
		if after, ok := strings.CutPrefix(name, known.prefix); ok {
			name, runtime = after, known.runtime
			break
		}
	}
	if len(name) != 64 || !isHex(name) || driver == systemd && runtime == "" {
		return "", "", ""
	}
	return runtime, name, driver
}

// isUID says whether a text is a UUID, with the separator that the driver writes, or a hash.
func isUID(s string, separator byte) bool {
	if len(s) == 32 {
		return isHex(s)
	}
	if len(s) != 36 {
		return false
	}
	for _, i := range []int{8, 13, 18, 23} {
		if s[i] != separator {
			return false
		}
	}
	return isHex(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
