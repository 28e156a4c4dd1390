package podtrial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/sidecar"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// A fake is an API server, a Job controller, a kubelet and a program, with a clock of its own that goes on with the loads. What a run
// gives follows from its setting, rate and seed alone.
type fake struct {
	t   testing.TB
	url string

	mu      sync.Mutex
	now     time.Time
	objects map[string]object // by path
	made    []string          // paths, in order
	deleted []string
	pods    map[string]*fakePod // by Job
	servers int

	quick    bool // pods are ready at the first look
	byItself int
	p99      func(procs int) float64
	cpu      float64                                           // of a request, in seconds
	most     float64                                           // requests a second
	refuse   func(method, path string, o object) (int, string) // 0: it does not
	state    func(p *fakePod, usual object) object             // of a pod
	events   map[string]string                                 // by Job: why there is no pod
	loadLog  func(p *fakePod, usual []byte) []byte
	still    func(load int) bool // the meter stands still in the nth load, from 1
	loads    int

	seesHost bool       // the meter reports the node's CPU time, and how long threads waited
	others   float64    // CPUs that are used there besides all pods
	gone     []*fakePod // windows of servers that were deleted: the node has counted them
	sidecar  float64    // and by another container of each pod of a server, whose group the meter may not see
	abreast  int        // servers that ran at the same time
	apart    bool       // what is loaded at the same time is loaded one after the other
}

type fakePod struct {
	job     object
	part    string
	n       int // of the servers, or of the loads
	made    time.Time
	looks   int
	begin   time.Time // of a load's window
	end     time.Time
	rate    float64
	used    time.Duration // of a server, until the window's beginning
	procs   int
	server  *fakePod // of a load
	windows []*fakePod
	doc     []byte
}

func newFake(t testing.TB) *fake {
	f := &fake{
		t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), objects: map[string]object{}, pods: map[string]*fakePod{}, events: map[string]string{},
		byItself: 8, cpu: 0.001, most: 900,
		p99: func(procs int) float64 { return 0.02 * (1 + math.Abs(math.Log2(float64(procs)/2))) },
	}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

// api is a client.
func (f *fake) api() *API {
	p := cluster.Place{Config: &rest.Config{Host: f.url}}
	cluster.Prepare(p.Config, 0)
	c, err := p.Client()
	if err != nil {
		f.t.Fatal(err)
	}
	return &API{c}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var o object
	if r.Body != nil {
		json.NewDecoder(r.Body).Decode(&o)
	}
	if f.refuse != nil {
		if status, message := f.refuse(r.Method, r.URL.Path, o); status != 0 {
			f.status(w, status, message)
			return
		}
	}
	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost:
		f.create(w, path, o)
	case r.Method == http.MethodDelete:
		f.delete(w, path)
	case r.Method == http.MethodPatch:
		if f.objects[path] == nil {
			f.status(w, 404, path+" not found")
			return
		}
		for key, value := range at(o, "spec") {
			under(f.objects[path], "spec")[key] = value
		}
		f.answer(w, 200, f.objects[path])
	case strings.HasSuffix(path, "/log"):
		f.log(w, r)
	case strings.HasSuffix(path, "/events"):
		job := r.URL.Query().Get("fieldSelector")
		items := []any{}
		for name, why := range f.events {
			if strings.HasSuffix(job, "="+name) {
				items = append(items, object{"reason": "FailedCreate", "message": why})
			}
		}
		f.answer(w, 200, object{"kind": "EventList", "apiVersion": "v1", "items": items})
	case strings.HasSuffix(path, "/pods"):
		_, job, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		items := []any{}
		if p := f.pods[job]; p != nil {
			items = append(items, f.podState(p))
		}
		f.answer(w, 200, object{"kind": "PodList", "apiVersion": "v1", "items": items})
	case f.objects[path] != nil:
		f.answer(w, 200, f.objects[path])
	case strings.Count(strings.Trim(path, "/"), "/") == 4 || strings.HasSuffix(path, "s") && f.objects[path] == nil && strings.Contains(path, "/namespaces/"):
		f.list(w, path)
	default:
		f.status(w, 404, path+" not found")
	}
}

func (f *fake) answer(w http.ResponseWriter, status int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(o)
}

func (f *fake) status(w http.ResponseWriter, code int, message string) {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 409: "AlreadyExists", 422: "Invalid"}[code]
	f.answer(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

func (f *fake) list(w http.ResponseWriter, path string) {
	if i := strings.LastIndexByte(path, '/'); !slices.Contains([]string{"limitranges", "resourcequotas", "jobs", "secrets", "configmaps"}, path[i+1:]) {
		f.status(w, 404, path+" not found")
		return
	}
	items := []any{}
	for p, o := range f.objects {
		if strings.HasPrefix(p, path+"/") {
			items = append(items, o)
		}
	}
	f.answer(w, 200, object{"kind": "List", "apiVersion": "v1", "items": items})
}

func (f *fake) create(w http.ResponseWriter, path string, o object) {
	path += "/" + text(o, "metadata", "name")
	if f.objects[path] != nil {
		f.status(w, 409, path+" already exists")
		return
	}
	under(o, "metadata")["uid"] = fmt.Sprintf("uid-%d", len(f.made))
	f.objects[path] = o
	f.made = append(f.made, path)
	if text(o, "kind") == "Job" && f.events[text(o, "metadata", "name")] == "" && at(o, "spec")["parallelism"] != float64(0) {
		f.run(o)
	}
	f.answer(w, 201, o)
}

// run makes a Job's pod.
func (f *fake) run(job object) {
	p := &fakePod{job: job, made: f.now, part: text(job, "metadata", "labels", partLabel)}
	run := text(job, "metadata", "labels", runLabel)
	f.pods[text(job, "metadata", "name")] = p
	switch p.part {
	case "server":
		running := 1
		for _, other := range f.pods {
			if other != p && other.part == "server" {
				running++
			}
		}
		f.abreast = max(f.abreast, running)
		f.servers++
		p.n = f.servers
		p.procs = f.byItself
		for _, c := range list(job, "spec", "template", "spec", "containers") {
			if e := named(list(c, "env"), "GOMAXPROCS"); e != nil && text(e, "value") != "" {
				p.procs, _ = strconv.Atoi(text(e, "value"))
			}
		}
	case "load":
		for _, other := range f.pods {
			if other.part == "server" && text(other.job, "metadata", "labels", runLabel) == run {
				p.server = other
			}
		}
		if p.server == nil {
			f.t.Errorf("a load for %s, which does not run", run)
			return
		}
		f.shoot(p)
	}
}

// shoot does a load.
func (f *fake) shoot(p *fakePod) {
	var args []string
	for _, a := range list(p.job, "spec", "template", "spec", "containers")[0]["args"].([]any) {
		args = append(args, a.(string))
	}
	if args[0] != "load" || args[1] != "http://10.1.2.3:8080/" {
		f.t.Errorf("the load is %q", args)
	}
	of := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return "0"
	}
	lasting, _ := time.ParseDuration(of("--for"))
	warm, _ := time.ParseDuration(of("--warmup"))
	rate, _ := strconv.ParseFloat(of("--rate"), 64)
	seed, _ := strconv.ParseUint(of("--seed"), 10, 64)
	if rate == 0 {
		rate = f.most
	}
	r := rand.New(rand.NewPCG(seed, uint64(p.server.procs)))
	noisy := func(v float64) float64 { return v * math.Exp(0.02*r.NormFloat64()) }
	p.begin = f.now.Add(warm)
	for _, other := range f.beside(p.server) { // which was loaded when this one was there too
		if !f.apart && len(p.server.windows) == 0 && !p.server.made.After(other.begin) {
			p.begin = other.begin
		}
	}
	p.end = p.begin.Add(lasting)
	f.now = p.end.Add(time.Second)
	p.rate, p.procs = rate, p.server.procs
	f.loads++
	p.n = f.loads
	for _, w := range p.server.windows {
		p.used += w.cost(f)
	}
	p.server.windows = append(p.server.windows, p)
	p99 := noisy(f.p99(p.procs))
	n := int64(rate * lasting.Seconds())
	p.doc, _ = json.Marshal(loadtest.Summary{
		Began: p.begin.Format(time.RFC3339Nano), Planned: lasting.Seconds(), Elapsed: lasting.Seconds(), Requests: n, Rate: rate, Goodput: rate,
		FromReady:     loadtest.Latencies{Count: n, P50: p99 / 3, P90: p99 / 2, P99: p99, P999: 2 * p99},
		FromReadyTail: p99, Valid: true,
	})
}

// beside are the running loads of other servers.
func (f *fake) beside(server *fakePod) (all []*fakePod) {
	for _, other := range f.pods {
		if other.part == "server" && other != server {
			all = append(all, other.windows...)
		}
	}
	return all
}

// patienceOfFake is how often a load is looked at until it ends although another server waits for its own.
const patienceOfFake = 1000

// waiting reports whether a load is still on its way because another server that was there too has yet to be loaded: they are loaded at
// the same time, and who looks at the node meanwhile sees what both use.
func (f *fake) waiting(load *fakePod) bool {
	for _, other := range f.pods {
		if !f.apart && other.part == "server" && other != load.server && len(other.windows) == 0 && !other.made.After(load.begin) {
			return true
		}
	}
	return false
}

// cost is the CPU time of a window, and of all that the meter saw around it.
func (p *fakePod) cost(f *fake) time.Duration {
	return time.Duration(f.cpu * p.rate * (p.end.Sub(p.begin) + time.Second).Seconds() * float64(time.Second))
}

func (f *fake) delete(w http.ResponseWriter, path string) {
	o := f.objects[path]
	if o == nil {
		f.status(w, 404, path+" not found")
		return
	}
	f.deleted = append(f.deleted, path)
	uid := text(o, "metadata", "uid")
	for p, other := range f.objects {
		owners := list(other, "metadata", "ownerReferences")
		if p == path || text(o, "kind") == "Namespace" && strings.Contains(p, "/namespaces/"+text(o, "metadata", "name")) ||
			len(owners) > 0 && text(owners[0], "uid") == uid {
			delete(f.objects, p)
			if text(other, "kind") == "Job" {
				name := text(other, "metadata", "name")
				if pod := f.pods[name]; pod != nil {
					f.gone = append(f.gone, pod.windows...)
				}
				delete(f.pods, name)
			}
		}
	}
	f.answer(w, 200, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

var fakeID = strings.Repeat("ab", 32)

// podState is a pod, which gets further each time that it is looked at.
func (f *fake) podState(p *fakePod) object {
	if p.looks++; f.quick {
		p.looks += 2
	}
	running := object{"running": object{"startedAt": "2026-01-02T03:04:05Z"}}
	status := object{"phase": "Pending", "podIP": "10.1.2.3", "containerStatuses": []any{}}
	spec := object{"nodeName": p.node(), "containers": at(p.job, "spec", "template", "spec")["containers"]}
	o := object{"metadata": object{"name": text(p.job, "metadata", "name") + "-x"}, "spec": spec, "status": status}
	switch {
	case p.looks == 1:
	case p.part == "server":
		status["phase"] = "Running"
		status["containerStatuses"] = []any{
			object{"name": "server", "containerID": "containerd://" + fakeID, "state": running},
			object{"name": meterName, "state": running},
			object{"name": "proxy", "containerID": "containerd://sidecar", "state": running},
		}
		if p.looks > 2 {
			status["conditions"] = []any{object{"type": "Ready", "status": "True"}}
		}
	case p.part == "load" && p.looks < patienceOfFake && f.waiting(p):
		status["phase"] = "Running"
		status["containerStatuses"] = []any{object{"name": loadName, "state": running}}
	case p.part == "load":
		status["phase"] = "Succeeded"
		status["containerStatuses"] = []any{object{"name": loadName, "state": object{"terminated": object{"exitCode": 0, "reason": "Completed"}}}}
	}
	if f.state != nil {
		return f.state(p, o)
	}
	return o
}

func (f *fake) log(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	p := f.pods[strings.TrimSuffix(parts[len(parts)-2], "-x")]
	if p == nil {
		f.status(w, 404, "there is no such pod")
		return
	}
	var b bytes.Buffer
	switch container := r.URL.Query().Get("container"); container {
	case loadName:
		b.WriteString("unthrottle: warning: real-time priority is not allowed\n")
		b.Write(p.doc)
		b.WriteString("\n")
		if f.loadLog != nil {
			b = *bytes.NewBuffer(f.loadLog(p, b.Bytes()))
		}
	case meterName:
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
		f.meter(&b, p, since)
	default:
		f.collections(&b, p, r.URL.Query().Get("timestamps") == "true")
	}
	w.Write(b.Bytes())
}

const step = 100 * time.Millisecond

// meter writes the lines of the windows of a server, and of half a second around each.
func (f *fake) meter(b *bytes.Buffer, p *fakePod, since time.Time) {
	e := json.NewEncoder(b)
	if len(p.windows) == 0 {
		model := "Xeon 6"
		if p.node() == "n2" {
			model = "EPYC 9"
		}
		e.Encode(sidecar.Line{At: f.now, Host: procs.HostMoment{HostTimes: procs.HostTimes{CPUs: 6}}, CPUModel: model})
	}
	for _, w := range p.windows {
		begin := w.begin.Add(-500 * time.Millisecond)
		for at := begin; !at.After(w.end.Add(500 * time.Millisecond)); at = at.Add(step) {
			if at.Before(since) {
				continue
			}
			if seen := 800 * time.Millisecond; f.still != nil && f.still(w.n) && at.After(w.begin.Add(seen)) && !at.After(w.end) {
				continue
			}
			age := at.Sub(begin).Seconds()
			var host procs.HostMoment
			var ran time.Duration
			if f.seesHost {
				used := f.others + w.rate*f.cpu + f.sidecar
				for _, other := range append(f.beside(p), f.gone...) {
					if other.begin.Equal(w.begin) {
						used += other.rate*f.cpu + f.sidecar
					}
				}
				ran = w.used + time.Duration((1+age)*w.rate*f.cpu*float64(time.Second))
				host = procs.HostMoment{Known: true, At: at, HostTimes: procs.HostTimes{
					CPUs: 8, Total: time.Duration(8 * age * float64(time.Second)), Busy: time.Duration(age * used * float64(time.Second)),
				}}
			}
			beside := sidecar.Container{ID: "sidecar", Refused: "it runs as user 1337", Ran: time.Hour + time.Duration(age*f.sidecar*float64(time.Second))}
			e.Encode(sidecar.Line{At: at, Host: host, Containers: []sidecar.Container{beside, {
				ID: fakeID, Ran: ran, Waited: ran / 2, Peak: 64 << 20, Procs: p.procs,
				Counters: cgroup.Counters{
					Known: true, Periods: int64(10 * age), Throttled: int64(age), CPUKnown: true, CPU: w.used + time.Duration(age*w.rate*f.cpu*float64(time.Second)),
				},
			}}})
		}
	}
}

// collections writes what gctrace has a program write, twice a second.
func (f *fake) collections(b *bytes.Buffer, p *fakePod, times bool) {
	n := 0
	for _, w := range p.windows {
		for at := w.begin; !at.After(w.end); at = at.Add(500 * time.Millisecond) {
			n++
			if times {
				b.WriteString(at.Format(time.RFC3339Nano) + " ")
			}
			fmt.Fprintf(b, "gc %d @0.012s 2%%: 0.018+1.3+0.076 ms clock, 0.054+0.35/1.2/3.0+0.23 ms cpu, 40->41->30 MB, 50 MB goal, 0 MB stacks, 0 MB globals, %d P\n", n, p.procs)
		}
	}
	b.WriteString("2026-01-02T03:04:05Z it listens, password=hunter2\n")
}

// node is that which the pod's rules name, or the first that they allow.
func (p *fakePod) node() string {
	nodes := []string{"n1", "n2", "n3"}
	required := at(p.job, "spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	for _, term := range list(required, "nodeSelectorTerms") {
		for _, field := range list(term, "matchFields") {
			name := field["values"].([]any)[0].(string)
			nodes = slices.DeleteFunc(nodes, func(n string) bool { return (n == name) != (text(field, "operator") == "In") })
		}
	}
	return nodes[0]
}
