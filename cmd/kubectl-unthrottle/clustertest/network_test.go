//go:build linux

package clustertest

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

// TestNetwork makes a network where a killed node left a device, and leaves none itself.
func TestNetwork(t *testing.T) {
	if os.Getuid() != 0 || exec.Command("ip", "link").Run() != nil {
		t.Skip("making network devices takes root, and ip")
	}
	first, err := newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	device := first.device(0)
	t.Cleanup(func() { exec.Command("ip", "link", "delete", device).Run() })
	add := func() {
		t.Helper()
		if err := ip("link", "add", device, "type", "bridge"); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(when string) {
		t.Helper()
		if _, err := net.InterfaceByName(device); err == nil {
			t.Errorf("%s there is %s", when, device)
		}
	}
	add()
	if err := first.close(); err != nil {
		t.Error(err)
	}
	gone("after the end")
	add()
	second, err := newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if second.number != first.number {
		t.Skip("the number was taken meanwhile")
	}
	gone("in a new network")
}
