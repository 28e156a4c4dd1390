package prom

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

// vector is an answer with one series.
func vector(value string, labels ...string) string {
	m := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	data, _ := json.Marshal(m)
	return fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[{"metric":%s,"value":[1700000000,%q]}]}}`, data, value)
}

const none = `{"status":"success","data":{"resultType":"vector","result":[]}}`

// fake answers by the metric that a query begins with, and else with nothing.
func fake(t *testing.T, answers map[string]string) (*httptest.Server, *[]string) {
	asked := &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		*asked = append(*asked, q)
		for metric, text := range answers {
			if strings.Contains(q, metric) {
				io.WriteString(w, text)
				return
			}
		}
		io.WriteString(w, none)
	}))
	t.Cleanup(s.Close)
	return s, asked
}

var app = []string{"namespace", "shop", "pod", "api-0", "container", "app"}

// TestRead: each query fills in its own, and all are about one container.
func TestRead(t *testing.T) {
	s, asked := fake(t, map[string]string{
		"container) (go_sched_gomaxprocs_threads": vector("16", app...),
		"(go_info": vector("1", append(app, "version", "go1.24.3")...),
		"(rate(container_cpu_usage_seconds_total":                         vector("0.75", app...),
		"periods_total{pod!=\"\",container!=":                             vector("1000.4", app...),
		"(rate(container_cpu_cfs_throttled_seconds":                       vector("0.2", app...),
		"container) (kube_pod_container_resource_limits{resource=\"cpu\"": vector("1.5", app...),
		"(min_over_time(kube_pod_container_resource_limits":               vector("0.5", app...),
		"(max_over_time(kube_pod_container_resource_limits":               vector("1.5", app...),
		"container_spec_cpu_quota":                                        vector("1.5", app...),
		"(max_over_time(process_start_time_seconds":                       vector("3600", app...),
		"stalled_seconds_total":                                           vector("1.02", app...),
		"waiting_seconds_total":                                           vector("0.75", app...),
		"go_gc_gogc_percent":                                              vector("1.8446744073709552e+19", app...),
		"go_gc_gomemlimit_bytes":                                          vector("9.223372036854776e+18", app...),
		"go_memstats_next_gc_bytes":                                       vector("4.194304e+06", app...),
		"resource=\"memory\"":                                             vector("2.68435456e+08", app...),
		"unthrottle_container_frozen_ratio":                               vector("0.25", app...),
		"unthrottle_container_finding":                                    vector("1", append(app, "rule", "stale", "severity", "warning")...),
		"kube_pod_owner":                                                  vector("1", "namespace", "shop", "pod", "api-0", "owner_kind", "ReplicaSet", "owner_name", "api-5d8f7"),
	})
	found, err := Read(t.Context(), Options{URL: s.URL, Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Containers) != 1 || len(found.Problems) != 0 || len(*asked) != len(queries)+1 {
		t.Fatalf("%+v after %d queries", found, len(*asked))
	}
	h := found.Containers[0]
	if h.Procs != 16 || h.GoVersion != "go1.24.3" || *h.CPU != 0.75 || h.Periods != 1000 || h.ThrottledPeriods != 1000 || *h.ThrottledSeconds != 0.2 || h.Limit != 1.5 ||
		*h.Frozen != 0.25 || h.OwnerKind != "ReplicaSet" || h.OwnerName != "api-5d8f7" {
		t.Errorf("%+v", h)
	}
	if !slices.Equal(h.Before, []float64{0.5, 1.5}) || h.InForce != 1.5 || !h.Moved || *h.Stalled != 1 || *h.Waiting != 0.75 ||
		*h.GOGC != -1 || h.GOMEMLIMIT != math.MaxInt64 || h.Goal != 4<<20 || h.MemoryLimit != 256<<20 {
		t.Errorf("%+v", h)
	}
	if len(h.Findings) != 1 || h.Findings[0].Rule != "stale" || h.Findings[0].Severity != finding.Warning {
		t.Errorf("%+v", h.Findings)
	}
	if text := strings.Join(*asked, "\n"); !strings.Contains(text, "[3600s]") || !strings.Contains(text, "[300s])[3600s:300s]") || strings.Contains(text, "SINCE") || strings.Contains(text, "STEP") {
		t.Error(text)
	}
	if want := "container_cpu_cfs_periods_total of pods"; len(found.Empty) != 3 || found.Empty[0] != want {
		t.Errorf("without series: %q", found.Empty)
	}
}

// TestNameless: a program's series without a container belong to the one that other series name, and to none where there are two.
func TestNameless(t *testing.T) {
	sidecar := `,{"metric":{"namespace":"shop","pod":"api-0","container":"proxy"},"value":[1700000000,"1"]}]}}`
	limits := vector("2", app...)
	for _, c := range []struct {
		limits string
		want   bool
	}{{limits, true}, {strings.TrimSuffix(limits, "]}}") + sidecar, false}} {
		s, _ := fake(t, map[string]string{
			"container) (go_sched_gomaxprocs_threads":              vector("16", "namespace", "shop", "pod", "api-0"),
			"container) (go_gc_gogc_percent":                       vector("50", "namespace", "shop", "pod", "api-0"),
			"(kube_pod_container_resource_limits{resource=\"cpu\"": c.limits,
		})
		found, err := Read(t.Context(), Options{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found.Containers, func(h audit.History) bool { return h.Container == "app" })
		h := found.Containers[i]
		if got := h.OfPod && h.Procs == 16 && h.GOGC != nil && *h.GOGC == 50 && h.Limit == 2; got != c.want {
			t.Errorf("%+v", found.Containers)
		}
	}
}

// TestMisbehaving: what isn't a Prometheus is an error, and one query that fails is a problem.
func TestMisbehaving(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	if _, err := Read(t.Context(), Options{URL: closed.URL}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		want     string // the error; "": none
		problems int
	}{
		{"a page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "is not Prometheus", 0},
		{"not found", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "404", 0},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "in time", 0},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1e6)); err != nil {
					return
				}
			}
		}, "too large", 0},
		{"breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", 0},
		{"refuses each", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`)
		}, "", len(queries) + 1},
		{"a matrix", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
		}, "not what was asked for", 0},
		{"nobody's series", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, vector("1", "job", "x")) }, "", 0},
		{"not a number", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, vector("NaN", app...)) }, "", 0},
		{"infinite", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, vector("+Inf", app...)) }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			defer s.CloseClientConnections()
			found, err := Read(t.Context(), Options{URL: s.URL, Within: 2 * time.Second, Most: 1e6})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil && len(found.Problems) != c.problems {
				t.Errorf("%+v", found.Problems)
			}
		})
	}
	if got := Shown("https://me:secret@prometheus/x"); got != "https://me:xxxxx@prometheus/x" {
		t.Error(got)
	}
	for _, address := range []string{"prometheus:9090", "ftp://x", "", "http://", "http://a b"} {
		if Check(address) == nil {
			t.Errorf("%q is an address", address)
		}
	}
}

// FuzzAnswer: no matter what Prometheus answers, what is taken from it is possible.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{vector("1", app...), vector("NaN", app...), vector("-1", app...), vector("1e300", append(app, "severity", "info")...), none, `{"status":"success","data":{"resultType":"vector","result":[null]}}`, `{"status":"error"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }))
		defer s.Close()
		found, err := Read(t.Context(), Options{URL: s.URL})
		if err != nil {
			return
		}
		for _, h := range found.Containers {
			sane(t, h)
		}
	})
}

func sane(t *testing.T, h audit.History) {
	ok := h.Pod != "" && h.Procs >= 0 && h.Periods >= 0 && h.ThrottledPeriods >= 0 && h.ThrottledPeriods <= h.Periods && len(h.Findings) <= mostFindings &&
		len(h.Before) <= 2 && h.InForce >= 0 && h.Goal >= 0 && h.MemoryLimit >= 0 && h.GOMEMLIMIT >= 0 && (h.GOGC == nil || *h.GOGC >= -1)
	for _, v := range []*float64{h.Stalled, h.Waiting} {
		ok = ok && (v == nil || *v >= 0 && *v <= 1)
	}
	for _, v := range []*float64{h.CPU, h.Frozen, h.ThrottledSeconds} {
		ok = ok && (v == nil || *v >= 0 && !math.IsInf(*v, 0))
	}
	if !ok {
		t.Errorf("%+v", h)
	}
}

// TestPrometheus: a real one understands every query, and answers with what it has scraped.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("it needs prometheus (Debian has it as a package of that name)")
	}
	const labels = `namespace="shop",pod="api-5d8f7-x",container="app"`
	begin := time.Now()
	var scrapes atomic.Int64
	cpu := func() string { // it is resized repeatedly
		return []string{"16", "1.5"}[scrapes.Add(1)/4%2]
	}
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at := time.Since(begin).Seconds()
		for _, line := range []string{
			"go_sched_gomaxprocs_threads{" + labels + "} 16", "go_info{" + labels + `,version="go1.24.3"} 1`,
			fmt.Sprintf("container_cpu_usage_seconds_total{%s} %f", labels, at/2), fmt.Sprintf("container_cpu_cfs_periods_total{%s} %d", labels, int(10*at)),
			fmt.Sprintf("container_cpu_cfs_throttled_periods_total{%s} %d", labels, int(7*at)), fmt.Sprintf("container_cpu_cfs_throttled_seconds_total{%s} %f", labels, at),
			`container_cpu_cfs_periods_total{namespace="shop",pod="api-5d8f7-x",container=""} ` + fmt.Sprint(int(10*at)),
			"kube_pod_container_resource_limits{" + labels + `,uid="u",resource="cpu"} ` + cpu(), "go_gc_gogc_percent{" + labels + "} 100",
			"go_gc_gomemlimit_bytes{" + labels + "} 9.223372036854775807e+18", "go_memstats_next_gc_bytes{" + labels + "} 4e+06", "process_start_time_seconds{" + labels + "} 1.7e+09",
			"container_spec_cpu_quota{" + labels + "} 150000", "container_spec_cpu_period{" + labels + "} 100000",
			fmt.Sprintf("container_pressure_cpu_stalled_seconds_total{%s} %f", labels, at/4), fmt.Sprintf("container_pressure_cpu_waiting_seconds_total{%s} %f", labels, at/2),
			"kube_pod_container_resource_limits{" + labels + `,resource="memory"} 1e9`,
			`kube_pod_owner{namespace="shop",pod="api-5d8f7-x",owner_kind="ReplicaSet",owner_name="api-5d8f7",owner_is_controller="true"} 1`,
			"unthrottle_container_gomaxprocs{" + labels + "} 16", "unthrottle_container_frozen_ratio{" + labels + "} 0.25",
			"unthrottle_container_finding{" + labels + `,rule="too-many-ps",severity="critical"} 1`,
		} {
			fmt.Fprintln(w, line)
		}
	}))
	defer exporter.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n- {job_name: x, honor_labels: true, static_configs: [{targets: [%q]}]}\n",
		strings.TrimPrefix(exporter.URL, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var found *Found
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		found, err = Read(t.Context(), Options{URL: "http://" + address, Since: 4 * time.Second})
		if err == nil && len(found.Containers) > 0 && found.Containers[0].ThrottledPeriods > 0 && len(found.Containers[0].Before) == 2 && found.Containers[0].Stalled != nil && found.Containers[0].CPU != nil && *found.Containers[0].CPU > 0.4 {
			break
		}
	}
	if err != nil || len(found.Containers) != 2 || len(found.Problems) > 0 {
		t.Fatalf("%v: %+v", err, found)
	}
	h := found.Containers[0]
	sane(t, h)
	if h.Procs != 16 || h.GoVersion != "go1.24.3" || h.Limit != 1.5 && h.Limit != 16 || h.OwnerName != "api-5d8f7" || h.Frozen == nil || *h.Frozen != 0.25 || len(h.Findings) != 1 ||
		h.CPU == nil || *h.CPU < 0.4 || *h.CPU > 0.6 || h.Moved || !slices.Equal(h.Before, []float64{1.5, 16}) || h.InForce != 1.5 ||
		h.GOMEMLIMIT != math.MaxInt64 || *h.GOGC != 100 || h.Goal != 4e6 || h.MemoryLimit != 1e9 || h.Stalled == nil || h.Waiting == nil {
		t.Errorf("%+v", h)
	}
	if len(found.Empty) != 1 || found.Empty[0] != "container_cpu_cfs_throttled_periods_total of pods" {
		t.Errorf("without series: %q", found.Empty)
	}
}
