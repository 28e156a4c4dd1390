package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

// The environment makes the test binary a server, or a generator that says what it is told to.
const (
	asServer    = "TRIAL_TEST_SERVER"
	asGenerator = "TRIAL_TEST_GENERATOR"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asServer:
		serve(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == asGenerator:
		generateFor(os.Args[2], os.Args[3])
	default:
		os.Exit(m.Run())
	}
}

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/die":
			fmt.Println("it was asked to die")
			os.Exit(5)
		case "/procs":
			fmt.Fprint(w, os.Getenv("GOMAXPROCS"))
		}
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); { // CPU time to be seen
		}
	}))
}

// generateFor asks the server a few times and writes a document.
func generateFor(url, document string) {
	for range 5 {
		res, err := http.Get(url)
		if err != nil {
			break
		}
		res.Body.Close()
	}
	fmt.Println(document)
}

func newServed(t *testing.T, path, document string) *Served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Served{
		Service: service.Spec{Args: []string{self, asServer, address}, With: runner.Auto, Ready: service.Ready{Address: address}},
		Generator: func(lasting time.Duration, seed uint64) []string {
			return []string{self, asGenerator, "http://" + address + path, fmt.Sprintf(document, lasting.Seconds(), seed)}
		},
		WarmUp: time.Second, Window: 2 * time.Second,
	}
}

const document = `{"elapsed_seconds": %v, "requests": %v, "failed": 2, "good": 7, "goodput": 3.5, "valid": false, "invalid": ["late"],
"response": {"p50": 0.001, "p90": 0.002, "p99": 0.003, "p999": 0.004}}`

func TestServed(t *testing.T) {
	s := newServed(t, "/", document)
	run, err := s.Run(t.Context(), lab.Setting{Procs: 3, CPUs: 0.9}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if run.Error != "" || run.GOMAXPROCS != 3 || run.Ops != 10 || run.LimitKind == "" || run.LimitKind == "none" {
		t.Errorf("%+v", run)
	}
	m := run.Metrics
	if m["req/s"] != 3.5 || m["errors-%"] != 20 || m["p50-latency-ns"] != 1e6 || m["p999-latency-ns"] != 4e6 {
		t.Errorf("%v", m)
	}
	if m["cpu-ns/req"] <= 0 {
		t.Errorf("%v ns of CPU a request", m["cpu-ns/req"])
	}
	if len(run.Marks) == 0 || run.Marks[len(run.Marks)-1] != NotValid+"late" {
		t.Errorf("marks %q", run.Marks)
	}
}

func TestServedFailures(t *testing.T) {
	s := newServed(t, "/die", document)
	if run, err := s.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err != nil || !strings.Contains(run.Error, "ended while it was measured: exit code 5") ||
		!strings.Contains(run.Error, "it was asked to die") {
		t.Errorf("a server that dies: %+v, %v", run, err)
	}
	s = newServed(t, "/", document)
	s.Service.Args = []string{"sh", "-c", "echo no port; exit 4"}
	if run, err := s.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err != nil || !strings.Contains(run.Error, "exit code 4") || !strings.Contains(run.Error, "no port") {
		t.Errorf("a server that does not start: %+v, %v", run, err)
	}
	s = newServed(t, "/", "no document")
	if _, err := s.Run(t.Context(), lab.Setting{CPUs: 1}, 1); err == nil || !strings.Contains(err.Error(), "generating load") {
		t.Errorf("a generator that fails: %v", err)
	}
	s = newServed(t, "/", document)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ctx, lab.Setting{CPUs: 1}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
