package attach

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// asPlain in the environment makes this test a server without pprof.
const asPlain = "ATTACH_TEST_PLAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlain) != "" {
		http.ListenAndServe("127.0.0.1:0", http.NotFoundHandler())
	}
	os.Exit(m.Run())
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serve serves pprof, and a page of metrics that goes on by a second of CPU time a look.
func serve(t *testing.T) *url.URL {
	t.Helper()
	looks := 0.0
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		looks++
		fmt.Fprintf(w, "go_sched_gomaxprocs_threads 4\nprocess_cpu_seconds_total %v\n", 10+looks)
		fmt.Fprintf(w, "go_cpu_classes_total_cpu_seconds_total %v\ngo_cpu_classes_idle_cpu_seconds_total 50\n", 100+4*looks)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestTake takes a trace of this test, which is found by its pid.
func TestTake(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	serve(t)
	var saved bytes.Buffer
	var notes []string
	tracer := &Tracer{Process: os.Getpid(), Seconds: 1, NoSamples: true, Save: &saved, Note: func(text string) { notes = append(notes, text) }}
	file, err := tracer.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if tracer.PID != os.Getpid() || tracer.Name == "" || tracer.Limits == nil || len(tracer.Readings) < 2 || !tracer.Saved || len(notes) != 1 {
		t.Errorf("%+v, notes %q", tracer, notes)
	}
	data, err := io.ReadAll(file)
	if err != nil || !bytes.Equal(data, saved.Bytes()) {
		t.Errorf("%d bytes, %v, and %d were saved", len(data), err, saved.Len())
	}
	trace, err := ReadTrace(t.Context(), tracer.URL.String(), bytes.NewReader(data), exectrace.Options{Quotas: tracer.Quotas})
	if err != nil || trace.Events == 0 {
		t.Errorf("got %+v, %v", trace, err)
	}
}

func TestTakeNowhere(t *testing.T) {
	for name, tracer := range map[string]*Tracer{
		"no process": {Process: 1 << 30, Seconds: 1},
		"no program": {Program: []string{"/no/such/program"}, Seconds: 1, Output: io.Discard},
		"it ends":    {Program: []string{"true"}, Seconds: 1, Output: io.Discard},
		"no server":  {URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", RawQuery: "seconds=1"}},
	} {
		file, err := tracer.Take(t.Context())
		if err == nil || hint.Of(err) == nil || file != nil {
			t.Errorf("%s: got %v, hints %q", name, err, hint.Of(err))
		}
	}
}

// TestProfile takes a profile of this test, and its demand alongside.
func TestProfile(t *testing.T) {
	u := serve(t)
	u.Path, u.RawQuery = "/debug/pprof/profile", "seconds=1"
	p := &Profiler{URL: u}
	data, err := p.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if profile, err := ReadProfile("here", data); err != nil || profile.Duration <= 0 {
		t.Errorf("got %+v, %v", profile, err)
	}
	if p.MetricsProcs != 4 || p.DemandOver != "profile" || p.Demand == nil || len(p.Warnings) > 0 {
		t.Errorf("%+v", p)
	}
	if runtime.GOOS == "linux" && (p.PID != os.Getpid() || len(p.Readings) < 2) {
		t.Errorf("process %d, %d readings", p.PID, len(p.Readings))
	}
}

// TestProfileFile checks what is read from files, and which metrics go with them.
func TestProfileFile(t *testing.T) {
	dir := t.TempDir()
	page := func(name string, total, cpu float64) string {
		path := filepath.Join(dir, name)
		text := fmt.Sprintf("go_sched_gomaxprocs_threads 2\nprocess_cpu_seconds_total %v\ngo_cpu_classes_total_cpu_seconds_total %v\ngo_cpu_classes_idle_cpu_seconds_total 1\n", cpu, total)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, after := page("before", 10, 4), page("after", 30, 9)
	for _, c := range []struct {
		metrics, over, warning string
	}{
		{"", "", ""},
		{"none", "", ""},
		{after, "start", ""},
		{before + "," + after, "files", ""},
		{"http://localhost:1/metrics", "", "it would tell of another time"},
		{filepath.Join(dir, "nosuch"), "", "reading the metrics"},
	} {
		p := &Profiler{Source: "-", In: strings.NewReader("text"), Metrics: c.metrics}
		data, err := p.Take(t.Context())
		if err != nil || string(data) != "text" {
			t.Errorf("%s: got %q, %v", c.metrics, data, err)
		}
		if p.DemandOver != c.over || (c.warning == "") != (len(p.Warnings) == 0) || c.warning != "" && !strings.Contains(p.Warnings[0].Error(), c.warning) {
			t.Errorf("%s: over %q, warnings %v", c.metrics, p.DemandOver, p.Warnings)
		}
	}
	if _, err := (&Profiler{Source: filepath.Join(dir, "nosuch")}).Take(t.Context()); hint.Of(err) == nil {
		t.Errorf("no file: %v", err)
	}
}

func TestReadProfile(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 1}`:                    "unthrottle report",
		"go 1.26 trace\x00\x00\x00":         "unthrottle trace",
		"\x7fELF\x02\x01\x01":               "unthrottle explain",
		"goroutine profile: total 3\n1 @ 0": "debug=1",
		"nonsense":                          "curl",
	} {
		_, err := ReadProfile("it", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "it: ") || !strings.Contains(strings.Join(hint.Of(err), " "), want) {
			t.Errorf("%q: got %v, hints %q, want %q", text, err, hint.Of(err), want)
		}
	}
}
