package door

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// mostSources is how many addresses without a connection are remembered, for how many they opened just before. A node has some 250
// pods; beyond that the oldest are forgotten, and one that comes again is new.
const mostSources = 1024

// A listener gives the connections that there is room for, and closes the others.
type listener struct {
	net.Listener
	bounds Bounds
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	sources map[string]*source // by address
	open    int
	turned  int64     // newcomers that were closed, and others that were closed for one
	said    time.Time // when the log had that last
}

// A source is an address that connections come from.
type source struct {
	address string
	conns   map[*conn]struct{}
	tokens  float64 // connections that it may open at once
	at      time.Time
}

// A conn is a connection that was let in.
type conn struct {
	net.Conn
	l       *listener
	of      *source
	since   time.Time // when it began to wait for its client
	working bool      // its request is whole, and not answered yet
}

// Accept waits for a connection that may stay.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ours, victim := l.admit(c)
		if victim != nil {
			victim.drop()
		}
		if ours != nil {
			return ours, nil
		}
		drop(c)
	}
}

// admit takes a connection in, in place of another one if necessary. ours is nil if there is no room.
func (l *listener) admit(c net.Conn) (ours, victim *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	s := l.source(addressOf(c), now)
	if s.tokens < 1 {
		l.turn(now, s)
		return nil, nil
	}
	s.tokens--
	var full bool
	switch {
	case len(s.conns) >= l.bounds.Each:
		full, victim = true, s.oldest()
	case l.open >= l.bounds.Connections:
		full, victim = true, l.oldest()
	}
	if full {
		l.turn(now, s)
		if victim == nil {
			return nil, nil // all are being answered
		}
		victim.gone()
	}
	ours = &conn{Conn: c, l: l, of: s, since: now}
	s.conns[ours] = struct{}{}
	l.open++
	return ours, victim
}

func addressOf(c net.Conn) string {
	a := c.RemoteAddr()
	if a == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.Network() // of one that has no addresses all are the same
}

// source is what is known about an address.
func (l *listener) source(address string, now time.Time) *source {
	most := float64(max(l.bounds.EachSecond, l.bounds.Each))
	s := l.sources[address]
	if s == nil {
		if len(l.sources) >= l.bounds.Connections+mostSources {
			l.forget()
		}
		s = &source{address: address, conns: map[*conn]struct{}{}, tokens: most, at: now}
		l.sources[address] = s
	}
	s.tokens = min(most, s.tokens+now.Sub(s.at).Seconds()*float64(l.bounds.EachSecond))
	s.at = now
	return s
}

// forget forgets the addresses without a connection. There are some: no more addresses have one than there are connections.
func (l *listener) forget() {
	for address, s := range l.sources {
		if len(s.conns) == 0 {
			delete(l.sources, address)
		}
	}
}

// oldest is the connection that has waited longest, of the address with the most of them; nil if none waits.
func (l *listener) oldest() (found *conn) {
	for _, s := range l.sources {
		if c := s.oldest(); c != nil {
			if n := 0; found != nil {
				if n = len(found.of.conns) - len(s.conns); n > 0 || n == 0 && !c.since.Before(found.since) {
					continue
				}
			}
			found = c
		}
	}
	return found
}

func (s *source) oldest() (found *conn) {
	for c := range s.conns {
		if !c.working && (found == nil || c.since.Before(found.since)) {
			found = c
		}
	}
	return found
}

// turn counts a connection that was turned away, and logs it once a minute.
func (l *listener) turn(now time.Time, s *source) {
	l.turned++
	if now.Sub(l.said) >= time.Minute {
		l.said = now
		l.log.Warn("more connections than there is room for: some were closed", "at", l.Addr().String(), "from", s.address, "its", len(s.conns), "all", l.open, "closed", l.turned)
	}
}

// gone takes a connection out of the books, once.
func (c *conn) gone() {
	if _, ok := c.of.conns[c]; ok {
		delete(c.of.conns, c)
		c.l.open--
	}
}

// Close closes it, and makes room.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.gone()
	c.l.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) works() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.working = true
}

func (c *conn) waits() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.working, c.since = false, c.l.now()
}

func (c *conn) drop() { drop(c.Conn) }

// drop closes a connection at once: the kernel must not keep what its client has not read or sent.
func drop(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
