package door

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// A wire is a connection of an address, which does nothing.
type wire struct {
	net.Conn
	from   string
	closed bool
}

func (w *wire) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(w.from), Port: 1}
}
func (w *wire) Close() error { w.closed = true; return nil }

type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return &net.TCPAddr{} }

// A hall is a listener with a clock of its own.
type hall struct {
	*listener
	clock time.Time
}

func newHall(b Bounds) *hall {
	h := &hall{clock: time.Unix(1e9, 0)}
	h.listener = (&Server{bounds: b, log: quiet}).bound(nowhere{}).(*listener)
	h.now = func() time.Time { return h.clock }
	return h
}

func (h *hall) come(from string) (*conn, *conn) {
	h.clock = h.clock.Add(time.Second)
	ours, victim := h.admit(&wire{from: from})
	if victim != nil {
		victim.drop()
	}
	return ours, victim
}

func TestAdmit(t *testing.T) {
	h := newHall(Bounds{Connections: 4, Each: 2, EachSecond: 100})
	a1, _ := h.come("10.0.0.1")
	a2, _ := h.come("10.0.0.1")
	a1.works()
	if c, victim := h.come("10.0.0.1"); c == nil || victim != a2 {
		t.Error("the third of an address does not take the place of its own that waits")
	} else {
		a2 = c
	}
	a2.works()
	if c, _ := h.come("10.0.0.1"); c != nil {
		t.Error("a third comes in though both are being answered")
	}
	b, _ := h.come("10.0.0.2")
	c, _ := h.come("fe80::1")
	if b == nil || c == nil || h.open != 4 {
		t.Fatalf("%d are open", h.open)
	}
	a2.waits()
	if d, victim := h.come("10.0.0.3"); d == nil || victim != a2 {
		t.Error("a newcomer does not take the place of one whose address has the most")
	}
	if d, victim := h.come("10.0.0.4"); d == nil || victim != b {
		t.Error("of addresses with one each it is not the one that has waited longest")
	}
	for _, s := range h.sources {
		for c := range s.conns {
			c.works()
		}
	}
	if d, _ := h.come("10.0.0.5"); d != nil {
		t.Error("one comes in though all are being answered")
	}
	a1.Close()
	a1.Close()
	if d, _ := h.come("10.0.0.5"); d == nil || h.open != 4 {
		t.Errorf("there is no room after one has gone: %d are open", h.open)
	}
}

// An address may open a number of connections in a row, and then a number per second.
func TestRate(t *testing.T) {
	h := newHall(Bounds{Connections: 4, Each: 4, EachSecond: 10})
	let := 0
	for range 100 {
		if c, _ := h.admit(&wire{from: "10.0.0.1"}); c != nil {
			let++
			c.Close()
		}
	}
	if c, _ := h.admit(&wire{from: "10.0.0.2"}); c == nil || let != 10 {
		t.Errorf("%d came in, and of another address: %v", let, c != nil)
	}
	h.clock = h.clock.Add(time.Second / 2)
	for range 100 {
		if c, _ := h.admit(&wire{from: "10.0.0.1"}); c != nil {
			let++
			c.Close()
		}
	}
	if let != 15 {
		t.Errorf("%d after half a second more", let)
	}
	for i := range 100_000 {
		if c, _ := h.admit(&wire{from: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}); c != nil {
			c.Close()
		}
	}
	if len(h.sources) > mostSources+4 {
		t.Errorf("%d addresses are remembered", len(h.sources))
	}
}

// FuzzAdmit lets connections come, be answered and go in any order.
func FuzzAdmit(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 64, 65, 128, 192, 2, 3, 4})
	f.Fuzz(func(t *testing.T, steps []byte) {
		b := Bounds{Connections: 8, Each: 3, EachSecond: 5}
		h := newHall(b)
		var all []*conn
		for _, step := range steps {
			n := int(step & 63)
			switch {
			case step < 128:
				before := map[*conn]bool{}
				for _, s := range h.sources {
					for c := range s.conns {
						if c.working {
							before[c] = true
						}
					}
				}
				if c, victim := h.come(fmt.Sprint("10.0.0.", n%12)); c != nil {
					all = append(all, c)
					if victim != nil && before[victim] {
						t.Fatal("one was closed that was being answered")
					}
				}
			case len(all) == 0:
			case step < 160:
				all[n%len(all)].works()
			case step < 192:
				all[n%len(all)].waits()
			default:
				all[n%len(all)].Close()
			}
			open := 0
			for _, s := range h.sources {
				if len(s.conns) > b.Each {
					t.Fatalf("%d of one address", len(s.conns))
				}
				for c := range s.conns {
					if c.Conn.(*wire).closed {
						t.Fatal("a closed one counts")
					}
				}
				open += len(s.conns)
			}
			if open != h.open || open > b.Connections {
				t.Fatalf("%d are open, %d by the books", open, h.open)
			}
		}
	})
}

// serve serves at an address of its own, and returns it.
func serve(t *testing.T, b Bounds, h http.Handler, config *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(h, b, quiet)
	s.TLSConfig = config
	ended := make(chan error, 1)
	go func() {
		if config != nil {
			ended <- s.ServeTLS(l)
		} else {
			ended <- s.Serve(l)
		}
	}()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// from connects from an address of this machine.
func from(t *testing.T, ip, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: time.Minute}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Skipf("connecting from %s: %v", ip, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func get(c net.Conn, head string) (int, error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n"+head+"\r\n"); err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

var usual = Bounds{Connections: 8, Each: 4, EachSecond: 1000, Header: 4 << 10, Reading: time.Minute, Writing: time.Minute, Idle: time.Minute}

var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	fmt.Fprint(w, "ok")
})

// Connections that never end their head, or their body, keep no one out, wherever they come from.
func TestIdle(t *testing.T) {
	to := serve(t, usual, ok, nil)
	for i := range 40 {
		c := from(t, fmt.Sprint("127.0.0.", 2+i%20), to)
		if i%2 == 0 {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx")
		} else {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-A: "+strings.Repeat("a", 4000))
		}
	}
	for range 10 {
		if code, err := get(from(t, "127.0.0.1", to), ""); code != 200 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
	}
}

// One whose request is being answered stays, no matter who comes.
func TestWorking(t *testing.T) {
	started, hold := make(chan struct{}), make(chan struct{})
	var slow atomic.Bool
	slow.Store(true)
	to := serve(t, usual, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.CompareAndSwap(true, false) {
			close(started)
			<-hold
		}
		fmt.Fprint(w, "ok")
	}), nil)
	code := make(chan int, 1)
	go func() {
		c, err := net.Dial("tcp", to)
		if err == nil {
			defer c.Close()
			n, _ := get(c, "")
			code <- n
		} else {
			code <- 0
		}
	}()
	<-started
	for i := range 40 {
		from(t, fmt.Sprint("127.0.0.", 1+i%20), to)
	}
	if n, err := get(from(t, "127.0.0.3", to), ""); n != 200 {
		t.Errorf("another one: %d, %v", n, err)
	}
	close(hold)
	if n := <-code; n != 200 {
		t.Errorf("the one that was being answered: %d", n)
	}
}

func TestHead(t *testing.T) {
	to := serve(t, usual, ok, nil)
	if code, _ := get(from(t, "127.0.0.1", to), "X-A: "+strings.Repeat("a", 3500)+"\r\n"); code != 200 {
		t.Errorf("a head of 3.5 KB: %d", code)
	}
	if code, _ := get(from(t, "127.0.0.2", to), "X-A: "+strings.Repeat("a", 12<<10)+"\r\n"); code == 200 {
		t.Error("a head of 12 KB is taken")
	}
}

// A byte now and then holds a connection for as long as reading may take, and no longer.
func TestSlow(t *testing.T) {
	b := usual
	b.Reading = 200 * time.Millisecond
	to := serve(t, b, ok, nil)
	for _, head := range []string{"GET / HTTP/1.1\r\nHost: a\r\nX-A: ", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n", ""} {
		c := from(t, "127.0.0.1", to)
		io.WriteString(c, head)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(io.Discard, c)
		}()
		tick := time.NewTicker(20 * time.Millisecond)
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			case <-tick.C:
				io.WriteString(c, "a")
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
		}
		tick.Stop()
	}
}

// Requests that come all at once on one connection are answered one after the other.
func TestPipelined(t *testing.T) {
	var now, most atomic.Int64
	to := serve(t, usual, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		fmt.Fprint(w, "ok")
	}), nil)
	c := from(t, "127.0.0.1", to)
	const n = 1000
	go io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", n))
	in := bufio.NewReader(c)
	for range n {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
	}
	if most.Load() != 1 {
		t.Errorf("%d were answered at a time", most.Load())
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// HTTP/2, in which one connection has any number of requests, is not spoken, however it is asked for.
func TestHTTP1(t *testing.T) {
	to := serve(t, usual, ok, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	for _, protocols := range [][]string{{"h2", "http/1.1"}, nil} {
		c := tls.Client(from(t, "127.0.0.1", to), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		if err := c.Handshake(); err != nil || c.ConnectionState().NegotiatedProtocol == "h2" {
			t.Errorf("%q: %v, %q", protocols, err, c.ConnectionState().NegotiatedProtocol)
		}
		if code, err := get(c, ""); code != 200 {
			t.Errorf("%q: %d, %v", protocols, code, err)
		}
	}
	if err := tls.Client(from(t, "127.0.0.1", to), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake(); err == nil {
		t.Error("h2 alone is agreed upon")
	}
	plain := from(t, "127.0.0.1", serve(t, usual, ok, nil))
	io.WriteString(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	answer, _ := io.ReadAll(plain)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
		t.Errorf("with prior knowledge: %q", answer)
	}
	if code, err := get(from(t, "127.0.0.2", serve(t, usual, ok, nil)), "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"); code != 200 {
		t.Errorf("by an upgrade: %d, %v", code, err)
	}
}
