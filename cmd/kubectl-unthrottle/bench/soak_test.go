//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

var soak = flag.Duration("soak", 2*time.Minute, "how long the pods of the agent's soak come and go")

const (
	podsAlive   = 40
	leastLife   = 10 * time.Second
	mostLife    = 40 * time.Second
	probeEvery  = 6 * time.Second // of each pod, on average
	soakToken   = "soak"
	kubeletPort = "10250" // the agent has no flag for another one

	mostSeriesOfOne = 20 // of a container, as docs/agent-answers.md promises
)

// What may be more at the end of a soak than before it, and still be no growth.
const (
	moreResident   = 5e6 // bytes; or 15 %
	moreLive       = 2e6 // bytes of live heap, once all pods are gone
	moreFiles      = 6   // besides one for each Go program: connections, and what a scan is just opening
	moreGoroutines = 6   // requests that are being answered
)

// churn is the program of the pods.
const churn = `package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "once":
	case "idle":
		time.Sleep(1000 * time.Hour)
	case "works":
		var kept [][]byte
		for range time.Tick(20 * time.Millisecond) {
			for range 50 {
				kept = append(kept, make([]byte, 1024))
			}
			kept = kept[len(kept)/2:]
		}
	case "busy":
		for range 2 * runtime.NumCPU() {
			go func() {
				for {
				}
			}()
		}
		select {}
	case "becomes":
		after, err := time.ParseDuration(os.Args[2])
		if err != nil {
			panic(err)
		}
		time.Sleep(after)
		panic(syscall.Exec(os.Args[3], os.Args[3:], os.Environ()))
	}
}
`

// TestSoak runs the agent next to pods that come and go, and checks whether it grows: its memory, its open files, its goroutines, its series.
// The pods are control groups with the names that a kubelet gives them, below one of the test's own, and a kubelet that only lists them.
func TestSoak(t *testing.T) {
	asked(t)
	if end, ok := t.Deadline(); ok && time.Until(end) < *soak+3*time.Minute {
		t.Fatalf("-soak %v takes some minutes more than that: go test -timeout %v", *soak, *soak+30*time.Minute)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop() // what is interrupted cleans up as well

	n := newNode(t)
	a := startAgent(t, n, "--interval", "5s", "--for", "1s", "--cpus", "1", "--pprof")
	before := a.settle(ctx, t)
	t.Logf("before: %s", before)

	churning, calm := context.WithTimeout(ctx, *soak)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.churn(churning, t)
	}()
	defer func() {
		calm()
		<-done
	}()
	all := a.watch(churning, t, n)
	<-done
	if ctx.Err() != nil {
		t.Errorf("it was interrupted")
	}
	n.mu.Lock()
	t.Logf("%d pods came and went, and %d processes beside their own; %d of the pods had series", n.came, n.probes, len(a.seen))
	n.mu.Unlock()
	table(t, all)
	if t.Failed() {
		return
	}
	checkGrowth(t, before, all)
	if len(a.seen) == 0 || !a.throttled {
		t.Errorf("%d pods had series, one that was throttled: %v; this soak says nothing", len(a.seen), a.throttled)
	}
	after := a.settle(ctx, t)
	t.Logf("after: %s", after)
	checkAfter(t, before, after)
	if t.Failed() {
		a.saveHeap(t)
	}
}

// checkGrowth compares the last third of the soak with the one before it, when all caches were full.
func checkGrowth(t *testing.T, before state, all []state) {
	t.Helper()
	if len(all) < 6 {
		t.Fatalf("it was asked only %d times: a longer -soak tells more", len(all))
	}
	thirds := inThirds(all)
	medians := func(of func(state) float64) (middle, last float64) {
		middle, _ = medianMax(thirds[1], of)
		last, _ = medianMax(thirds[2], of)
		return middle, last
	}
	if middle, last := medians(func(s state) float64 { return s.resident }); last > middle+max(moreResident, middle*0.15) {
		t.Errorf("resident memory grows: %.1f MB in the last third, %.1f MB in the one before", last/1e6, middle/1e6)
	}
	if middle, last := medians(state.beyond); last > middle+moreFiles {
		t.Errorf("open files grow: %v beside one for each Go program in the last third, %v in the one before", last, middle)
	}
	if middle, last := medians(func(s state) float64 { return s.goroutines }); last > middle+moreGoroutines {
		t.Errorf("goroutines grow: %v in the last third, %v in the one before", last, middle)
	}
	for _, s := range all {
		if s.other > before.other {
			t.Errorf("%v series are no container's, before there were %v", s.other, before.other)
			break
		}
	}
}

// checkAfter compares what is left of the soak with what was there before it.
func checkAfter(t *testing.T, before, after state) {
	t.Helper()
	if after.containers > 0 {
		t.Errorf("all pods are gone, and %v of their series are there", after.containers)
	}
	if after.beyond() > before.beyond()+moreFiles {
		t.Errorf("%v files are open beside one for each Go program, before there were %v", after.beyond(), before.beyond())
	}
	if after.goroutines > before.goroutines+moreGoroutines {
		t.Errorf("there are %v goroutines, before there were %v", after.goroutines, before.goroutines)
	}
	if after.live > before.live+moreLive {
		t.Errorf("%.1f MB of heap are in use after a collection, before there were %.1f", after.live/1e6, before.live/1e6)
	}
}

// A state is what the agent says about itself at one time.
type state struct {
	at                time.Time
	scans             float64
	resident, heap    float64 // bytes
	live              float64 // bytes, right after a collection; only if it was asked for
	files, goroutines float64
	programs          float64 // that are Go, in the last scan
	containers, other float64 // series
	cpu               float64 // seconds
	share             float64 // of a core, since the state before
	took              float64 // seconds of the last scan
	late              float64
}

// beyond is how many files are open besides one for each Go program that is known.
func (s state) beyond() float64 { return s.files - s.programs }

func (s state) String() string {
	text := fmt.Sprintf("%.1f MB resident, heap %.1f MB", s.resident/1e6, s.heap/1e6)
	if s.live > 0 {
		text += fmt.Sprintf(" (%.2f MB live)", s.live/1e6)
	}
	return text + fmt.Sprintf(", %v files and %v Go programs, %v goroutines, %v series of containers and %v others, %.1f s of CPU, %v scans, %v late",
		s.files, s.programs, s.goroutines, s.containers, s.other, s.cpu, s.scans, s.late)
}

// A soaked agent is the command, as released.
type soaked struct {
	address   string
	ended     chan struct{}
	seen      map[string]bool // pods that had series
	throttled bool
	problems  string
}

// startAgent starts it. It sends a kubelet a service account's token, for whose file there is no flag, so the token is put where a
// pod has it, in a mount namespace of the agent's own.
func startAgent(t *testing.T, n *node, flags ...string) *soaked {
	t.Helper()
	program, secrets := build(t, "norender"), t.TempDir()
	account := filepath.Join(secrets, "secrets/kubernetes.io/serviceaccount")
	if err := errors.Join(os.MkdirAll(account, 0o755), os.WriteFile(filepath.Join(account, "token"), []byte(soakToken), 0o600)); err != nil {
		t.Fatal(err)
	}
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{
		"-c", `mount --bind "$0" "$1" && shift && exec "$@"`, secrets, run, program, "agent",
		"--pods", "kubelet", "--kubelet", n.startKubelet(t), "--kubelet-insecure", "--insecure", "--listen", "127.0.0.1:0", "--probes", "127.0.0.1:0",
	}, flags...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &soaked{ended: make(chan struct{}), seen: map[string]bool{}}
	address := make(chan string, 1)
	go func() {
		defer close(a.ended)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			t.Log(s.Text())
			if _, after, ok := strings.Cut(s.Text(), " listens="); ok {
				address <- strings.Fields(after)[0]
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-a.ended
		cmd.Wait()
	})
	select {
	case a.address = <-address:
	case <-a.ended:
		t.Fatal("the agent ended")
	}
	return a
}

// ask gets the agent's state.
func (a *soaked) ask(t *testing.T) (state, map[string]float64) {
	t.Helper()
	s := state{at: time.Now()}
	all := scrape(a.address)
	if len(all) == 0 {
		select {
		case <-a.ended:
			t.Fatal("the agent ended")
		default:
			t.Fatal("the agent does not tell its metrics")
		}
	}
	s.scans, s.late, s.took = all["unthrottle_agent_scans_total"], all["unthrottle_agent_scans_late_total"], all["unthrottle_agent_scan_seconds"]
	s.resident, s.heap = all["process_resident_memory_bytes"], all["go_memstats_heap_inuse_bytes"]
	s.files, s.goroutines, s.cpu = all["process_open_fds"], all["go_goroutines"], all["process_cpu_seconds_total"]
	s.programs = all[`unthrottle_agent_processes{kind="go"}`]
	for name, value := range all {
		if !strings.HasPrefix(name, "unthrottle_container_") {
			s.other++
			continue
		}
		s.containers++
		if _, after, ok := strings.Cut(name, `pod="`); ok {
			pod, _, _ := strings.Cut(after, `"`)
			a.seen[pod] = true
		}
		if strings.HasPrefix(name, "unthrottle_container_throttled_periods_total{") && value > 0 {
			a.throttled = true
		}
	}
	return s, all
}

// settle waits until a scan that began after this call is done, and some more if a scan is just opening files, and has the agent
// collect its garbage.
func (a *soaked) settle(ctx context.Context, t *testing.T) state {
	t.Helper()
	first, _ := a.ask(t)
	best := state{files: 1e9}
	for end, limit := first.scans+5, time.Now().Add(5*time.Minute); ; {
		s, all := a.ask(t)
		if s.scans >= first.scans+2 && all["unthrottle_agent_pods_known"] == 1 && s.beyond() < best.beyond() {
			best = s
		}
		if s.scans >= end || time.Now().After(limit) {
			break
		}
		select {
		case <-ctx.Done():
			return s
		case <-time.After(time.Second):
		}
	}
	if best.at.IsZero() {
		t.Fatal("the agent made no scans, or does not know the node's pods")
	}
	best.live = a.live(t)
	return best
}

// heap has the agent collect its garbage, and copies its heap's profile.
func (a *soaked) heap(to io.Writer) error {
	r, err := http.Get("http://" + a.address + "/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(to, r.Body)
	return err
}

// live is the heap that is in use right after a collection.
func (a *soaked) live(t *testing.T) float64 {
	t.Helper()
	if err := a.heap(io.Discard); err != nil {
		t.Fatal(err)
	}
	return scrape(a.address)["go_memstats_heap_alloc_bytes"]
}

// saveHeap keeps the heap's profile for anyone looking for what grows.
func (a *soaked) saveHeap(t *testing.T) {
	t.Helper()
	f, err := os.CreateTemp("", "soak-*.pprof")
	if err == nil {
		err = errors.Join(a.heap(f), f.Close())
		t.Logf("its heap: go tool pprof %s", f.Name())
	}
	if err != nil {
		t.Error(err)
	}
}

// watch asks the agent repeatedly until the churn ends.
func (a *soaked) watch(ctx context.Context, t *testing.T, n *node) []state {
	t.Helper()
	every, tell := min(15*time.Second, *soak/24), min(5*time.Minute, *soak/4)
	parent, told, processes := os.Getppid(), time.Now(), time.Time{}
	var all []state
	for {
		select {
		case <-ctx.Done():
			return all
		case <-time.After(every):
		}
		if os.Getppid() != parent {
			t.Fatal("who started the test is gone")
		}
		s, metrics := a.ask(t)
		if len(all) > 0 {
			last := all[len(all)-1]
			s.share = (s.cpu - last.cpu) / s.at.Sub(last.at).Seconds()
		}
		n.check(t, metrics, s, all)
		if time.Since(told) >= tell {
			told, s.live = time.Now(), a.live(t)
			t.Log(s)
		}
		if time.Since(processes) >= time.Minute {
			processes = time.Now()
			a.processes(t)
		}
		all = append(all, s)
	}
}

// processes reads the agent's document, and reports its problems when they change.
func (a *soaked) processes(t *testing.T) {
	t.Helper()
	r, err := http.Get("http://" + a.address + "/api/v1/processes")
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	var doc struct {
		Processes []struct{ PID int }
		Problems  []string
	}
	if err := json.NewDecoder(r.Body).Decode(&doc); err != nil || len(doc.Processes) == 0 {
		t.Errorf("%d processes, %v", len(doc.Processes), err)
	}
	if problems := strings.Join(doc.Problems, "; "); problems != a.problems {
		a.problems = problems
		t.Logf("its problems: %s", problems)
	}
}

// A node is where pods come and go.
type node struct {
	groups  []string // of the pods, in each hierarchy; the first one has the quotas
	version cgroup.Version
	dir     string // of programs
	program string

	mu     sync.Mutex
	pods   map[string]*pod // by name: those that are there, and those that went lately
	came   int
	probes int
}

// A pod has one container.
type pod struct {
	name, uid, id string
	micros        int // of CPU in 100 ms; 0: no limit
	gomaxprocs    string
	muted         string
	began, ended  time.Time
}

// newNode builds the pods' program and makes the groups that all pods are in.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), pods: map[string]*pod{}}
	n.program = filepath.Join(n.dir, "churn")
	source := filepath.Join(n.dir, "main.go")
	if err := os.WriteFile(source, []byte(churn), 0o644); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("go", "build", "-o", n.program, source)
	compile.Env = append(os.Environ(), "GO111MODULE=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	top := kerneltest.New(t)
	kubepods := top.Child("kubepods")
	class := kubepods.Child("burstable")
	for _, g := range []*kerneltest.Group{top, kubepods, class} {
		g.EnableCPU()
	}
	n.version, n.groups = top.Version, []string{class.Dir}
	// CPU time may be counted in a hierarchy of its own, in which a container's runtime makes the same groups.
	if _, v, m, err := cgroup.Locate(cgroup.Source{}, "cpuacct"); v == cgroup.V1 && err == nil && !strings.HasPrefix(top.Dir, m.Point+"/") {
		own := filepath.Join(m.Point, filepath.Base(top.Dir))
		dir := filepath.Join(own, "kubepods", "burstable")
		t.Cleanup(func() {
			for _, g := range []string{dir, filepath.Dir(dir), own} {
				if err := removeGroup(g); err != nil {
					t.Error(err)
				}
			}
		})
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		n.groups = append(n.groups, dir)
	}
	p := newPod()
	if ref, ok := podpath.Parse(filepath.Join(class.Dir, p.path())); !ok || ref.PodUID != p.uid || ref.Container != p.id || ref.QoS != "burstable" {
		t.Fatalf("%s is read as %+v", p.path(), ref)
	}
	return n
}

func newPod() *pod {
	hexadecimal := fmt.Sprintf("%016x%016x%016x%016x", rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64())
	uid := fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", rand.Uint32(), rand.Uint32()>>16, rand.Uint32()>>16, rand.Uint32()>>16, rand.Uint64()>>16)
	return &pod{name: fmt.Sprintf("web-7d4b9c-%.10s", hexadecimal[:10]), uid: uid, id: hexadecimal}
}

// path is that of its container, below the groups of all pods.
func (p *pod) path() string { return filepath.Join("pod"+p.uid, p.id) }

// churn has pods come and go until ctx ends, and waits until all are gone.
func (n *node) churn(ctx context.Context, t *testing.T) {
	var all sync.WaitGroup
	for range podsAlive {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := n.live(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// between is a random time.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// live is the life of a pod.
func (n *node) live(ctx context.Context) (err error) {
	p := newPod()
	lasting, mode := between(leastLife, mostLife), "idle"
	switch rand.N(10) {
	case 0:
		mode, p.micros = "busy", 5_000+rand.N(15_000) // it is throttled
	case 1, 2, 3:
		mode = "works"
		p.micros = 50_000 * (1 + rand.N(5))
	case 4, 5:
		mode = "works"
	}
	if rand.N(4) == 0 {
		p.gomaxprocs = strconv.Itoa(1 << rand.N(5))
	}
	if rand.N(8) == 0 {
		p.muted = "all"
	}
	program := n.program
	if rand.N(3) == 0 { // another file, and for some time one that is gone
		program = filepath.Join(n.dir, p.id[:12])
		if err := copyProgram(program, n.program); err != nil {
			return err
		}
		defer os.Remove(program)
	}
	command := []string{program, mode}
	switch after := between(0, leastLife).String(); rand.N(6) {
	case 0: // a Go program that becomes another one
		command = append([]string{n.program, "becomes", after}, command...)
	case 1: // a script that becomes a Go program
		command = append([]string{"/bin/sh", "-c", `sleep "$0" && exec "$@"`, fmt.Sprintf("%.3f", between(0, leastLife).Seconds())}, command...)
	case 2: // a Go program that becomes none
		if p.micros == 0 {
			command = []string{program, "becomes", after, "/bin/sleep", "1000000"}
		}
	}
	if err := n.makeGroups(p); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.removeGroups(p)) }()
	main := n.command(p, command...)
	n.mu.Lock()
	p.began = time.Now()
	n.pods[p.name] = p
	n.came++
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		p.ended = time.Now()
		n.mu.Unlock()
	}()
	if err := main.Start(); err != nil {
		return err
	}
	defer main.Wait()
	defer main.Process.Kill()
	for end := p.began.Add(lasting); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(time.Until(end), between(0, 2*probeEvery))):
		}
		if strings.HasPrefix(program, n.dir) && program != n.program && rand.N(3) == 0 {
			os.Remove(program) // as an upgrade does; it may be too early for a program that is yet to become it, which then ends
		}
		n.probe(ctx, p)
	}
	return nil
}

// probe runs processes in a pod that soon end, as a kubelet's probes do.
func (n *node) probe(ctx context.Context, p *pod) {
	soon := between(0, 2*time.Second).String()
	for _, command := range [][]string{
		{n.program, "once"},
		[][]string{
			{n.program, "once"},
			{n.program, "becomes", "0s", n.program, "once"},
			{n.program, "becomes", soon, n.program, "once"},
			{n.program, "becomes", "0s", n.program, "becomes", soon, "/bin/true"},
			{"/bin/sh", "-c", `sleep 0.2; exec "$0" once`, n.program},
		}[rand.N(5)],
	} {
		cmd := n.command(p, command...)
		if cmd.Start() != nil {
			continue
		}
		ended := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		cmd.Wait() // how it ended is of no interest
		ended()
		n.mu.Lock()
		n.probes++
		n.mu.Unlock()
	}
}

// command is one that runs in the groups of a pod's container from its first instruction on.
func (n *node) command(p *pod, command ...string) *exec.Cmd {
	args := []string{"-c", `while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"`, "sh"}
	for _, g := range n.groups {
		args = append(args, filepath.Join(g, p.path()))
	}
	cmd := exec.Command("/bin/sh", append(append(args, "--"), command...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.gomaxprocs != "" {
		cmd.Env = append(os.Environ(), "GOMAXPROCS="+p.gomaxprocs)
	}
	return cmd
}

// makeGroups makes a pod's groups. A pod with a limit has it at both levels, as the kubelet writes it.
func (n *node) makeGroups(p *pod) error {
	for i, g := range n.groups {
		dir := filepath.Join(g, "pod"+p.uid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if i == 0 && n.version == cgroup.V2 {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
				return err
			}
		}
		if err := os.Mkdir(filepath.Join(dir, p.id), 0o755); err != nil {
			return err
		}
		if i > 0 || p.micros == 0 {
			continue
		}
		file, text := "cpu.cfs_quota_us", strconv.Itoa(p.micros)
		if n.version == cgroup.V2 {
			file, text = "cpu.max", text+" 100000"
		}
		for _, d := range []string{dir, filepath.Join(dir, p.id)} {
			if err := os.WriteFile(filepath.Join(d, file), []byte(text), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) removeGroups(p *pod) (err error) {
	for _, g := range n.groups {
		dir := filepath.Join(g, "pod"+p.uid)
		err = errors.Join(err, removeGroup(filepath.Join(dir, p.id)), removeGroup(dir))
	}
	return err
}

// removeGroup removes a group once its processes are gone.
func removeGroup(dir string) error {
	err := syscall.Rmdir(dir)
	for i := 0; err == syscall.EBUSY && i < 1000; i++ {
		time.Sleep(10 * time.Millisecond)
		err = syscall.Rmdir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

func copyProgram(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	// A shell writes it: a child that another goroutine is just starting would hold a file open for writing that we write, and it
	// couldn't be run.
	cmd := exec.Command("/bin/sh", "-c", `cat >"$0" && chmod +x "$0"`, to)
	cmd.Stdin = strings.NewReader(string(data))
	return cmd.Run()
}

// check compares the containers' series with the pods. None may be of a pod that ended before the last scan began; that one began
// after an earlier state if two scans were done since.
func (n *node) check(t *testing.T, metrics map[string]float64, now state, earlier []state) {
	t.Helper()
	var since time.Time
	for _, s := range earlier {
		if s.scans <= now.scans-2 {
			since = s.at
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, p := range n.pods {
		if !p.ended.IsZero() && p.ended.Before(since) {
			delete(n.pods, name)
		}
	}
	of := map[string]int{}
	for name := range metrics {
		if _, after, ok := strings.Cut(name, `pod="`); ok && strings.HasPrefix(name, "unthrottle_container_") {
			pod, _, _ := strings.Cut(after, `"`)
			of[pod]++
		}
	}
	for pod, series := range of {
		switch {
		case n.pods[pod] == nil:
			t.Errorf("the pod %s is gone, and has %d series", pod, series)
		case series > mostSeriesOfOne:
			t.Errorf("the pod %s has %d series", pod, series)
		}
	}
}

// startKubelet serves the list of the pods, and returns the host at which it does.
func (n *node) startKubelet(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/pods":
			http.NotFound(w, r)
		case r.Header.Get("Authorization") != "Bearer "+soakToken:
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{}, "items": n.list()})
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	host := fmt.Sprintf("127.64.%d.%d", rand.N(256), 1+rand.N(254)) // where no kubelet of this machine is
	l, err := net.Listen("tcp", net.JoinHostPort(host, kubeletPort))
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.Listener = l
	s.StartTLS()
	t.Cleanup(s.Close)
	return host
}

// list are the pods that are there, as a kubelet lists them.
func (n *node) list() []any {
	n.mu.Lock()
	defer n.mu.Unlock()
	type object = map[string]any
	items := []any{}
	for _, p := range n.pods {
		if !p.ended.IsZero() {
			continue
		}
		container := object{"name": "app", "image": "registry.example.com/web:1", "resources": object{"requests": object{"cpu": "10m"}}}
		if p.micros > 0 {
			container["resources"] = object{"requests": object{"cpu": "10m"}, "limits": object{"cpu": fmt.Sprintf("%dm", p.micros/100)}}
		}
		if p.gomaxprocs != "" {
			container["env"] = []any{object{"name": "GOMAXPROCS", "value": p.gomaxprocs}}
		}
		began := p.began.UTC().Format(time.RFC3339)
		items = append(items, object{
			"metadata": object{
				"namespace": "soak", "name": p.name, "uid": p.uid, "creationTimestamp": began, "labels": object{"pod-template-hash": "7d4b9c"},
				"annotations":     object{"unthrottle.dev/mute": p.muted},
				"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c", "controller": true}},
			},
			"spec": object{"nodeName": "soak", "containers": []any{container}},
			"status": object{"phase": "Running", "containerStatuses": []any{object{
				"name": "app", "containerID": "containerd://" + p.id, "image": "registry.example.com/web:1", "ready": true, "restartCount": 0,
				"imageID": "registry.example.com/web@sha256:" + p.id, "state": object{"running": object{"startedAt": began}},
			}}},
		})
	}
	return items
}

// inThirds divides a soak.
func inThirds(all []state) [3][]state {
	a, b := len(all)/3, len(all)*2/3
	return [3][]state{all[:a], all[a:b], all[b:]}
}

func medianMax(all []state, of func(state) float64) (median, most float64) {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2], values[len(values)-1]
}

// table prints the soak's figures as README.md has them.
func table(t *testing.T, all []state) {
	t.Helper()
	if len(all) < 3 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %v, median (most) of each third | first | middle | last |\n|---|---:|---:|---:|\n", *soak)
	for _, row := range []struct {
		name, format string
		of           func(state) float64
	}{
		{"memory", "%.1f (%.1f) MB", func(s state) float64 { return s.resident / 1e6 }},
		{"heap in use", "%.1f (%.1f) MB", func(s state) float64 { return s.heap / 1e6 }},
		{"files open", "%.0f (%.0f)", func(s state) float64 { return s.files }},
		{"files open, beside one for each Go program", "%.0f (%.0f)", state.beyond},
		{"Go programs", "%.0f (%.0f)", func(s state) float64 { return s.programs }},
		{"goroutines", "%.0f (%.0f)", func(s state) float64 { return s.goroutines }},
		{"series of containers", "%.0f (%.0f)", func(s state) float64 { return s.containers }},
		{"other series", "%.0f (%.0f)", func(s state) float64 { return s.other }},
		{"CPU, of a core", "%.1f (%.1f) %%", func(s state) float64 { return 100 * s.share }},
		{"a scan", "%.2f (%.2f) s", func(s state) float64 { return s.took }},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, third := range inThirds(all) {
			median, most := medianMax(third, row.of)
			fmt.Fprintf(&b, " "+row.format+" |", median, most)
		}
		b.WriteByte('\n')
	}
	last := all[len(all)-1]
	fmt.Fprintf(&b, "%v scans, of which %v were given up; %s", last.scans, last.late, runtime.Version())
	t.Log(b.String())
}
