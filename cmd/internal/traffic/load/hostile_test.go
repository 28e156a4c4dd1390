package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// requestsEach is how many requests each bad server gets. CI asks for 100,000.
func requestsEach(t *testing.T) int64 {
	text := os.Getenv("UNTHROTTLE_LOAD_REQUESTS")
	if text == "" {
		return 1000
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// listen is a server that does with each connection what it likes.
func listen(t *testing.T, handle func(c *net.TCPConn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// readRequest reads a request without a body.
func readRequest(r *bufio.Reader) bool {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if line == "\r\n" {
			return true
		}
	}
}

func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestHostileServers(t *testing.T) {
	slowtest.Skip(t)
	// repeat answers every request of a connection with the same bytes, and then does something.
	repeat := func(answer string, after func(c *net.TCPConn) (more bool)) func(c *net.TCPConn) {
		return func(c *net.TCPConn) {
			r := bufio.NewReader(c)
			for readRequest(r) {
				if _, err := io.WriteString(c, answer); err != nil || !after(c) {
					return
				}
			}
		}
	}
	end := func(*net.TCPConn) bool { return false }
	stay := func(*net.TCPConn) bool { return true }
	hang := func(c *net.TCPConn) bool { io.Copy(io.Discard, c); return false }
	tests := []struct {
		name    string
		handle  func(c *net.TCPConn)
		timeout time.Duration
		ok      bool
		lean    string // what is said of it
		netHTTP string
	}{
		{"refused", nil, time.Minute, false, "connection refused", "connection refused"},
		{"never answers", repeat("", hang), 20 * time.Millisecond, false, "timeout", "timeout"},
		{"slow header", repeat("HTTP/1.1 200 OK\r\nContent-", hang), 20 * time.Millisecond, false, "timeout", "timeout"},
		{"slow body", repeat("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", hang), 20 * time.Millisecond, false, "timeout", "timeout"},
		{"half closed", repeat("", func(c *net.TCPConn) bool { c.CloseWrite(); io.Copy(io.Discard, c); return false }), time.Minute, false, "without an answer", "without an answer"},
		{"truncated", repeat("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", end), time.Minute, false, "in the middle", "in the middle"},
		{"reset", repeat("", func(c *net.TCPConn) bool { c.SetLinger(0); return false }), time.Minute, false, "connection reset", "connection reset"},
		{"oversized header", repeat("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 300<<10), end), time.Minute, false, "head has more than", "exceeded"},
		{"garbage", repeat("SSH-2.0-OpenSSH\r\n", end), time.Minute, false, "not an HTTP/1.1 answer", "malformed HTTP"},
		{"chunked garbage", repeat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n", hang), time.Minute, false, "bad size of a chunk", "invalid byte in chunk length"},
		{"closes each time", repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", end), time.Minute, true, "", ""},
		{"closes without a word", repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", end), time.Minute, true, "", ""},
		{"chunked", repeat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n", stay), time.Minute, true, "", ""},
		{"continue first", repeat("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", stay), time.Minute, true, "", ""},
		{"until closed", repeat("HTTP/1.0 200 OK\r\n\r\nhello", end), time.Minute, true, "", ""},
	}
	n := requestsEach(t)
	refusing(t) // Go's poller has descriptors of its own from the first connection on
	both(t, func(t *testing.T, e Engine) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before := openFiles(t)
				goroutines := runtime.NumGoroutine()
				url := ""
				if test.handle == nil {
					url = refusing(t)
				} else {
					url = listen(t, test.handle)
				}
				r := do(t, Plan{
					Targets: []Target{{URL: url}}, Requests: n, Rate: 20000, Conns: 200,
					Client: Client{Engine: e, Timeout: test.timeout}, Grace: 10 * time.Minute,
				})
				check := func(ok bool, format string, args ...any) {
					if !ok {
						t.Errorf(format, args...)
					}
				}
				check(r.Requests == n && r.Planned == n, "%d requests counted of %d, want %d", r.Requests, r.Planned, n)
				var errors, statuses int64
				for _, c := range r.Errors {
					errors += c.Count
				}
				for _, c := range r.Statuses {
					statuses += c
				}
				check(errors+statuses == n, "%d errors and %d answers, want %d in all", errors, statuses, n)
				if test.ok {
					check(r.Good == n, "%d good, want %d: %v", r.Good, n, r.Errors)
				} else {
					check(r.Failed == n && errors == n, "%d failed, want %d: %v", r.Failed, n, r.Errors)
					want := test.lean
					if e == NetHTTP {
						want = test.netHTTP
					}
					check(len(r.Errors) > 0 && strings.Contains(r.Errors[0].Text, want), "errors %v, want %q", r.Errors, want)
					check(len(r.Errors) <= maxErrors+1, "%d causes", len(r.Errors))
				}
				if test.timeout < time.Minute {
					check(r.Timeouts == n && r.Response.TotalCount() == n, "%d timeouts, %d latencies, want %d", r.Timeouts, r.Response.TotalCount(), n)
					check(Quantile(r.Service, 0) >= test.timeout*99/100, "a timeout after %v", Quantile(r.Service, 0))
				}
				nothingLeft(t, before, goroutines)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				check(m.HeapSys < 1<<30, "%d MiB of heap", m.HeapSys>>20)
			})
		}
	})
}

// nothingLeft waits until descriptors and goroutines are back to what they were. The server's own end with its
// connections, soon after ours.
func nothingLeft(t *testing.T, files, goroutines int) {
	t.Helper()
	const listener = 1
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		f, g := openFiles(t), runtime.NumGoroutine()
		if f <= files+listener && g <= goroutines+listener {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d descriptors and %d goroutines, were %d and %d\n%s", f, g, files, goroutines, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not Linux
	}
	return len(entries)
}

// An idle connection that the server closes just when it is used again is not a failure of the server.
func TestIdleConnectionIsClosed(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		url := listen(t, func(c *net.TCPConn) {
			r := bufio.NewReader(c)
			for range 2 {
				if !readRequest(r) {
					return
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			}
		})
		r := do(t, Plan{Targets: []Target{{URL: url}}, Requests: 500, Conns: 1, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Good != 500 || r.Opened < 250 {
			t.Errorf("good %d, opened %d, %v", r.Good, r.Opened, r.Errors)
		}
	})
}
