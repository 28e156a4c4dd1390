//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// makeFiles makes the node's root file system. It has the machine's programs, which it cannot change, and its devices.
func makeFiles(c setup.Config) error {
	m := &mounter{root: c.Root}
	m.change("/", syscall.MS_REC|syscall.MS_PRIVATE) // nothing that is mounted here is seen by the machine
	m.bind(c.Root, "/", 0)
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		m.share(dir)
	}
	m.bind(c.Programs, setup.Programs, syscall.MS_RDONLY)
	m.bind("/dev", "/dev", syscall.MS_REC)
	m.mount("proc", "proc", "/proc", 0, "")
	m.mount("sysfs", "sysfs", "/sys", 0, "")
	m.mount("tmpfs", "tmpfs", "/sys/fs/cgroup", 0, "mode=755")
	for _, g := range c.Cgroups {
		m.hierarchy(g.Controllers)
	}
	for name, value := range kubeletSysctls {
		m.fake(name, value)
	}
	if m.err != nil {
		return fmt.Errorf("making the node's files: %w", m.err)
	}
	return enter(c.Root)
}

// kubeletSysctls are what a kubelet sets, to the values that it wants. They are the whole machine's, so a node has files in
// their place.
var kubeletSysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// A mounter mounts below a root, and stops at the first error.
type mounter struct {
	root string
	err  error
}

func (m *mounter) do(what string, f func() error) {
	if m.err != nil {
		return
	}
	if err := f(); err != nil {
		m.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (m *mounter) change(path string, flags uintptr) {
	m.do("changing the mount "+path, func() error { return syscall.Mount("", path, "", flags, "") })
}

func (m *mounter) mount(source, kind, path string, flags uintptr, data string) {
	target := filepath.Join(m.root, path)
	m.do("mounting "+path, func() error {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		return syscall.Mount(source, target, kind, flags, data)
	})
}

func (m *mounter) bind(source, path string, flags uintptr) {
	m.mount(source, "", path, syscall.MS_BIND|flags&syscall.MS_REC, "")
	if flags&syscall.MS_RDONLY != 0 {
		m.change(filepath.Join(m.root, path), syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY)
	}
}

// share lets the node see a directory of the machine, or the same symbolic link.
func (m *mounter) share(path string) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		m.do("linking "+path, func() error {
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(to, filepath.Join(m.root, path))
		})
	default:
		m.bind(path, path, syscall.MS_RDONLY)
	}
}

// hierarchy mounts one of cgroup v1 where a distribution has it: cpu,cpuacct with links for each of the two.
func (m *mounter) hierarchy(controllers string) {
	name, data := controllers, controllers
	if named, ok := strings.CutPrefix(controllers, "name="); ok {
		name, data = named, "none,"+controllers
	}
	m.mount("cgroup", "cgroup", "/sys/fs/cgroup/"+name, 0, data)
	if each := strings.Split(name, ","); len(each) > 1 {
		for _, controller := range each {
			m.do("linking "+controller, func() error { return os.Symlink(name, filepath.Join(m.root, "sys/fs/cgroup", controller)) })
		}
	}
}

// fake puts a file with a value over one in /proc/sys, if it is there.
func (m *mounter) fake(name, value string) {
	target := filepath.Join(m.root, "proc/sys", name)
	if _, err := os.Stat(target); err != nil {
		return
	}
	source := filepath.Join(m.root, "var/lib/sysctl", strings.ReplaceAll(name, "/", "."))
	m.do("replacing "+name, func() error {
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(source, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		return syscall.Mount(source, target, "", syscall.MS_BIND, "")
	})
}

// enter makes a directory the root, with the old one out of sight. Mounts in it are seen by the containers that ask for
// it, as on a node whose first process is systemd.
func enter(root string) error {
	err := os.Chdir(root)
	if err == nil {
		err = syscall.PivotRoot(".", ".")
	}
	if err == nil {
		err = syscall.Unmount(".", syscall.MNT_DETACH)
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err == nil {
		err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, "")
	}
	if err != nil {
		return fmt.Errorf("changing the root to %s: %w", root, err)
	}
	return nil
}
