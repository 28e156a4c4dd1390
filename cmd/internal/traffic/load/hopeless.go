package load

import (
	"errors"
	"net"
	"net/http"
	"syscall"
)

// A Hopeless load is one that says nothing about the server, however long it goes on; "" is any other.
type Hopeless string

// What all requests of a hopeless load came to.
const (
	Refused  Hopeless = "refused"   // nothing listens there
	NoHost   Hopeless = "no host"   // no address is known by its name
	NotFound Hopeless = "not found" // there is no such page
)

// Hopeless says whether all that was done so far came to nothing, for one reason.
func (r *Run) Hopeless() Hopeless {
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	return r.rec.hopeless()
}

func (r *recorder) hopeless() Hopeless {
	done := r.res.Requests - r.res.Unfinished // those had no time to come to anything
	switch {
	case done == 0:
		return ""
	case r.res.Refused == done:
		return Refused
	case r.res.NoHost == done:
		return NoHost
	case r.statuses[http.StatusNotFound] == done:
		return NotFound
	}
	return ""
}

// refused reports whether nothing listened: at a port, or at a socket that is not there.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// noHost reports whether a host's name is not known.
func noHost(err error) bool {
	var lookup *net.DNSError
	return errors.As(err, &lookup) && lookup.IsNotFound
}
