package attach

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

func TestTraceURL(t *testing.T) {
	for source, want := range map[string]string{
		"trace.go":                        "", // it exists
		"trace.out":                       "",
		"localhost:6060":                  "http://localhost:6060/debug/pprof/trace?seconds=5",
		"localhost:6060/debug/pprof":      "http://localhost:6060/debug/pprof/trace?seconds=5",
		"http://a/debug/trace?seconds=.5": "http://a/debug/trace?seconds=.5",
		"http://a/p/debug/pprof/trace":    "http://a/p/debug/pprof/trace?seconds=5",
	} {
		u, err := Trace.URL(source, 5, false)
		got := ""
		if u != nil {
			got = u.String()
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", source, got, err, want)
		}
	}
}

func TestDebugPageTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "": 0, "x": 0, "NaN": 0, "-1": 0, "3601": 0, "1e3": 1000 * time.Second} {
		got, err := Trace.Time(&url.URL{RawQuery: "seconds=" + text})
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := CPUProfile.Time(&url.URL{RawQuery: "seconds=0.5"}); err == nil {
		t.Error("a profile takes whole seconds")
	}
}

// ownTrace is a trace of this test.
func ownTrace(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip(err)
	}
	time.Sleep(time.Millisecond)
	trace.Stop()
	return b.Bytes()
}

func packed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadTrace(t *testing.T) {
	own := ownTrace(t)
	profile, err := os.ReadFile("../cpuprofile/testdata/procs1.pb.gz")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string // of the error; "": none
	}{
		"a trace":        {own, ""},
		"packed":         {packed(t, own), ""},
		"CPU profile":    {profile, "this is a CPU profile, not an execution trace"},
		"HTML":           {[]byte("<!DOCTYPE html><p>hello"), "this is a page of HTML, not"},
		"nothing":        {nil, "this is empty, not"},
		"packed nothing": {packed(t, nil), "this is empty, not"},
		"JSON":           {[]byte(`{"a": 1}`), "this is JSON, not"},
		"noise":          {[]byte("\x07nonsense"), "this is no execution trace"},
		"bad gzip":       {[]byte("\x1f\x8b\x08nonsense"), "unpacking it"},
		"old":            {[]byte("go 1.21 trace\x00\x00\x00rest"), "older than that of Go 1.22"},
		"head alone":     {[]byte("go 1.26 trace\x00\x00\x00"), "it has no events"},
		"half a head":    {[]byte("go 1.2"), "not an execution trace"},
	} {
		_, err := readTrace(context.Background(), bytes.NewReader(c.data), exectrace.Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil {
			if hint.Of(traceHinted(err, "FILE")) == nil {
				t.Errorf("%s: there is no hint for %v", name, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := readTrace(ctx, bytes.NewReader(own), exectrace.Options{}); err == nil {
		t.Error("it read on though it was interrupted")
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Add([]byte("go 1.21 trace\x00\x00\x00"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte("<html>"))
	f.Add(packed(f, []byte("go 1.26 trace\x00\x00\x00\x01")))
	f.Fuzz(func(t *testing.T, data []byte) {
		readTrace(context.Background(), bytes.NewReader(data), exectrace.Options{})
	})
}

func TestOnlyPeriod(t *testing.T) {
	level := func(quota, period int64) cgroup.Level {
		return cgroup.Level{Quota: cgroup.Quota{QuotaMicros: quota, PeriodMicros: period}}
	}
	for name, c := range map[string]struct {
		limits cgroup.Limits
		want   time.Duration
	}{
		"none":      {cgroup.Limits{State: cgroup.None, Levels: []cgroup.Level{level(1, 1)}}, 0},
		"one":       {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(-1, 50_000), level(50_000, 100_000), {}}}, 100 * time.Millisecond},
		"alike":     {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(10_000, 20_000), level(5_000, 20_000)}}, 20 * time.Millisecond},
		"different": {cgroup.Limits{State: cgroup.Limited, Levels: []cgroup.Level{level(10_000, 20_000), level(50_000, 100_000)}}, 0},
	} {
		if got := onlyPeriod(c.limits); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestTraceFetch takes traces from servers that answer in all ways.
func TestTraceFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not today", http.StatusTeapot) })
	mux.HandleFunc("/cut/debug/pprof/trace", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "go 1.26 trace")
	})
	mux.HandleFunc("/on/debug/pprof/trace", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Could not enable tracing: tracing is already enabled", http.StatusInternalServerError)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if !isPprof(context.Background(), base) || isPprof(context.Background(), base.JoinPath("nowhere")) {
		t.Error("pprof is found where it is not, or not where it is")
	}
	fetch := func(path, query string) (*Tracer, string, error) {
		tr := &Tracer{URL: base.JoinPath(path)}
		tr.URL.RawQuery = query
		var b strings.Builder
		err := tr.fetch(context.Background(), &b)
		return tr, b.String(), err
	}
	tr, got, err := fetch("/debug/pprof/trace", "seconds=0.05")
	if err != nil || !strings.HasPrefix(got, "go 1.") {
		t.Errorf("got %.10q, %v", got, err)
	}
	if tr.NoCPU == nil || !strings.Contains(tr.NoCPU.Error(), "not today") {
		t.Errorf("the profile that failed is not told: %v", tr.NoCPU)
	}
	if tr, got, err = fetch("/cut/debug/pprof/trace", "seconds=1"); err != nil || got != "go 1.26 trace" || len(tr.Warnings) != 1 {
		t.Errorf("cut off: got %q, %v, %v", got, err, tr.Warnings)
	}
	if _, _, err = fetch("/on/debug/pprof/trace", "seconds=1"); err == nil || !strings.Contains(err.Error(), "already enabled") {
		t.Errorf("already on: got %v", err)
	}
	if _, _, err = fetch("/nowhere", "seconds=1"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("nowhere: got %v", err)
	}
}

// TestAwaitPprof waits for a program that will never serve pprof.
func TestAwaitPprof(t *testing.T) {
	server, err := service.Start(context.Background(), service.Spec{Args: []string{"sleep", "60"}})
	if err != nil {
		t.Skip(err)
	}
	defer server.Stop()
	_, err = awaitPprof(context.Background(), server, "sleep", 100*time.Millisecond)
	if !strings.Contains(strings.Join(hint.Of(err), " "), "net/http/pprof") {
		t.Errorf("got %v", err)
	}
}
