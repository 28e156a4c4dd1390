package alert

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

// programsOnNode has programs on a real node, and its kubelet, and no agent. cAdvisor reports what throttles and which limit is in force; one
// program reports that itself.
func programsOnNode(t *testing.T) {
	c := newCluster(t)
	o := fromPrograms()
	o.Window, o.For = time.Minute, time.Second // cAdvisor looks every ten seconds or so
	dir := written(t, o)
	c.Import(t, clustertest.GoImage(t, "localhost/exporter:1", "./testdata/exporter"))
	objects, err := os.ReadFile("testdata/exported.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.apply(string(objects))
	var jobs strings.Builder
	fmt.Fprintf(&jobs, `- job_name: kubelet
  scheme: https
  metrics_path: /api/v1/nodes/%s/proxy/metrics/cadvisor
  authorization: {credentials: %s}
  tls_config: {insecure_skip_verify: true}
  honor_labels: true
  static_configs: [{targets: [%q]}]
`, c.Nodes[0].Name, c.Token, strings.TrimPrefix(c.URL, "https://"))
	for _, p := range c.WaitPods(t, "default", "", 4, "Running") {
		path := "/metrics"
		if p.Name == "told" { // by package metrics alone
			path += "/limits"
		}
		fmt.Fprintf(&jobs, `- job_name: %s
  metrics_path: %s
  static_configs: [{targets: ["%s:8080"], labels: {namespace: default, pod: %[1]s, container: app}}]
`, p.Name, path, p.IP)
	}
	p := startScraping(t, dir, 2*time.Second, jobs.String())
	p.has(`unthrottle:program_first_limit_cpus{pod="pinned"} == 0.5`)
	c.kubectl("patch", "pod", "pinned", "--subresource=resize", "-p",
		`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"2"}}}]}}`)
	p.fire("UnthrottleProgramStale of pinned=1", "UnthrottleProgramTooManyPs of api=1", "UnthrottleProgramTooManyPs of told=1")
	p.healthy()
	p.says("UnthrottleProgramTooManyPs", `Its limit is 0\.1 CPUs\. Its GOMAXPROCS is 16\. It is throttled in [0-9.]+% of the periods\. `, `set GOMAXPROCS to 2 in`)
	p.says("UnthrottleProgramStale", `Its limit is 2 CPUs, and was 0\.5 before\. Its GOMAXPROCS is 1\. `, `kubectl -n default delete pod pinned`)

	dashboardRuns(t, p, ProgramsDashboard, "Threads that are ready and get no CPU") // takes cgroup v2

	// They go, and the one that nothing is wrong with stays.
	c.kubectl("delete", "pod", "api", "pinned", "told")
	p.fire()
	p.healthy()
}
