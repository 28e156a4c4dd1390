package attach

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"runtime"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/internal/slowtest"
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
		"noise":          {[]byte("\x07nonsense"), "this is not an execution trace"},
		"bad gzip":       {[]byte("\x1f\x8b\x08nonsense"), "unpacking it"},
		"old":            {[]byte("go 1.21 trace\x00\x00\x00rest"), "older than that of Go 1.22"},
		"head alone":     {[]byte("go 1.26 trace\x00\x00\x00"), "reading the execution trace: no events"},
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
	is, _ := isPprof(t.Context(), base, here)
	nowhere, err := isPprof(t.Context(), base.JoinPath("nowhere"), here)
	if !is || nowhere || err != nil {
		t.Errorf("pprof is found where it is not, or not where it is: %v, %v, %v", is, nowhere, err)
	}
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if is, err := isPprof(over, base, here); is || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no time: %v, %v", is, err)
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

// TestAwaitPprof waits for programs that will never serve pprof. One that answers otherwise is not waited for to the end.
func TestAwaitPprof(t *testing.T) {
	slowtest.Skip(t)
	for name, c := range map[string]struct {
		args    []string
		timeout time.Duration
		notes   int
		want    string
	}{
		"listens nowhere": {[]string{"sleep", "60"}, 100 * time.Millisecond, 0, "listens on no TCP port"},
		"404":             {[]string{executable(t)}, time.Hour, 1, "where no net/http/pprof answers, after "},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := service.Start(t.Context(), service.Spec{Args: c.args, Env: append(os.Environ(), asPlain+"=1")})
			if err != nil {
				t.Skip(err)
			}
			defer server.Stop()
			var notes []string
			_, err = awaitPprof(t.Context(), server, "it", c.timeout, func(text string) { notes = append(notes, text) })
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(hint.Of(err), " "), "net/http/pprof") {
				t.Errorf("got %v, hints %q", err, hint.Of(err))
			}
			if len(notes) != c.notes {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

// TestFrozen: what the kernel counted says why a server does not answer.
func TestFrozen(t *testing.T) {
	at := func(periods, throttled int64) host.Reading {
		return host.Reading{Counters: cgroup.Counters{Known: true, Periods: periods, Throttled: throttled}}
	}
	for _, c := range []struct {
		to   host.Reading
		want string
	}{
		{at(60, 58), ": its CPU limit froze it meanwhile, in 48 of 50 periods"},
		{at(60, 12), ""},
		{at(10, 10), ""},
		{host.Reading{}, ""},
	} {
		if got := frozen([]host.Reading{at(10, 10), c.to}); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.to.Counters, got, c.want)
		}
	}
}

// TestTakeForeign: where another user's process listens can't be seen, which is not that it listens nowhere.
func TestTakeForeign(t *testing.T) {
	if _, err := os.ReadDir("/proc/1/fd"); !errors.Is(err, fs.ErrPermission) {
		t.Skip("process 1 is no other user's, or there is no /proc")
	}
	_, err := (&Tracer{Process: 1, Seconds: 1}).Take(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is another user's: where it listens can't be seen") {
		t.Error(err)
	}
}

// TestTakeSilent asks a process for a trace that listens and does not answer.
func TestTakeSilent(t *testing.T) {
	slowtest.Skip(t)
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = (&Tracer{Process: os.Getpid(), Seconds: 1}).Take(t.Context())
	if err == nil || !strings.Contains(err.Error(), "where nothing has answered in 5s") || strings.Contains(strings.Join(hint.Of(err), " "), "import") {
		t.Errorf("got %v, hints %q", err, hint.Of(err))
	}
}

// TestTakeLate reports while it waits for a server that takes its time.
func TestTakeLate(t *testing.T) {
	slowtest.Skip(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50*time.Millisecond + lateAfter + lateAfter/4)
		io.WriteString(w, "go 1.26 trace")
	}))
	defer server.Close()
	u, _ := url.Parse(server.URL + "?seconds=0.05")
	var late []string
	tr := &Tracer{URL: u, NoSamples: true, Late: func(text string) { late = append(late, text) }}
	file, err := tr.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if len(late) != 1 || !strings.Contains(late[0], "was asked for 50ms, and has not handed the trace over") || tr.Took <= lateAfter {
		t.Errorf("%q, took %v", late, tr.Took)
	}
}

// TestUnpacked: a packed trace is read up to a bound, with a word about the rest.
func TestUnpacked(t *testing.T) {
	packed, err := os.ReadFile("../exectrace/testdata/throttled-http.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	got, err := exectrace.Read(t.Context(), &unpacked{from: bytes.NewReader(whole), left: int64(len(whole) / 2)}, exectrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "unpacks to more than 2 GiB: to have all of it read, unpack it") {
		t.Errorf("it says %q", got.Warnings)
	}
}
