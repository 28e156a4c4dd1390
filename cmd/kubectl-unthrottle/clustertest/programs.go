package clustertest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The versions, which kubernetes/go.mod names too. Build compares them with what the programs say.
const (
	KubernetesVersion = "v1.36.3"
	EtcdVersion       = "v3.6.8"
)

// A Program is a part of a cluster, as Kubernetes and etcd publish it.
type Program struct {
	Name    string
	Package string // its main package
	Version string // of the module that has it
}

// Programs are all that can be built.
var Programs = []Program{
	{"etcd", "go.etcd.io/etcd/server/v3", EtcdVersion},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", KubernetesVersion},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", KubernetesVersion},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", KubernetesVersion},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", KubernetesVersion},
	{"kubelet", "k8s.io/kubernetes/cmd/kubelet", KubernetesVersion},
}

// BuildFlags are those of go build. Without the -X flags the programs would call themselves v0.0.0-master.
var BuildFlags = []string{"-trimpath", "-ldflags=" + strings.Join([]string{
	"-s", "-w",
	"-X", "k8s.io/component-base/version.gitVersion=" + KubernetesVersion,
	"-X", "k8s.io/component-base/version.gitMajor=" + strings.TrimPrefix(strings.Split(KubernetesVersion, ".")[0], "v"),
	"-X", "k8s.io/component-base/version.gitMinor=" + strings.Split(KubernetesVersion, ".")[1],
}, " ")}

// ErrNotBuilt means that a program is not in the cache.
var ErrNotBuilt = errors.New("is not built")

// Dir is where the programs are: a folder of the user's cache whose name says all that they depend on.
func Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the cache of built programs: %w", err)
	}
	name := fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s-%08x", KubernetesVersion, EtcdVersion, runtime.Version(), runtime.GOARCH,
		crc32.ChecksumIEEE([]byte(strings.Join(BuildFlags, " "))))
	return filepath.Join(cache, "unthrottle-test", "cluster", name), nil
}

// find returns the paths of programs, or ErrNotBuilt with the names of those that are missing.
func find(names ...string) (paths map[string]string, err error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	paths = map[string]string{}
	var missing []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		} else if err != nil {
			return nil, fmt.Errorf("looking for %s: %w", name, err)
		}
		paths[name] = path
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s of Kubernetes %s %w in %s", strings.Join(missing, ", "), KubernetesVersion, ErrNotBuilt, dir)
	}
	return paths, nil
}
