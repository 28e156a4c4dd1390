package demo

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard keeps other websites out. A server on loopback is within reach of every page that its user's browser opens, and this one burns CPU
// for anyone who asks.
func (s *Server) guard(next http.Handler) http.Handler {
	var crossOrigin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		err := s.allowHost(r)
		if err == nil {
			err = crossOrigin.Check(r)
		}
		if err == nil && hidden(r) {
			err = errors.New("another website may not ask this server for anything")
		}
		if err != nil {
			refuse(w, http.StatusForbidden, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hidden reports whether a browser asks in the name of another website without its user seeing the answer. Following a
// link to here is fine, an image that is /work?cpu=10s is not.
func hidden(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Dest") != "document"
}

// allowHost refuses names that someone else may have pointed at this machine (DNS rebinding): to a browser, a page under such a name is of
// the same origin. It takes a name to do that, so addresses are fine. Only connections over loopback are checked: a server that listens for
// others, in a container for instance, is called by names that it can't know.
func (s *Server) allowHost(r *http.Request) error {
	if local, err := localAddr(r); err != nil || !local.Addr().IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.o.Hosts, host) {
		return nil
	}
	return fmt.Errorf("host: %q is not localhost, an address, or a name that was allowed", r.Host)
}

// localAddr is the address of the server's end of the connection.
func localAddr(r *http.Request) (netip.AddrPort, error) {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("the server is not reached over TCP")
	}
	at := addr.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}
