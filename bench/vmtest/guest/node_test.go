//go:build linux

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/bench/vmtest"
	"github.com/unthrottle/unthrottle/cgroup"
)

// A podAt is a pod of a node: its group, and the groups of its containers.
type podAt struct {
	name, uid  string
	group      group
	containers []string // IDs
}

// container makes the group of a container, as the systemd driver names it or as cgroupfs does.
func (p *podAt) container(systemd bool) group {
	id := strings.Repeat(fmt.Sprintf("%x%x", p.uid[0]-'0', len(p.containers)+1), 32)
	p.containers = append(p.containers, id)
	if systemd {
		return p.group.child("cri-containerd-" + id + ".scope")
	}
	return p.group.child(id)
}

// runContained starts a subject in a container: its cgroup namespace is its own.
func runContained(t *testing.T, at group, name string, env ...string) *subject {
	t.Helper()
	needSubject(t, name)
	return place{group: at, box: private}.run(t, name, env...)
}

// A nodeDocument is the part of the agent's document that these tests look at.
type nodeDocument struct {
	Problems  []string
	Processes []nodeProcess
}

type nodeProcess struct {
	PID        int `json:"pid"`
	GOMAXPROCS struct {
		Value int
		Proof string
	}
	SetBy string `json:"gomaxprocs_from"`
	Limit struct {
		State string
		CPUs  *float64
		From  string
	}
	Container *struct{ Pod, UID, ID, Runtime, Name string }
	Levels    []struct {
		Level, Dir string
		Limit      *float64 `json:"limit_cpus"`
		Periods    int64
		Throttled  int64 `json:"throttled_periods"`
	}
	Findings []struct{ Rule string }
	Stale    *struct {
		Then *float64 `json:"limit_then"`
		Now  *float64 `json:"limit_now"`
	}
}

// found says what rules found, with a comma after each.
func (p *nodeProcess) found() (rules string) {
	for _, f := range p.Findings {
		rules += f.Rule + ","
	}
	return rules
}

// A nodeAgent is the agent of kubectl unthrottle, as a DaemonSet runs it.
type nodeAgent struct {
	t       *testing.T
	address string
}

const kubeletToken = "guest"

// startNodeAgent runs the agent in a container of its own: it has the node's processes, and of the cgroups its own only.
func startNodeAgent(t *testing.T, own group, pods ...*podAt) *nodeAgent {
	t.Helper()
	const account = "/var/run/secrets/kubernetes.io/serviceaccount"
	if err := errors.Join(os.MkdirAll(account, 0o755), os.WriteFile(filepath.Join(account, "token"), []byte(kubeletToken), 0o600)); err != nil {
		t.Fatal(err)
	}
	startKubelet(t, pods)
	a := &nodeAgent{t, "127.0.0.1:9435"}
	cmd := place{group: own, box: private}.command(nil, vmtest.ClusterCommand, "agent", "--node", "guest", "--insecure", "--listen", a.address,
		"--pods", "kubelet", "--kubelet", "127.0.0.1", "--kubelet-insecure", "--interval", "10s", "--for", "1s", "--cpus", "1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return a
}

// startKubelet answers for a kubelet: it lists the pods.
func startKubelet(t *testing.T, pods []*podAt) {
	t.Helper()
	type object = map[string]any
	items := []any{}
	for _, p := range pods {
		var specs, statuses []any
		for i, id := range p.containers {
			name := fmt.Sprintf("c%d", i+1)
			specs = append(specs, object{"name": name, "image": "web:1"})
			statuses = append(statuses, object{
				"name": name, "containerID": "containerd://" + id, "image": "web:1", "imageID": "", "ready": true, "restartCount": 0,
				"state": object{"running": object{"startedAt": "2026-01-01T00:00:00Z"}},
			})
		}
		items = append(items, object{
			"metadata": object{"namespace": "default", "name": p.name, "uid": p.uid},
			"spec":     object{"nodeName": "guest", "containers": specs},
			"status":   object{"phase": "Running", "containerStatuses": statuses},
		})
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" || r.Header.Get("Authorization") != "Bearer "+kubeletToken {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(object{"kind": "PodList", "apiVersion": "v1", "metadata": object{}, "items": items})
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	l, err := net.Listen("tcp", "127.0.0.1:10250")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.Listener = l
	s.StartTLS()
	t.Cleanup(s.Close)
}

func (a *nodeAgent) get(path string) (string, error) {
	r, err := http.Get("http://" + a.address + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return string(text), err
}

// until waits until what the agent reports about a process is ok.
func (a *nodeAgent) until(what string, pid int, ok func(*nodeProcess) bool) *nodeProcess {
	a.t.Helper()
	var text string
	var err error
	var p *nodeProcess
	if !poll(func() bool {
		var doc nodeDocument
		if text, err = a.get("/api/v1/processes"); err == nil {
			err = json.Unmarshal([]byte(text), &doc)
		}
		i := slices.IndexFunc(doc.Processes, func(p nodeProcess) bool { return p.PID == pid })
		if err != nil || i < 0 {
			return false
		}
		p = &doc.Processes[i]
		return ok(p)
	}) {
		a.t.Fatalf("waited in vain until %s; of process %d: %s; error %v; the document: %.4000s", what, pid, dump(p), err, text)
	}
	return p
}

func seen(*nodeProcess) bool { return true }

// TestNode runs the agent of kubectl unthrottle among the pods of a node, and compares what it reports with what the programs say.
func TestNode(t *testing.T) {
	top := newGroup(t)
	slice := top.child("kubepods.slice")
	burstable := slice.child("kubepods-burstable.slice")
	newPod := func(name, uid string) *podAt {
		return &podAt{name: name, uid: uid, group: burstable.child("kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice")}
	}
	self := newPod("agent", "10000000-0000-4000-8000-000000000001")
	own := newPod("own", "20000000-0000-4000-8000-000000000002")
	shared := newPod("shared", "30000000-0000-4000-8000-000000000003")
	pinned := newPod("pinned", "40000000-0000-4000-8000-000000000004")
	byFiles := &podAt{name: "by-files", uid: "50000000-0000-4000-8000-000000000005"} // by the other driver, and limited with all of its class
	class := top.child("kubepods").child("besteffort")
	byFiles.group = class.child("pod" + byFiles.uid)

	agentAt := self.container(true)
	pinnedAt, byFilesAt := pinned.container(true), byFiles.container(false)
	pinnedAt.limit("50000 100000")
	class.limit("300000 100000")
	shared.group.limit("100000 100000")
	fixed, other := runContained(t, pinnedAt, "go1.25", "GOMAXPROCS=1"), runContained(t, byFilesAt, "go1.24")
	type limited struct {
		setBy string
		at    group
		*subject
	}
	var limitedEach []limited
	for _, c := range [][2]string{{"default", "go1.26"}, {"unthrottle", "unthrottle-go1.24"}, {"automaxprocs", "automaxprocs-go1.27"}} {
		at := own.container(true)
		at.limit("250000 100000")
		limitedEach = append(limitedEach, limited{c[0], at, runContained(t, at, c[1])})
	}
	busy := []*subject{runContained(t, shared.container(true), "go1.26"), runContained(t, shared.container(true), "go1.26")}
	for _, b := range busy {
		b.ask("burn")
	}
	a := startNodeAgent(t, agentAt, self, own, shared, pinned, byFiles)

	// check compares what each program says about itself, and whose it is.
	check := func(p *nodeProcess, says *subject, of *podAt, setBy string, cpus float64, from group) {
		t.Helper()
		if n := says.ask("").Procs; p.GOMAXPROCS.Value != n || p.GOMAXPROCS.Proof != "live" || p.SetBy != setBy {
			t.Errorf("%s: GOMAXPROCS is %+v by %s, the program says %d, by %s", of.name, p.GOMAXPROCS, p.SetBy, n, setBy)
		}
		if p.Limit.State != "limited" || p.Limit.CPUs == nil || *p.Limit.CPUs != cpus || !strings.HasSuffix(p.Limit.From, strings.TrimPrefix(from.dir, cgroupRoot)) {
			t.Errorf("%s: the limit is %s, want %v CPUs from %s", of.name, dump(p.Limit), cpus, from.dir)
		}
		if c := p.Container; c == nil || c.Pod != of.name || c.UID != of.uid || !slices.Contains(of.containers, c.ID) {
			t.Errorf("%s: its container is %s", of.name, dump(c))
		}
	}
	t.Run("their own limits", func(t *testing.T) {
		for _, l := range limitedEach {
			p := a.until("it is seen", l.pid, seen)
			check(p, l.subject, own, l.setBy, 2.5, l.at)
			if p.Container != nil && p.Container.Runtime != "containerd" || len(p.Levels) != 1 || p.Levels[0].Level != "container" {
				t.Errorf("it is in %s, with levels %s", dump(p.Container), dump(p.Levels))
			}
		}
	})
	t.Run("the pod's", func(t *testing.T) {
		for _, b := range busy {
			p := a.until("the pod is throttled", b.pid, func(p *nodeProcess) bool { return len(p.Levels) > 0 && p.Levels[0].Throttled > 0 })
			check(p, b, shared, "default", 1, shared.group)
			if len(p.Levels) != 1 || p.Levels[0].Level != "pod" || p.Levels[0].Limit == nil || *p.Levels[0].Limit != 1 {
				t.Errorf("the levels are %s", dump(p.Levels))
			}
			if f := p.found(); !strings.Contains(f, "limit-not-seen,") || !strings.Contains(f, "throttled,") {
				t.Errorf("the findings are %s", f)
			}
		}
	})
	t.Run("of the class", func(t *testing.T) {
		p := a.until("it is seen", other.pid, seen)
		if runtime.NumCPU() <= 3 {
			t.Skip("the limit is none")
		}
		check(p, other, byFiles, "default", 3, class)
		if len(p.Levels) != 1 || p.Levels[0].Level != "qos" {
			t.Errorf("the levels are %s", dump(p.Levels))
		}
	})
	t.Run("stale", func(t *testing.T) {
		p := a.until("it is seen", fixed.pid, seen)
		check(p, fixed, pinned, "image-or-runtime", 0.5, pinnedAt)
		if p.Stale != nil {
			t.Errorf("it is stale before anything changed: %s", dump(p.Stale))
		}
		pinnedAt.limit("200000 100000")
		p = a.until("its limit is 2 CPUs", fixed.pid, func(p *nodeProcess) bool { return p.Limit.CPUs != nil && *p.Limit.CPUs == 2 })
		if s := p.Stale; s == nil || s.Then == nil || *s.Then != 0.5 || s.Now == nil || *s.Now != 2 || !strings.Contains(p.found(), "stale,") {
			t.Errorf("the first scan that sees the new limit says stale %s, findings %s", dump(s), p.found())
		}
	})
	t.Run("metrics", func(t *testing.T) {
		text, err := a.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		const ofShared = `{container="c1",level="pod",namespace="default",pod="shared"} `
		for _, want := range []string{
			"unthrottle_container_limit_cpus" + ofShared + "1\n",
			`unthrottle_container_limit_cpus{container="c1",level="container",namespace="default",pod="own"} 2.5` + "\n",
			fmt.Sprintf(`unthrottle_container_gomaxprocs{container="c2",namespace="default",pod="shared"} %d`+"\n", runtime.NumCPU()),
			`unthrottle_container_finding{container="c1",namespace="default",pod="pinned",rule="stale",severity="`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the metrics lack %s", want)
			}
		}
		for _, counted := range []string{"unthrottle_container_throttled_periods_total" + ofShared, "unthrottle_container_throttled_seconds_total" + ofShared} {
			if _, after, ok := strings.Cut(text, "\n"+counted); !ok || strings.HasPrefix(after, "0\n") {
				t.Errorf("the metrics lack %s with more than 0", counted)
			}
		}
	})
}

// TestSidecar runs what watches the trials of kubectl unthrottle tune in a container next to a server, each in a cgroup namespace of its
// own.
func TestSidecar(t *testing.T) {
	p := &podAt{uid: "60000000-0000-4000-8000-000000000006"}
	p.group = newGroup(t).child("kubepods.slice").child("kubepods-pod" + strings.ReplaceAll(p.uid, "-", "_") + ".slice")
	p.group.limit("400000 100000")
	beside, at := p.container(true), p.container(true)
	at.limit("50000 100000")
	server := runContained(t, at, "go1.26", "GOMAXPROCS=3")
	server.ask("burn")

	sidecar := place{group: beside, box: private}.command(nil, vmtest.Command, "sidecar")
	sidecar.Stderr = os.Stderr
	out, err := sidecar.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	defer sidecar.Wait()
	defer sidecar.Process.Kill()
	type container struct {
		ID       string
		Counters cgroup.Counters
		CPUs     float64 `json:"limit_cpus"`
		Procs    int     `json:"gomaxprocs"`
		Refused  string
	}
	var seen []container
	lines := json.NewDecoder(out)
	ended := time.Now().Add(patience)
	for {
		var line struct{ Containers []container }
		if err := lines.Decode(&line); err != nil || time.Now().After(ended) {
			t.Fatalf("waited in vain until the server is throttled: %v; it saw %s", err, dump(seen))
		}
		seen = line.Containers
		if len(seen) == 1 && seen[0].Counters.Throttled > 1 && seen[0].Procs > 0 {
			break
		}
	}
	s := seen[0]
	if s.ID != p.containers[1] || s.CPUs != 0.5 || s.Procs != server.ask("").Procs || !s.Counters.CPUKnown || s.Counters.CPU <= 0 || s.Refused != "" {
		t.Errorf("it saw %s", dump(s))
	}
	if c := look(server.pid).Throttling.Own; c.Throttled < s.Counters.Throttled || c.CPU < s.Counters.CPU {
		t.Errorf("it counted %s, of %s in all", dump(s.Counters), dump(c))
	}
}
