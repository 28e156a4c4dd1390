package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// forwards forwards ports as an API server before 1.31 does: by SPDY. What listens where is in ports; what the node says about any
// other port is refusal.
func forwards(ports map[string]string, refusal string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "this server forwards by SPDY", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		defer conn.Close()
		refusals, data := <-streams, <-streams
		address, known := ports[data.Headers().Get(corev1.PortHeader)]
		if !known {
			io.WriteString(refusals, refusal)
			refusals.Close()
			data.Close()
			<-conn.CloseChan()
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer to.Close()
		go io.Copy(to, data)
		io.Copy(data, to)
		refusals.Close()
		data.Close()
		<-conn.CloseChan()
	}
}

// program serves net/http/pprof, another one does not.
func program(t *testing.T) (withPprof, without string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	with, other := httptest.NewServer(mux), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(with.Close)
	t.Cleanup(other.Close)
	return with.Listener.Addr().String(), other.Listener.Addr().String()
}

// declaring is a pod with a limit that declares ports.
func declaring(ports string) map[string]any {
	pod := running()
	pod["spec"].(map[string]any)["containers"] = object(`{"of":[{"name":"web","image":"web","ports":` + ports + `,"resources":{"limits":{"cpu":"1500m"}}}]}`)["of"]
	return pod
}

// A trace comes through a port of the pod, and nothing is done to the pod.
func TestForward(t *testing.T) {
	with, without := program(t)
	s := &server{
		pod:     declaring(`[{"containerPort":53,"protocol":"UDP"},{"containerPort":8080}]`),
		forward: forwards(map[string]string{"8080": without, "6060": with}, "connection refused"),
	}
	p := serve(t, s)
	p.Way = Auto
	done, err := p.Run(t.Context(), "trace", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var d report.Trace
	if err := json.Unmarshal(done.Document, &d); err != nil {
		t.Fatal(err)
	}
	if d.Source != "http://localhost:6060/debug/pprof/trace?seconds=1" || d.Wall < 0.9 || d.Events == 0 || d.Process != nil {
		t.Errorf("%s, %v s, %d events, process %v", d.Source, d.Wall, d.Events, d.Process)
	}
	if l := d.Limit; l == nil || l.CPUs == nil || *l.CPUs != 1.5 || l.From != "resources.limits of the container" {
		t.Errorf("limit %+v", l)
	}
	if want := "container web does not declare port 6060: the program may be that of api"; !slices.Contains(d.Warnings, want) {
		t.Errorf("warnings %q, not %q", d.Warnings, want)
	}
	if len(s.adds) > 0 || len(s.said) != 2 || s.said[0] != "looking for net/http/pprof on ports 8080 and 6060 of pod mypod" {
		t.Errorf("added %v, said %q", s.adds, s.said)
	}
}

// TestPortDoubts: the containers of a pod share their ports, so a program at one may be any container's that does not declare another.
func TestPortDoubts(t *testing.T) {
	at := new(pod)
	if err := json.Unmarshal([]byte(`{"spec":{
		"containers":[{"name":"web","ports":[{"containerPort":8080},{"containerPort":53,"protocol":"UDP"}]},{"name":"metrics","ports":[{"containerPort":9090}]}],
		"initContainers":[{"name":"proxy","ports":[{"containerPort":15000}]},{"name":"prepare"}]},
		"status":{"containerStatuses":[{"name":"web","state":{"running":{}}},{"name":"metrics","state":{"running":{}}}],
		"initContainerStatuses":[{"name":"proxy","state":{"running":{}}},{"name":"prepare","state":{"terminated":{}}}]}}`), at); err != nil {
		t.Fatal(err)
	}
	many := new(pod)
	many.Spec.Containers = []container{{Name: "web"}}
	for i := range 300 {
		s := status{Name: fmt.Sprint("sidecar-", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		many.Status.ContainerStatuses = append(many.Status.ContainerStatuses, s)
	}
	alone := new(pod)
	alone.Spec.Containers = []container{{Name: "web"}}
	for _, c := range []struct {
		of   *pod
		port int
		want []string
	}{
		{at, 8080, nil},
		{at, 9090, []string{"container web does not declare port 9090, and metrics does: the program is probably that one's"}},
		{at, 15000, []string{"container web does not declare port 15000, and proxy does: the program is probably that one's"}},
		{at, 53, []string{"container web does not declare port 53: the program may be that of metrics or proxy"}},
		{many, 6060, []string{"container web does not declare port 6060: the program may be that of any of 300 others"}},
		{alone, 6060, nil},
	} {
		if got := c.of.portDoubts(&c.of.Spec.Containers[0], c.port); !slices.Equal(got, c.want) {
			t.Errorf("port %d: %q, not %q", c.port, got, c.want)
		}
	}
}

// TestForwardOfOther: the usual port of pprof is not asked where another container declares it.
func TestForwardOfOther(t *testing.T) {
	with, _ := program(t)
	s := &server{forward: forwards(map[string]string{"6060": with}, "connection refused"), pod: running()}
	s.pod["spec"].(map[string]any)["containers"] = object(`{"of":[{"name":"web","image":"web"},{"name":"proxy","image":"proxy","ports":[{"containerPort":6060}]}]}`)["of"]
	p := serve(t, s)
	p.Way = Forward
	if _, err := p.Run(t.Context(), "trace", time.Second); err == nil || !strings.Contains(err.Error(), "container web declares no port, and 6060 is declared by proxy") {
		t.Errorf("got %v", err)
	}
}

// TestUnmuted: what a pod mutes is not reported; that it is muted is.
func TestUnmuted(t *testing.T) {
	at := new(pod)
	at.Metadata.Annotations = map[string]string{"unthrottle.dev/mute": "contended, throttled"}
	found := []finding.Finding{{Rule: "throttled"}, {Rule: "too-many-ps"}}
	left, warnings := at.unmuted(found, []string{"it is short"})
	if len(left) != 1 || left[0].Rule != "too-many-ps" || !slices.Equal(warnings, []string{"it is short", "its pod mutes throttled: that is not told"}) {
		t.Errorf("%v, %q", left, warnings)
	}
}

// What the program serves where --process says is asked without a look at other ports.
func TestForwardProcess(t *testing.T) {
	with, _ := program(t)
	s := &server{pod: declaring(`[]`), forward: forwards(map[string]string{"7070": with}, "connection refused")}
	p := serve(t, s)
	p.Way, p.Process = Forward, "localhost:7070"
	if done, err := p.Run(t.Context(), "trace", time.Second); err != nil || !strings.Contains(string(done.Document), "localhost:7070/debug/pprof/trace?seconds=1") {
		t.Errorf("%v", err)
	}
	for process, want := range map[string]string{"api": "is no address", "10.0.0.1:6060": "is another machine", "7": "is no address"} {
		p.Process = process
		if _, err := p.Run(t.Context(), "profile", time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", process, err, want)
		}
	}
}

// Each way to get nothing has a reason, no matter who gives it.
func TestForwardRefused(t *testing.T) {
	_, without := program(t)
	for _, c := range []struct {
		name    string
		forward http.HandlerFunc
		want    string
	}{
		{"nothing listens", forwards(nil, "error forwarding port 6060: dial tcp4 127.0.0.1:6060: connect: connection refused"), "no port could be asked: nothing listens on port 8080 of the pod"},
		{"no end", forwards(nil, strings.Repeat("no \x1b[31m", 1<<20)), `no port could be asked: port 8080 of the pod can't be reached: "no \x1b[31mno `},
		{"another server", forwards(map[string]string{"8080": without}, "connection refused"), "there is no net/http/pprof on ports 8080 and 6060"},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"mypod\" is forbidden"}`)
		}, "is forbidden: no right to create pods/portforward"},
		{"another protocol", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, "no port could be asked: forwarding a port of pod mypod: "},
	} {
		s := &server{pod: declaring(`[{"containerPort":8080}]`), forward: c.forward}
		p := serve(t, s)
		p.Way = Forward
		_, err := p.Run(t.Context(), "trace", time.Second)
		if c.name == "forbidden" { // as well where the port is named, and then the spec answers
			named := serve(t, s)
			named.Way, named.Process = Auto, "localhost:8080"
			if done, err := named.Run(t.Context(), "trace", time.Second); err != nil || done.Unmeasured == nil || !strings.Contains(done.Unmeasured.Error(), c.want) {
				t.Errorf("%s, at a port that is named: %v", c.name, err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 800 {
			t.Errorf("%s: %.700v", c.name, err)
		}
	}
}

// A server that accepts a connection and says nothing is abandoned when time is up, or by Ctrl-C.
func TestForwardSilent(t *testing.T) {
	end := make(chan struct{})
	s := &server{pod: declaring(`[]`), forward: func(http.ResponseWriter, *http.Request) { <-end }}
	p := serve(t, s)
	t.Cleanup(func() { close(end) })
	p.Way = Forward
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, "trace", time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestForwardSaved: a trace that came is kept, even one that can't be read.
func TestForwardSaved(t *testing.T) {
	const old = "go 1.19 trace\x00\x00\x00"
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, old) })
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	s := &server{pod: declaring(`[]`), forward: forwards(map[string]string{"6060": web.Listener.Addr().String()}, "connection refused")}
	p := serve(t, s)
	var kept strings.Builder
	p.Way, p.Process, p.Save = Forward, "localhost:6060", &kept
	if _, err := p.Run(t.Context(), "trace", time.Second); err == nil || !strings.Contains(err.Error(), "older than that of Go 1.22") || !p.Saved || kept.String() != old {
		t.Errorf("%v, saved %v: %q", err, p.Saved, kept.String())
	}
}
