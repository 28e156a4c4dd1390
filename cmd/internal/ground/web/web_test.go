package web

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A sink is another host, which notes what it is sent.
func sink(t *testing.T) (at string, asked *atomic.Int64, last *atomic.Pointer[http.Header]) {
	asked, last = new(atomic.Int64), new(atomic.Pointer[http.Header])
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		last.Store(&r.Header)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked, last
}

func ask(c *http.Client, address string) (string, int, error) {
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader("secret body"))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("X-Api-Key", "secret")
	answer, err := c.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return string(data), answer.StatusCode, err
}

// TestRedirects: they are followed by what a client is for, and never elsewhere with what it carries.
func TestRedirects(t *testing.T) {
	other, asked, last := sink(t)
	host := strings.TrimPrefix(other, "http://")
	to := map[string]string{
		"/other": other + "/", "/scheme": "https://127.0.0.1:1/", "/user": "http://127.0.0.1:9@" + host + "/", "/slashes": "//" + host + "/",
		"/same": "/end", "/loop": "/loop", "/bad": "http://[::1", "/none": "", "/opaque": "mailto:you", "/long": "http://" + strings.Repeat("x", 5000) + "/",
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if place, ok := to[r.URL.Path]; ok {
			if place != "" {
				w.Header().Set("Location", place)
			}
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		io.WriteString(w, "the end")
	}))
	defer s.Close()
	for _, c := range []struct {
		path      string
		redirects int
		want      string // of the error; "": none
		status    int
	}{
		{"/other", 0, "it answered with a redirect to " + other + ": not followed", 0},
		{"/other", 10, "it answered with a redirect to " + other + ": not followed", 0},
		{"/scheme", 10, "to https://127.0.0.1:1: not followed", 0},
		{"/user", 10, "to " + other + ": not followed", 0},
		{"/slashes", 10, "to " + other + ": not followed", 0},
		{"/same", 0, "to " + s.URL + ": not followed", 0},
		{"/same", 10, "", 200},
		{"/loop", 10, "more than 10 redirects", 0},
		{"/bad", 0, `"http://[::1": not followed`, 0},
		{"/bad", 10, `"http://[::1": not followed`, 0},
		{"/none", 0, "not followed", 0},
		{"/none", 10, "", 307},
		{"/opaque", 10, `"mailto:you": not followed`, 0},
		{"/long", 10, "…", 0},
		{"/other", Returned, "", 307},
		{"/same", Returned, "", 307},
	} {
		_, status, err := ask(New(Options{Of: "it", Redirects: c.redirects, Within: 10 * time.Second}), s.URL+c.path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || status != c.status {
			t.Errorf("%s, %d: %d, %v", c.path, c.redirects, status, err)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", c.path, len(err.Error()))
		}
	}
	if asked.Load() != 0 {
		t.Errorf("the other host was asked %d times", asked.Load())
	}
	// Someone else's client that adds its credentials again, as client-go's does.
	again := &http.Client{Transport: adds{Guard(http.DefaultTransport, Options{Of: "it"})}}
	if _, _, err := ask(again, s.URL+"/other"); err == nil || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	// A registry's blobs are elsewhere, but its credentials stay.
	if _, status, err := ask(New(Options{Elsewhere: true, Redirects: 10}), s.URL+"/other"); err != nil || status != 200 || asked.Load() != 1 {
		t.Errorf("%d, %v", status, err)
	} else if h := *last.Load(); h.Get("Authorization") != "" {
		t.Errorf("%v", h)
	}
	// ... and also where the other server, on another port of the host, leads on to itself.
	twice := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := r.Header.Get("Authorization"); h != "" {
			t.Errorf("%s with %s", r.URL, h)
		}
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		}
	}))
	defer twice.Close()
	to["/twice"] = twice.URL + "/"
	if _, status, err := ask(New(Options{Elsewhere: true, Redirects: 10}), s.URL+"/twice"); err != nil || status != 200 {
		t.Errorf("%d, %v", status, err)
	}
}

type adds struct{ next http.RoundTripper }

func (a adds) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return a.next.RoundTrip(r)
}

// TestBounds: an answer ends where it is too large, measured unpacked.
func TestBounds(t *testing.T) {
	much := []byte(strings.Repeat(" ", 1e6)) // made once: it is the client's memory that counts
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			w.Write(much)
		case "/endless":
			for {
				if _, err := w.Write(much); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 200 {
				z.Write(much)
			}
			z.Close()
		case "/head":
			for range 100 {
				w.Header().Add("X-More", strings.Repeat("x", 1e4))
			}
		}
	}))
	defer s.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for path, want := range map[string]error{"/fits": nil, "/endless": ErrTooLarge, "/bomb": ErrTooLarge} {
		text, _, err := ask(New(Options{Most: 1e6, Within: 30 * time.Second, Once: true}), s.URL+path)
		if !errors.Is(err, want) || len(text) != 1e6 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
	}
	if _, _, err := ask(New(Options{Once: true}), s.URL+"/head"); err == nil {
		t.Error("a megabyte of headers")
	}
	runtime.ReadMemStats(&after)
	if grew := after.TotalAlloc - before.TotalAlloc; grew > 64<<20 {
		t.Errorf("it took %d MB", grew>>20)
	}
}

// TestSaid: what a server said does nothing to a terminal, and is short enough to be read.
func TestSaid(t *testing.T) {
	for in, want := range map[string]string{
		"500 Internal Server Error": "500 Internal Server Error", "\x1b[2Jevil": `"\x1b[2Jevil"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`,
	} {
		if got := Said(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
	if got := Said(strings.Repeat("x", 1e6)); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://a/", "http://a:80/x", true},
		{"https://A/", "https://a:443", true},
		{"http://a/", "https://a/", false},
		{"http://a:1/", "http://a:2/", false},
		{"http://a/", "http://a.b/", false},
		{"http://[::1]/", "http://[::1]:80/", true},
		{"http://a/", "http://a@b/", false},
	} {
		a, _ := url.Parse(c.a)
		b, _ := url.Parse(c.b)
		if SameOrigin(a, b) != c.same {
			t.Errorf("%s and %s", c.a, c.b)
		}
	}
}
