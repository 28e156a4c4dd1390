package fix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

func liveWorkload(version, kind string, c workload.Container) *workload.Workload {
	return &workload.Workload{APIVersion: version, Kind: kind, Namespace: "shop", Name: "api", Pod: workload.Pod{Containers: []workload.Container{c}}}
}

func liveContainer(env ...workload.Variable) workload.Container {
	for i := range env {
		env[i].At.Path = "spec.template.spec.containers[0].env[" + string(rune('1'+i)) + "]"
	}
	return workload.Container{Name: "app", At: workload.Position{Path: "spec.template.spec.containers[0]"}, Env: env}
}

// TestLive: a patch of a live object, as a command to copy, or why there isn't one.
func TestLive(t *testing.T) {
	literal := workload.Variable{Name: "GOMAXPROCS", Form: workload.Literal, Text: "16", Value: "16"}
	other := workload.Variable{Name: "GOMAXPROCS", Form: workload.ResourceRef, Resource: "limits.cpu", Container: "side", Divisor: "1m"}
	remove := remedy.Remedy{Action: remedy.Remove, Variable: "GOMAXPROCS"}
	set := remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Value: "it's 2"}
	refer := remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Resource: "limits.cpu"}
	repair := remedy.Remedy{Action: remedy.Repair, Variable: "GOMAXPROCS", Value: "1"}
	const begin = `kubectl patch deployment api -n shop -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[`
	for _, c := range []struct {
		name, version, kind string
		c                   workload.Container
		r                   remedy.Remedy
		want                string // of the line, or of the error
	}{
		{"out", "apps/v1", "Deployment", liveContainer(literal), remove, begin + `{"name":"GOMAXPROCS","$patch":"delete"}]}]}}}}'`},
		{"another number", "apps/v1", "Deployment", liveContainer(literal), set, begin + `{"name":"GOMAXPROCS","value":"it'\''s 2"}]}]}}}}'`},
		{"a number that was not there", "apps/v1", "Deployment", liveContainer(), set, begin + `{"name":"GOMAXPROCS","value":"it'\''s 2"}]}]}}}}'`},
		{
			"a reference in place of a number", "apps/v1", "Deployment", liveContainer(literal), refer,
			begin + `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1"}},"value":null}]}]}}}}'`,
		},
		{"a number in place of a reference", "apps/v1", "Deployment", liveContainer(other), set, begin + `{"name":"GOMAXPROCS","value":"it'\''s 2","valueFrom":null}]}]}}}}'`},
		{
			"a reference in place of another's", "apps/v1", "Deployment", liveContainer(other), refer,
			begin + `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1","containerName":null}}}]}]}}}}'`,
		},
		{
			"the divisor", "apps/v1", "Deployment", liveContainer(other), repair,
			begin + `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"divisor":"1","resource":"limits.cpu","containerName":"side"}}}]}]}}}}'`,
		},
		{
			"a custom resource", "argoproj.io/v1alpha1", "Rollout", liveContainer(literal), remove,
			`kubectl patch rollout.v1alpha1.argoproj.io api -n shop --type json -p '[{"op":"test","path":"/spec/template/spec/containers/0/env/1/name","value":"GOMAXPROCS"},{"op":"remove","path":"/spec/template/spec/containers/0/env/1"}]'`,
		},
		{"a custom resource without the variable", "argoproj.io/v1alpha1", "Rollout", liveContainer(), set, "for its operator to say"},
		{"twice", "apps/v1", "Deployment", liveContainer(literal, literal), remove, `kubectl patch deployment api -n shop --type json -p '[`},
		{"a Job", "batch/v1", "Job", liveContainer(literal), remove, "the environment of a Job can't be changed"},
		{"a pod", "v1", "Pod", liveContainer(literal), remove, "the environment of a Pod can't be changed"},
		{"nothing to take out", "apps/v1", "Deployment", liveContainer(), remove, "is not an entry of env"},
		{"nothing to be done", "apps/v1", "Deployment", liveContainer(literal), remedy.Remedy{Action: remedy.Leave, Variable: "GOMAXPROCS"}, "there is no known way"},
		{"a place that is none", "apps/v1", "Deployment", workload.Container{Name: "app"}, set, "the place of container app is not known"},
	} {
		w := liveWorkload(c.version, c.kind, c.c)
		p, err := Live(w, Wanted{&w.Pod.Containers[0], c.r})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = p.Line()
		}
		if !strings.Contains(got, c.want) || err == nil && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	if _, err := Live(liveWorkload("apps/v1", "Deployment", liveContainer())); err == nil {
		t.Error("nothing is wanted, and there is a patch")
	}
}

// linesDo: an API server takes such lines as a shell runs them, and does what they say.
func linesDo(t *testing.T, c *clustertest.Cluster) {
	const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers:
      - name: app
        image: app:1
        resources: {limits: {cpu: "1"}}
        env:
        - {name: KEEP, value: me}
        - {name: GOMAXPROCS, value: "16"}
        - {name: LAST, value: stays}
`
	file := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(file, []byte(deployment), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := c.Command(t.Context())
	shell := func(line string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "kubectl ", kubectl.Path+" --kubeconfig "+c.Kubeconfig+" ", 1))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		return string(out)
	}
	shell("kubectl create -f " + file)
	w := liveWorkload("apps/v1", "Deployment", liveContainer(workload.Variable{Name: "GOMAXPROCS", Form: workload.Literal, Text: "16", Value: "16"}))
	w.Namespace = "default"
	for _, step := range []struct {
		r    remedy.Remedy
		want string // of GOMAXPROCS
	}{
		{remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Value: "2"}, `{"name":"GOMAXPROCS","value":"2"}`},
		{remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Resource: "limits.cpu"}, `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"divisor":"1","resource":"limits.cpu"}}}`},
		{remedy.Remedy{Action: remedy.Remove, Variable: "GOMAXPROCS"}, ""},
	} {
		p, err := Live(w, Wanted{&w.Pod.Containers[0], step.r})
		if err != nil {
			t.Fatal(err)
		}
		shell(p.Line())
		var got struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct{ Env []json.RawMessage }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(shell("kubectl get deployment api -o json")), &got); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for _, v := range got.Spec.Template.Spec.Containers[0].Env {
			var one struct{ Name string }
			var compact any
			if json.Unmarshal(v, &one) != nil || json.Unmarshal(v, &compact) != nil {
				t.Fatal(string(v))
			}
			data, _ := json.Marshal(compact)
			env[one.Name] = string(data)
		}
		if env["GOMAXPROCS"] != step.want || env["KEEP"] == "" || env["LAST"] == "" {
			t.Errorf("%s: %v", p.Line(), env)
		}
	}
}
