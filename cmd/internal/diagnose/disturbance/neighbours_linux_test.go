package disturbance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// A place is a group of a test, and where v1 counts its CPU time if that is elsewhere.
type place struct {
	*kerneltest.Group
	apart string // "": it is not
}

// child makes one in g.
func (g place) child(t testing.TB, name string) place {
	c := place{Group: g.Child(name)}
	if g.apart != "" {
		c.apart = accounts(t, filepath.Join(g.apart, name))
	}
	return c
}

// accounts makes a group of a test where v1 counts CPU time.
func accounts(t testing.TB, dir string) string {
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := syscall.Rmdir(dir)
		for i := 0; err == syscall.EBUSY && i < 1000; i++ {
			time.Sleep(10 * ms)
			err = syscall.Rmdir(dir)
		}
		if err != nil {
			t.Errorf("removing %s: %v", dir, err)
		}
	})
	return dir
}

func top(t testing.TB) place {
	p := place{Group: kerneltest.New(t)}
	p.EnableCPU()
	if _, err := os.Stat(filepath.Join(p.Dir, "cpuacct.usage")); p.Version == cgroup.V1 && err != nil {
		_, _, mount, err := cgroup.Locate(cgroup.Source{}, "cpuacct")
		if err != nil {
			t.Skip(err)
		}
		p.apart = accounts(t, filepath.Join(mount.Point, filepath.Base(p.Dir)))
	}
	return p
}

// move moves a process here.
func (g place) move(t testing.TB, pid int) {
	for _, dir := range []string{g.Dir, g.apart} {
		if dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// burn starts a process here that uses a CPU, and returns what ends it.
func (g place) burn(t testing.TB) (pid int, end func()) {
	cmd := exec.Command("/bin/sh", "-c", `read go; while :; do :; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(end)
	g.move(t, cmd.Process.Pid)
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, end
}

// reader takes this place for the machine that a server is on.
func (g place) reader(t testing.TB, server int) *reader {
	t.Helper()
	r, err := open("", server)
	if err != nil {
		t.Fatal(err)
	}
	if g.Version == cgroup.V1 {
		r.groups = []string{g.Dir}
	} else {
		r.limits.Mount.Point = g.Dir // whose groups are listed
	}
	return r
}

// TestKernelNeighbour: a neighbour that uses a CPU is seen for as long as it does, and neither the server nor we are. The machine of this
// test is a group, since other programs use what is outside of it.
func TestKernelNeighbour(t *testing.T) {
	machine := top(t)
	server, beside, own := machine.child(t, "server"), machine.child(t, "beside"), machine.child(t, "own")
	server.SetQuota(80_000)
	back := cgroup.Read(cgroup.Source{}).Levels[0].Dir
	away := ""
	if own.apart != "" {
		dir, _, _, err := cgroup.Locate(cgroup.Source{}, "cpuacct")
		if err != nil {
			t.Fatal(err)
		}
		away = dir
	}
	t.Cleanup(func() { place{&kerneltest.Group{Dir: back}, away}.move(t, os.Getpid()) })
	own.move(t, os.Getpid())

	pid, _ := server.burn(t)
	r := machine.reader(t, pid)
	w, err := watchNeighbours(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	kerneltest.Burn(time.Second)
	alone := time.Now()
	w.Await(alone, 10*time.Second)
	if got := w.Between(began, alone); got.Count > 0 {
		t.Errorf("the server and we alone: %+v, %.2f CPUs", got, w.CPUs(began, alone))
	}
	if ran, known := w.Ran(began.Add(alone.Sub(began) / 2)); !ran || !known {
		t.Errorf("the server and we alone: %v, known: %v", ran, known)
	}

	_, end := beside.burn(t)
	beganBeside := time.Now()
	for w.Between(beganBeside, time.Now()).Lasted < time.Second/2 {
		if time.Since(beganBeside) > time.Minute {
			t.Fatal("a busy neighbour is not seen")
		}
		time.Sleep(slice)
	}
	end()
	ended := time.Now()
	w.Await(ended, 10*time.Second)
	seen, left := 0, 0
	for at := beganBeside; at.Before(ended); at = at.Add(ms) {
		if ran, known := w.Ran(at); known {
			if seen++; !ran {
				left++
			}
		}
	}
	if left == 0 || w.CPUs(beganBeside, ended) == 0 {
		t.Errorf("beside the neighbour %d of %d moments are left out, %.2f CPUs", left, seen, w.CPUs(beganBeside, ended))
	}
	quiet := ended.Add(100 * ms)
	w.Await(quiet, 10*time.Second)
	if ran, known := w.Ran(quiet); !ran || !known {
		t.Errorf("after the neighbour: %v, known: %v", ran, known)
	}
}

// TestKernelFamily: another server that the measuring program has started isn't a neighbour, whether it was there before or comes later.
func TestKernelFamily(t *testing.T) {
	machine := top(t)
	server := machine.child(t, "server")
	server.SetQuota(20_000)
	var others []place
	for _, name := range []string{"before", "later"} {
		g := machine.child(t, name)
		g.SetQuota(80_000)
		others = append(others, g)
	}
	pid, _ := server.burn(t)
	others[0].burn(t)
	r := machine.reader(t, pid)
	r.ours, r.outside = nil, true // we are not in that machine
	r.parent = os.Getpid()
	w, err := watchNeighbours(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	quiet := func(what string) {
		t.Helper()
		began := time.Now()
		time.Sleep(time.Second)
		end := time.Now()
		w.Await(end, 10*time.Second)
		if got := w.Between(began, end); got.Count > 0 || w.CPUs(began, end) > 0.01 {
			t.Errorf("%s: %+v, %.2f CPUs", what, got, w.CPUs(began, end))
		}
	}
	quiet("one that was there before")
	others[1].burn(t)
	for range 50 { // until the list of them has been read again
		began := time.Now()
		time.Sleep(familyEvery * slice)
		end := time.Now()
		if w.Await(end, 10*time.Second); w.Between(began, end).Count == 0 {
			break
		}
	}
	quiet("one that came later")
}

// TestKernelServerEnds: nothing is known of a group that is gone, and nothing is waited for.
func TestKernelServerEnds(t *testing.T) {
	machine := top(t)
	server := machine.child(t, "server")
	server.SetQuota(50_000)
	pid, end := server.burn(t)
	w, err := StartNeighbours(pid)
	if err != nil {
		t.Fatal(err)
	}
	end()
	for _, dir := range []string{server.Dir, server.apart} {
		if dir == "" {
			continue
		}
		for err := syscall.Rmdir(dir); err != nil; err = syscall.Rmdir(dir) {
			time.Sleep(ms)
		}
		if err := os.Mkdir(dir, 0o755); err != nil { // for the clean-up
			t.Fatal(err)
		}
	}
	w.Stop()
	w.Await(time.Now().Add(time.Hour), time.Minute)
	if _, known := w.Ran(time.Now()); known {
		t.Error("it knows what it can't have seen")
	}
	if _, err := StartNeighbours(pid); err == nil {
		t.Error("it looks at a server that has ended")
	}
}

// TestKernelClocks: the clock of another process goes on while that runs.
func TestKernelClocks(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for _, pid := range []int{0, cmd.Process.Pid} {
		first, err := cpuTime(pid)
		for now := first; now <= first && err == nil; now, err = cpuTime(pid) {
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := cpuTime(1 << 22); err == nil || !strings.Contains(err.Error(), "process 4194304") {
		t.Error(err)
	}
}

// BenchmarkReading is what is done every 20 ms.
func BenchmarkReading(b *testing.B) {
	server := top(b).child(b, "server")
	server.SetQuota(50_000)
	pid, _ := server.burn(b)
	r, err := open("", pid)
	if err != nil {
		b.Fatal(err)
	}
	defer r.close()
	for b.Loop() {
		r.read(time.Time{})
	}
}
