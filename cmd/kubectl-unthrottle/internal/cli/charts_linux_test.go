//go:build !norender

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render/engine"
)

// testCharts does what helm test does with each chart: its pod ends well, and says why it is sure. The agents are there already; the webhook
// is installed from its chart.
func testCharts(t *testing.T, c *clustertest.Cluster, run func(...string) (stdout, stderr string, code int)) {
	const namespace = "unthrottle"
	test := func(pod, text, ends string, wants ...string) {
		t.Helper()
		c.Must(t, text, "apply", "-f", "-")
		var phase string
		clustertest.WaitFor(t, 8*time.Minute, func() (err error) {
			phase, _, err = c.Kubectl("get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.phase}")
			if err == nil && phase != "Succeeded" && phase != "Failed" {
				err = fmt.Errorf("%s is %s", pod, phase)
			}
			return err
		})
		out, _, err := c.Kubectl("logs", pod, "-n", namespace)
		for _, want := range wants {
			if err != nil || phase != ends || !strings.Contains(out, want) {
				t.Errorf("%s: %s, want %s and %q: %s (%v)", pod, phase, ends, want, out, err)
			}
		}
	}
	_, agents := chart(t, "unthrottle-agent", namespace)
	test("unthrottle-agent-test", agents, "Succeeded", "1 of 1 agent answered and reported")

	installed, asked := chart(t, "unthrottle-webhook", namespace)
	test("unthrottle-webhook-test", asked, "Failed", "error: no webhook is installed")
	c.Must(t, installed, "apply", "-f", "-")
	clustertest.WaitFor(t, 8*time.Minute, func() error {
		out, stderr, code := run("webhook", "--check", "-n", "default")
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, stderr)
		}
		t.Log(out)
		return nil
	})
	c.Must(t, "", "delete", "pod", "unthrottle-webhook-test", "-n", namespace)
	test("unthrottle-webhook-test", asked, "Succeeded", "The webhook works", "GOMEMLIMIT is 64 bytes")
}

// chart renders a chart of this repository, with the image of the test.
func chart(t *testing.T, name, namespace string) (installed, tests string) {
	t.Helper()
	files := os.DirFS("../../../../deploy/charts/" + name)
	q := render.Request{Namespace: namespace, Kube: "1.36.0", SetString: []string{"image.repository=localhost/kubectl-unthrottle", "image.tag=1"}}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		q.Files = append(q.Files, render.File{Name: path, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := engine.Render(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range reply.Documents {
		if d.Hook {
			tests += "\n---\n" + d.Text
		} else {
			installed += "\n---\n" + d.Text
		}
	}
	return installed, tests
}
