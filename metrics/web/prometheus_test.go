package web_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/metrics"
	"github.com/unthrottle/unthrottle/metrics/web"
)

// TestPrometheus has a real Prometheus scrape the handler, and asks it for each series.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_BROWSER") == "1" { // where CI has installed everything
			t.Fatal(err)
		}
		t.Skip(err)
	}
	server := httptest.NewServer(web.Handler())
	defer server.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: app\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: [%q]\n",
		strings.TrimPrefix(server.URL, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var log strings.Builder
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()

	want := metrics.Read()
	var got map[string]string
	for end := time.Now().Add(time.Minute); len(got) < len(want) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = ask(t, address)
	}
	if len(got) != len(want) {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("Prometheus has %d series of %d: %v\n%s", len(got), len(want), got, log.String())
	}
	for _, s := range want {
		if _, ok := got[s.Series()]; !ok {
			t.Errorf("Prometheus lacks %s: %v", s.Series(), got)
		}
	}
	if n := got["unthrottle_gomaxprocs"]; n != fmt.Sprint(runtime.GOMAXPROCS(0)) {
		t.Errorf("GOMAXPROCS is %s", n)
	}
}

// ask returns the values of all series that Prometheus has, as package metrics writes these.
func ask(t *testing.T, address string) map[string]string {
	resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(`{job="app", __name__=~"unthrottle_.*"}`))
	if err != nil {
		return nil // it has not begun
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil
	}
	all := map[string]string{}
	for _, r := range answer.Data.Result {
		s := metrics.Sample{Name: r.Metric["__name__"]}
		for _, label := range []string{"by", "group", "kind", "policy", "state"} { // in the order in which they are written
			if v, ok := r.Metric[label]; ok {
				s.Labels = append(s.Labels, label, v)
			}
		}
		all[s.Series()] = fmt.Sprint(r.Value[1])
	}
	return all
}
