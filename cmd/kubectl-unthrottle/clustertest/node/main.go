//go:build linux

// Command node is one node of a cluster for tests: the first process in namespaces of its own, which makes a file system, a
// network and hierarchies of cgroups there, starts containerd and the kubelet on request, and reaps. Package setup has the
// requests. When it ends, or the test that started it, the kernel kills all that runs in its namespaces, and mounts and
// network are gone with them.
//
// The same program is the container that holds a pod's namespaces ("node pause"), and the plugin that gives pods an address
// (by the variables of the Container Network Interface), so that a node needs as few programs as possible.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// Namespaces and the signal for a dead parent belong to a thread, and the first one stays to the end.
func init() { runtime.LockOSThread() }

func main() {
	var err error
	switch {
	case os.Getenv("CNI_COMMAND") != "":
		os.Exit(plugin(os.Stdin, os.Stdout))
	case len(os.Args) == 2 && os.Args[1] == "pause":
		pause()
	case len(os.Args) == 3 && os.Args[1] == "join":
		err = join(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "run":
		err = run(os.Args[2])
	default:
		err = errors.New("only package clustertest starts this")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// pause waits for its end, and reaps what others leave it.
func pause() {
	end, children := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-children:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
					break
				}
			}
		}
	}
}

func readConfig(path string) (c setup.Config, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}

// join enters the node's groups and then a namespace in which they are the roots. A namespace of cgroups belongs to a
// thread, so the program starts again from the one that has entered it.
func join(path string) error {
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	for _, g := range c.Cgroups {
		if err := os.WriteFile(g.Dir+"/cgroup.procs", []byte("0"), 0o644); err != nil {
			return fmt.Errorf("entering a control group: %w", err)
		}
	}
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a namespace of control groups: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, []string{"node", "run", path}, os.Environ())
}

func run(path string) error {
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(c.Name)); err != nil {
		return fmt.Errorf("setting the host's name: %w", err)
	}
	if err := makeFiles(c); err != nil {
		return err
	}
	if err := makeNetwork(c); err != nil {
		return err
	}
	return newSupervisor().serve(os.Stdin, os.Stdout)
}
