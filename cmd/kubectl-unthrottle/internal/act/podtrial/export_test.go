package podtrial

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"
)

// A Fake is the cluster of these tests, for those of the verb.
type Fake = fake

// NewFake is one with deployment/api in namespace team, which it serves at a URL.
func NewFake(t testing.TB) (f *Fake, url string) {
	f = newFake(t)
	f.team()
	f.quick = true
	data, err := yaml.YAMLToJSON([]byte(workloadYAML))
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	f.put("/apis/apps/v1/namespaces/team/deployments/api", o)
	return f, f.url
}

// Left are the objects that there are.
func (f *fake) Left() (paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.objects {
		paths = append(paths, path)
	}
	return paths
}

// Kill has servers with a GOMAXPROCS end under load, for a reason and with an exit code.
func (f *fake) Kill(procs int, reason string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = func(p *fakePod, o object) object {
		if p.part == "server" && p.procs == procs && len(p.windows) > 0 {
			ended := object{"exitCode": code, "reason": reason, "message": "password=hunter2"}
			list(o, "status", "containerStatuses")[0]["state"] = object{"terminated": ended}
		}
		return o
	}
}

// LoseNode loses the node of the nth server that is started.
func (f *fake) LoseNode(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = func(p *fakePod, o object) object {
		if p.part == "server" && p.n == n && len(p.windows) > 0 {
			under(o, "status")["conditions"] = []any{object{"type": "Ready", "status": "Unknown"}}
		}
		return o
	}
}

// StandStill has the meter stand still in n loads, beginning with the given one.
func (f *fake) StandStill(from, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still = func(load int) bool { return load >= from && load < from+n }
}

// Loads is how many loads were sent.
func (f *fake) Loads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loads
}

// Mend brings the node back, and what else was out of order.
func (f *fake) Mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.still = nil, nil
}

// Shrink gives a node fewer CPUs than the others have.
func (f *fake) Shrink(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put("/api/v1/nodes/"+name, node("6.1", "4"))
}
