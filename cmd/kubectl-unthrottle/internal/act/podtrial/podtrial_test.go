package podtrial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

const workloadYAML = `
kind: Deployment
metadata: {name: api, namespace: team}
spec:
  template:
    spec:
      imagePullSecrets: [{name: registry}]
      containers:
      - {name: server, image: 'example.com/server:7', resources: {limits: {memory: 256Mi}}, ports: [{containerPort: 8080}], envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: none, optional: true}}]}
`

// open makes a study's server on a fake.
func open(t *testing.T, f *fake) (*Server, *Space, error) {
	t.Helper()
	s := &Server{
		API: f.api(), Template: template(t, workloadYAML, ""), Scheme: "http", Path: "/", Every: time.Millisecond,
		Kit: Kit{Study: "abc", Namespace: "unthrottle-tune-abc", Owned: true, Image: "unthrottle", Port: 8080, LoadCPUs: 1},
	}
	space, err := OpenSpace(context.Background(), s.API, &s.Kit, s.Template, Lease)
	return s, space, err
}

func (f *fake) put(path string, o object) { f.objects[path] = o }

// team is the user's namespace.
func (f *fake) team() {
	f.put("/api/v1/namespaces/team", object{"kind": "Namespace", "metadata": object{"name": "team", "labels": object{
		"kubernetes.io/metadata.name": "team", "team": "shop", "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.36",
	}}})
	f.put("/api/v1/namespaces/team/configmaps/settings", object{"kind": "ConfigMap", "apiVersion": "v1", "metadata": object{"name": "settings", "namespace": "team", "uid": "1"}, "data": object{"A": "1"}})
	f.put("/api/v1/namespaces/team/secrets/registry", object{
		"kind": "Secret", "apiVersion": "v1", "metadata": object{"name": "registry", "annotations": object{"a": "b"}}, "type": "kubernetes.io/dockerconfigjson", "data": object{".dockerconfigjson": "e30="},
	})
	f.put("/api/v1/namespaces/team/resourcequotas/q", object{"metadata": object{"name": "q"}, "spec": object{"hard": object{"limits.cpu": "4"}}, "status": object{"used": object{}}})
	f.put("/api/v1/namespaces/team/limitranges/l", object{"metadata": object{"name": "l"}, "spec": object{"limits": []any{object{"type": "Container", "max": object{"cpu": "3"}}}}})
	for i, kernel := range []string{"6.1", "6.2", "6.1"} {
		f.put(fmt.Sprintf("/api/v1/nodes/n%d", i+1), node(kernel, "8"))
	}
}

func node(kernel, cpus string) object {
	return object{"status": object{"capacity": object{"cpu": cpus, "memory": "16Gi"}, "nodeInfo": object{"kernelVersion": kernel, "kubeletVersion": "v1.36.3", "architecture": "amd64"}}}
}

// tuned executes a study on a node of a fake, with the given sides; nil: settings take turns.
func tuned(t *testing.T, f *fake, s *Server, sides []tune.Server) *tune.Study {
	t.Helper()
	study := &tune.Study{
		Version: lab.Version, Verb: "tune", Environment: lab.Environment{CPUs: 8},
		Plan: tune.Plan{Kind: tune.ServerKind, Name: "deployment/api", CPUs: 1, Margin: 0.05, Tail: 0.25, Seed: 3},
	}
	clock := func() time.Time { f.mu.Lock(); defer f.mu.Unlock(); return f.now }
	err := study.Execute(t.Context(), tune.Lab{
		Server: s, Sides: sides, Clock: clock, Record: func(tune.Record) error { return nil }, Tell: func(tune.Progress) {},
		Foresee: func(float64) tune.Foresight { return tune.Foresight{GoDefault: 2} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return study
}

// TestTune: a whole tune in pods comes to the verdict that the program's figures have, and leaves nothing.
func TestTune(t *testing.T) {
	f := newFake(t)
	f.team()
	before := len(f.objects)
	s, space, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	node, err := s.Look(context.Background(), 1)
	if err != nil || node.CPUs != 8 || node.Memory != 16<<30 || node.Kernel != "6.1" || s.Kit.Node != "n1" {
		t.Fatalf("got %+v, %v", node, err)
	}
	study := tuned(t, f, s, nil)
	search, err := study.Search(0)
	if err != nil {
		t.Fatal(err)
	}
	v := search.Verdict()
	if v.Leader.Procs != 2 || v.Current.Procs != 8 {
		t.Errorf("%v leads and %v is the current one: %+v", v.Leader, v.Current, v)
	}
	p := study.Pilot
	if p.Procs != 8 || p.LimitKind != LimitKind || p.GC == nil || p.GC.PerSecond < 1.5 || p.GC.PerSecond > 3 || p.GC.Procs != 8 {
		t.Errorf("the pilot: %+v, %+v", p, p.GC)
	}
	for _, r := range study.Runs {
		if cost := lab.CPUPerRequest.In(r.Metrics); r.Error != "" || cost < 0.00095 || cost > 0.00105 || lab.PeakMemory.In(r.Metrics) != 64<<20 {
			t.Errorf("%+v", r)
		}
	}
	if len(f.pods) > 1 { // that which waits for the end
		t.Errorf("%d pods are left", len(f.pods))
	}
	if err := space.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got := len(f.objects); got != before {
		t.Errorf("%d objects, before it were %d", got, before)
	}
}

// TestOpenSpace: what is made, whom it belongs to, and what is taken along.
func TestOpenSpace(t *testing.T) {
	f := newFake(t)
	f.team()
	s, space, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close(context.Background())
	in := "/namespaces/unthrottle-tune-abc/"
	want := []string{
		"/api/v1/namespaces/unthrottle-tune-abc", "/apis/batch/v1" + in + "jobs/study", "/api/v1" + in + "serviceaccounts/expire",
		"/apis/rbac.authorization.k8s.io/v1" + in + "roles/expire", "/apis/rbac.authorization.k8s.io/v1" + in + "rolebindings/expire",
		"/apis/batch/v1" + in + "jobs/expire", "/api/v1" + in + "limitranges/l", "/api/v1" + in + "resourcequotas/q",
		"/api/v1" + in + "secrets/registry", "/api/v1" + in + "configmaps/settings",
	}
	if got := strings.Join(f.made, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("made were\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if labels := at(f.objects[want[0]], "metadata", "labels"); !maps.Equal(labels, object{
		managedBy: ours, studyLabel: "abc", "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.36",
	}) {
		t.Errorf("the namespace's labels are %v", labels)
	}
	if !s.Kit.CapAll {
		t.Error("the quota wants a limit of every container")
	}
	uid := text(f.objects[want[1]], "metadata", "uid")
	for _, path := range want[6:] {
		o := f.objects[path]
		if owners := list(o, "metadata", "ownerReferences"); len(owners) != 1 || text(owners[0], "uid") != uid || text(o, "metadata", "namespace") != "unthrottle-tune-abc" {
			t.Errorf("%s: %v", path, o)
		}
	}
	secret := f.objects[want[8]]
	if text(secret, "type") != "kubernetes.io/dockerconfigjson" || at(secret, "data")[".dockerconfigjson"] != "e30=" || at(secret, "metadata", "annotations") != nil {
		t.Errorf("the Secret: %v", secret)
	}
	if quota := f.objects[want[7]]; quota["status"] != nil || at(quota, "spec", "hard")["limits.cpu"] != "4" {
		t.Errorf("the quota: %v", quota)
	}
}

// TestRenew: the end of all is put off as long as the study is open.
func TestRenew(t *testing.T) {
	f := newFake(t)
	s := &Server{API: f.api(), Template: template(t, workloadYAML, ""), Kit: Kit{Study: "abc", Namespace: "team", Image: "unthrottle", Port: 8080}}
	space, err := OpenSpace(context.Background(), s.API, &s.Kit, s.Template, 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/batch/v1/namespaces/team/jobs/unthrottle-tune-abc-study"
	seconds := func() float64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		n, _ := at(f.objects[path], "spec")["activeDeadlineSeconds"].(float64)
		return n
	}
	for end := time.Now().Add(time.Minute); seconds() < 2; {
		if time.Now().After(end) {
			t.Fatalf("after a minute it ends at %v s", seconds())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := space.Close(context.Background()); err != nil || space.Err() != nil {
		t.Error(err, space.Err())
	}
	if len(f.objects) > 0 || len(f.deleted) != 1 {
		t.Errorf("left are %v, deleted was %v", f.objects, f.deleted)
	}
}

// TestRefused: what may not be done is reported, with what to do instead, and nothing is left.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		verb, path, err, hint string
	}{
		"their level":  {http.MethodGet, "/api/v1/namespaces/team", "", "namespace team can't be read"},
		"namespaces":   {http.MethodPost, "/api/v1/namespaces", "creating namespace unthrottle-tune-abc: user may not", "--in NAME"},
		"jobs":         {http.MethodPost, "/apis/batch/v1/namespaces/unthrottle-tune-abc/jobs", "creating job study: user may not", ""},
		"roles":        {http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/unthrottle-tune-abc/roles", "creating role expire: user may not", ""},
		"their Secret": {http.MethodGet, "/api/v1/namespaces/team/secrets/registry", "getting secret registry in team: user may not", "kubectl auth can-i get secrets -n team"},
		"their quota":  {http.MethodGet, "/api/v1/namespaces/team/resourcequotas", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.team()
			before := len(f.objects)
			f.refuse = func(method, path string, _ object) (int, string) {
				// A user who may not make a namespace may not delete one either.
				if method == test.verb && path == test.path || name == "namespaces" && method == http.MethodDelete {
					return 403, `x "y" is forbidden: user may not`
				}
				return 0, ""
			}
			_, space, err := open(t, f)
			if test.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if notes := strings.Join(space.Notes, "; "); !strings.Contains(notes, test.hint) || test.hint == "" && notes != "" {
					t.Errorf("it notes %q, want %q", notes, test.hint)
				}
				space.Close(context.Background())
			} else if err == nil || err.Error() != test.err || !strings.Contains(strings.Join(hint.Of(err), "; "), test.hint) {
				t.Errorf("got %v; %q\nwant %s; %s", err, hint.Of(err), test.err, test.hint)
			}
			if got := len(f.objects); got != before {
				t.Errorf("%d objects, before it were %d", got, before)
			}
		})
	}
	f := newFake(t)
	claim := strings.Replace(workloadYAML, "imagePullSecrets: [{name: registry}]", "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]", 1)
	s := &Server{API: f.api(), Template: template(t, claim, ""), Kit: Kit{Study: "abc", Namespace: "x", Owned: true}}
	if _, err := OpenSpace(context.Background(), s.API, &s.Kit, s.Template, Lease); err == nil || !strings.Contains(err.Error(), "must not write to your data") || len(f.made) > 0 {
		t.Errorf("a claim: %v, made were %v", err, f.made)
	}
}

// TestTroubles: what goes wrong with pods. What is the program's fault is a run with an error; all else ends the study.
func TestTroubles(t *testing.T) {
	ended := func(p *fakePod, o object, reason string) object {
		under(o, "status")["phase"] = "Failed"
		for _, c := range list(o, "status", "containerStatuses") {
			c["state"] = object{"terminated": object{"exitCode": 137, "reason": reason}}
		}
		return o
	}
	for name, test := range map[string]struct {
		prepare func(f *fake)
		run     string // in the run's error
		err     string
	}{
		"it dies under load": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "server" && len(p.windows) > 0 {
					return ended(p, o, "OOMKilled")
				}
				return o
			}
		}, run: "out of memory: limit 256Mi"},
		"it never starts": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "server" && p.looks > 1 {
					return ended(p, o, "Error")
				}
				return o
			}
		}, run: "container server ended: it was killed, as by a liveness probe that failed"},
		"its image is missing": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "server" {
					under(o, "status")["containerStatuses"] = []any{object{"name": "server", "image": "example.com/server:7", "state": object{"waiting": object{"reason": "ErrImagePull", "message": "401"}}}}
				}
				return o
			}
		}, err: "image example.com/server:7 of container server can't be had: ErrImagePull: 401"},
		"our image is missing": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "load" {
					under(o, "status")["containerStatuses"] = []any{object{"name": loadName, "image": "unthrottle", "state": object{"waiting": object{"reason": "ErrImageNeverPull"}}}}
				}
				return o
			}
		}, err: "sending load: image unthrottle of container unthrottle-load can't be had: ErrImageNeverPull"},
		"evicted in the middle": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "server" && len(p.windows) > 0 {
					under(o, "status")["reason"] = "Evicted"
					under(o, "status")["message"] = "low on memory"
				}
				return o
			}
		}, err: "node n1 evicted pod run-1-x: low on memory"},
		"deleted in the middle": {prepare: func(f *fake) {
			f.state = func(p *fakePod, o object) object {
				if p.part == "server" && len(p.windows) > 0 {
					under(o, "metadata")["deletionTimestamp"] = "2026-01-02T03:04:05Z"
				}
				return o
			}
		}, err: "pod run-1-x was deleted"},
		"no room in the quota": {prepare: func(f *fake) {
			f.events["run-1"] = `Error creating: pods "run-1-x" is forbidden: exceeded quota: q, requested: limits.cpu=1`
		}, err: "the quota has no room for a trial: exceeded quota: q, requested: limits.cpu=1"},
		"a load that says nothing": {prepare: func(f *fake) {
			f.loadLog = func(*fakePod, []byte) []byte { return []byte("unthrottle: error: no such flag {x}\n") }
		}, err: "generating load: exit code 0: its output is not whole: no document is in its log: unthrottle: error: no such flag {x}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.team()
			test.prepare(f)
			s, space, err := open(t, f)
			if err != nil {
				t.Fatal(err)
			}
			run, _, err := trial.Once(context.Background(), time.Now, func() (trial.Opened, error) {
				x, err := s.Open(context.Background(), lab.Setting{CPUs: 1, Procs: 2}, false)
				if err != nil {
					return nil, err
				}
				return x, nil
			}, trial.Shot{Rate: 100, Lasting: time.Second})
			switch {
			case test.err != "" && (err == nil || err.Error() != test.err):
				t.Errorf("got %v, want %s", err, test.err)
			case test.run != "" && (err != nil || run.Error != test.run):
				t.Errorf("got %+v, %v, want %s", run, err, test.run)
			}
			if len(f.pods) > 1 {
				t.Errorf("%d pods are left", len(f.pods))
			}
			space.Close(context.Background())
		})
	}
}

// TestInterrupted: a session that is interrupted in a load leaves no pods.
func TestInterrupted(t *testing.T) {
	f := newFake(t)
	f.team()
	s, space, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.state = func(p *fakePod, o object) object {
		if p.part == "load" {
			cancel()
		}
		return o
	}
	x, err := s.Open(ctx, lab.Setting{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Load(ctx, trial.Shot{Rate: 1, Lasting: time.Second}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	x.Close()
	if len(f.pods) > 1 {
		t.Errorf("%d pods are left", len(f.pods))
	}
	if err := space.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := space.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestLateLog: what a load wrote is read again where its end is not there yet, and where it never comes the load is sent again.
func TestLateLog(t *testing.T) {
	f := newFake(t)
	f.team()
	s, _, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	f.loadLog = func(_ *fakePod, usual []byte) []byte {
		if reads++; reads < 4 {
			return usual[:len(usual)*(reads-1)/3] // at first there is nothing
		}
		return usual
	}
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	if w, err := x.Load(t.Context(), trial.Shot{Rate: 100, Lasting: time.Second}); err != nil || reads != 4 || w.Metrics["p99-latency-ns"] == 0 {
		t.Errorf("%+v, %v after %d reads", w, err, reads)
	}

	var first *fakePod
	f.loadLog = func(p *fakePod, usual []byte) []byte {
		if first == nil {
			first = p
		}
		if p == first {
			return usual[:len(usual)/2]
		}
		return usual
	}
	if w, err := x.Load(t.Context(), trial.Shot{Rate: 100, Lasting: time.Second}); err != nil || w.Metrics["p99-latency-ns"] == 0 {
		t.Errorf("lost once: %+v, %v", w, err)
	}
	sent := map[*fakePod]bool{}
	f.loadLog = func(p *fakePod, usual []byte) []byte {
		sent[p] = true
		return usual[:len(usual)/2]
	}
	if _, err := x.Load(t.Context(), trial.Shot{Rate: 100, Lasting: time.Second}); !errors.Is(err, errLost) || len(sent) != 1+lostMost {
		t.Errorf("lost each time: %v after %d loads", err, len(sent))
	}
}

// TestCreated: a Job that is being made when the command is stopped is removed again.
func TestCreated(t *testing.T) {
	f := newFake(t)
	f.team()
	s, _, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	before := len(f.objects)
	ctx, cancel := context.WithCancel(t.Context())
	f.refuse = func(method, path string, _ object) (int, string) {
		if method == http.MethodPost && strings.HasSuffix(path, "/jobs") {
			cancel()
			time.Sleep(50 * time.Millisecond) // a caller that does not wait for the answer is gone by then
		}
		return 0, ""
	}
	if _, err := s.Open(ctx, lab.Setting{CPUs: 1, Procs: 1}, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers != 1 || len(f.objects) != before {
		t.Errorf("%d servers, and left are %q", f.servers, slices.Sorted(maps.Keys(f.objects)))
	}
}

func TestReadSummary(t *testing.T) {
	for log, want := range map[string]string{
		"{\"began\":\"a\"}\n":                           "",
		"warning: {x}\n{\"began\":\"a\"}\ntrailing {\n": "",
		"":               "no document",
		"usage: {a|b}\n": "no document",
		"{\"began\":":    "its document",
		"a\n{x\n":        "its document",
	} {
		g, err := readSummary([]byte(log))
		if want == "" && (err != nil || g.Began != "a") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v, want %q", log, g.Began, err, want)
		}
	}
}

func FuzzReadSummary(f *testing.F) {
	f.Add([]byte("x{\n{}\n"))
	f.Fuzz(func(t *testing.T, log []byte) { readSummary(log) })
}

func TestCollectionsOf(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line := "gc 1 @0.012s 2%: 0.018+1.3+0.076 ms clock, 0.054+0.35/1.2/3.0+0.23 ms cpu, 4->4->3 MB, 5 MB goal, 0 MB stacks, 0 MB globals, 4 P"
	log := ""
	for i := range 6 {
		log += fmt.Sprintf("%s %s\n", begin.Add(time.Duration(i-1)*time.Second).Format(time.RFC3339Nano), line)
	}
	sum, err := collectionsOf([]byte(log+"no time\n2026-01-02T03:04:06Z listens\n"), begin, begin.Add(3*time.Second))
	if err != nil || sum.Collections != 4 || sum.Procs != 4 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

// TestCollector: what the collector took is counted in the time that the CPU time is of, and not in the whole window, where the meter has seen
// only a part of that.
func TestCollector(t *testing.T) {
	f := newFake(t)
	f.team()
	s, _, err := open(t, f)
	if err != nil {
		t.Fatal(err)
	}
	f.still = func(int) bool { return true } // after 0.8 s
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 1, Procs: 2}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	w, err := x.Load(t.Context(), trial.Shot{Rate: 100, Lasting: 1700 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// Two collections, of 1.55 ms each, in 0.8 s of 100 requests a second that take a millisecond each.
	if rate, share := lab.GCRate.In(w.Metrics), lab.GCShare.In(w.Metrics); w.GC.Collections != 2 || math.Abs(rate-2.5) > 1e-9 || math.Abs(share-3.1/80) > 1e-6 {
		t.Errorf("%d collections, %v a second, %v of the CPU time", w.GC.Collections, rate, share)
	}
}
