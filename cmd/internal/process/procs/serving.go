package procs

import (
	"net"
	"net/url"
	"slices"
	"strconv"
)

// Serving finds the process that answers at a URL of this host; 0: it is elsewhere, or can't be seen, as behind a proxy or of
// another user.
func Serving(root string, u *url.URL) int {
	if !IsLocal(u.Hostname()) {
		return 0
	}
	pid, _ := Listener(root, Port(u))
	return pid
}

// Port is the port of a URL, as written or by its scheme; 0: neither.
func Port(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	return map[string]int{"http": 80, "https": 443}[u.Scheme]
}

// IsLocal reports whether a host is this one.
func IsLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
