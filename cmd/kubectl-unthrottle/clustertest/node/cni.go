//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// A request is what the plugin reads of its configuration.
type request struct {
	Version string `json:"cniVersion"`
	Type    string `json:"type"` // "loopback" is a plugin that container runtimes call for each pod, too
	Range   string `json:"range"`
	Gateway string `json:"gateway"`
}

type (
	result struct {
		Version    string    `json:"cniVersion"`
		Interfaces []device  `json:"interfaces,omitempty"`
		IPs        []address `json:"ips,omitempty"`
	}
	device struct {
		Name    string `json:"name"`
		Sandbox string `json:"sandbox"`
	}
	address struct {
		Address   string `json:"address"`
		Gateway   string `json:"gateway"`
		Interface int    `json:"interface"`
	}
	failure struct {
		Version string `json:"cniVersion"`
		Code    int    `json:"code"`
		Message string `json:"msg"`
	}
)

// plugin gives a pod an address, or removes it, as the Container Network Interface has it: a device that is connected to
// the node's bridge. It says so on out.
func plugin(in io.Reader, out io.Writer) (exit int) {
	var r request
	err := json.NewDecoder(in).Decode(&r)
	var answer any
	if err == nil {
		answer, err = r.do(os.Getenv("CNI_COMMAND"))
	}
	if err != nil {
		json.NewEncoder(out).Encode(failure{r.Version, 100, err.Error()})
		return 1
	}
	if answer != nil {
		json.NewEncoder(out).Encode(answer)
	}
	return 0
}

func (r request) do(command string) (any, error) {
	id, namespace, name := os.Getenv("CNI_CONTAINERID"), os.Getenv("CNI_NETNS"), os.Getenv("CNI_IFNAME")
	switch command {
	case "VERSION":
		return map[string]any{"cniVersion": r.Version, "supportedVersions": []string{"0.4.0", "1.0.0"}}, nil
	case "ADD":
		if r.Type == "loopback" {
			return result{Version: r.Version}, ips("-n " + filepath.Base(namespace) + " link set lo up")
		}
		return r.add(id, namespace, name)
	case "DEL":
		if r.Type == "loopback" {
			return nil, nil
		}
		return nil, r.remove(id)
	case "CHECK":
		return nil, nil
	}
	return nil, fmt.Errorf("the command %q is unknown", command)
}

// addresses is a directory with a file for each address that is taken, which has the ID of its container.
const addresses = "/run/pod-addresses"

func (r request) add(id, namespace, name string) (any, error) {
	prefix, err := netip.ParsePrefix(r.Range)
	if err != nil {
		return nil, err
	}
	gateway, err := netip.ParsePrefix(r.Gateway)
	if err != nil {
		return nil, err
	}
	own, err := take(prefix, gateway.Addr(), id)
	if err != nil {
		return nil, err
	}
	// ip(8) knows a namespace by a name in /run/netns, which is where the container runtime makes them.
	pod, with := filepath.Base(namespace), netip.PrefixFrom(own, gateway.Bits()).String()
	outer := fmt.Sprintf("veth%08x", crc32.ChecksumIEEE([]byte(id)))
	err = ips(
		fmt.Sprintf("link add %s type veth peer name %s netns %s", outer, name, pod),
		"link set "+outer+" master "+podBridge+" up",
		"-n "+pod+" link set "+name+" address "+hardware(own),
		"-n "+pod+" address add "+with+" dev "+name,
		"-n "+pod+" link set "+name+" up",
		"-n "+pod+" route add default via "+gateway.Addr().String(),
	)
	if err != nil {
		return nil, errors.Join(err, r.remove(id))
	}
	return result{r.Version, []device{{name, namespace}}, []address{{with, gateway.Addr().String(), 0}}}, nil
}

// hardware is the hardware address of a device with an address. It is always the same, so that what is for a new pod isn't sent to the one
// that had its address before, which neighbours remember for up to a minute.
func hardware(own netip.Addr) string {
	ip := own.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
}

// take finds a free address.
func take(all netip.Prefix, gateway netip.Addr, id string) (netip.Addr, error) {
	if err := os.MkdirAll(addresses, 0o755); err != nil {
		return netip.Addr{}, err
	}
	for a := all.Addr().Next(); all.Contains(a.Next()); a = a.Next() { // neither the first nor the last, which is for all
		if a == gateway {
			continue
		}
		f, err := os.OpenFile(filepath.Join(addresses, a.String()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return netip.Addr{}, err
		}
		_, err = f.WriteString(id)
		return a, errors.Join(err, f.Close())
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %v are taken", all)
}

// remove gives back the address. The device goes with the pod's namespace.
func (r request) remove(id string) error {
	files, err := filepath.Glob(filepath.Join(addresses, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if owner, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(owner)) == id {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}
