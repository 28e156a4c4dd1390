//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// searchPath is where the node's programs are.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + setup.Programs

// ip runs ip(8).
func ip(args ...string) error {
	cmd := exec.Command("ip", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func ips(commands ...string) error {
	for _, c := range commands {
		if err := ip(strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// podBridge is what the pods of a node are connected to.
const podBridge = "pods"

// makeNetwork gives the device that the test has put here its address, and forwards the service "kubernetes", for which
// there would be kube-proxy otherwise.
func makeNetwork(c setup.Config) error {
	host, _, err := net.SplitHostPort(c.Service)
	if err != nil {
		return err
	}
	if err := waitForDevice("eth0"); err != nil {
		return err
	}
	gateway, err := netip.ParsePrefix(c.Pods.Gateway)
	if err != nil {
		return err
	}
	err = ips(
		"link set lo up",
		"address add "+host+"/32 dev lo",
		"address add "+c.Address+" dev eth0",
		"link set eth0 up",
		"route add default via "+c.Gateway,
		"link add "+podBridge+" address "+hardware(gateway.Addr())+" type bridge",
		"address add "+c.Pods.Gateway+" dev "+podBridge,
		"link set "+podBridge+" up",
	)
	if err == nil {
		err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) // of this namespace alone
	}
	if err != nil {
		return fmt.Errorf("making the node's network: %w", err)
	}
	listener, err := net.Listen("tcp", c.Service)
	if err != nil {
		return err
	}
	go setup.Forward(listener, c.APIServer)
	return nil
}

// waitForDevice waits for a device that another process puts into this namespace.
func waitForDevice(name string) (err error) {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if _, err = net.InterfaceByName(name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("waiting for the network: %w", err)
}
