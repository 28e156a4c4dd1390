package sidecar

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

var idA, idB = strings.Repeat("3f", 32), strings.Repeat("9c", 32)

func TestContainerID(t *testing.T) {
	for text, want := range map[string]string{
		"0::/../cri-containerd-" + idA + ".scope\n": idA,
		"0::/../crio-" + idA + ".scope\n":           idA,
		"0::/../../" + idA + "\n":                   idA,
		"0::/\n":                                    "",
		"4:cpu,cpuacct:/kubepods/burstable/pod0d11/" + idA + "\n1:name=systemd:/x/" + idA + "\n": idA,
		"0::/kubepods.slice/docker-" + idB + ".scope/kubepods/burstable/pod1/" + idA + "/init\n": idA, // kind: a node in a container
		"0::/kubepods/besteffort/pod5/" + idA + "0\n":                                            "",  // 65 digits
		"": "", "nonsense": "", "0:": "",
		idA: "",
	} {
		if got := ContainerID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzContainerID(f *testing.F) {
	f.Add("0::/../cri-containerd-" + idA + ".scope\n")
	f.Add("4:cpu:/kubepods/" + idA + "\n3:memory:/" + idB)
	f.Fuzz(func(t *testing.T, text string) {
		id := ContainerID(text)
		if id != "" && (len(id) != idLength || !strings.Contains(text, id)) {
			t.Errorf("%q gave %q", text, id)
		}
	})
}

func TestParseOwner(t *testing.T) {
	for _, test := range []struct {
		text     string
		uid, gid int
		ok       bool
	}{
		{"Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\n", 1001, 6, true},
		{"Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n", 0, 0, true},
		{"Uid:\t1000\t1001\t1002\t1003\n", 0, 0, false},
		{"Uid:\t-1\t-1\t-1\t-1\nGid:\t0\t0\t0\t0\n", 0, 0, false},
		{"", 0, 0, false},
	} {
		uid, gid, ok := parseOwner(test.text)
		if ok != test.ok || ok && (uid != test.uid || gid != test.gid) {
			t.Errorf("%q: %d, %d, %v", test.text, uid, gid, ok)
		}
	}
}

// lines are some a tenth of a second apart, in which a container uses half a CPU.
func lines(n int, change func(i int, c *Container)) (all []Line, begin time.Time) {
	begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		c := Container{ID: idA, Procs: 2, Counters: cgroup.Counters{
			Known: true, Periods: int64(i), Throttled: int64(i / 2), CPUKnown: true, CPU: time.Duration(i) * 50 * time.Millisecond,
		}, Ran: time.Second + time.Duration(i)*50*time.Millisecond, Waited: time.Duration(i) * 20 * time.Millisecond}
		if change != nil {
			change(i, &c)
		}
		all = append(all, Line{At: begin.Add(time.Duration(i) * 100 * time.Millisecond), Containers: []Container{{ID: idB}, c}})
	}
	return all, begin
}

func TestBetween(t *testing.T) {
	all, begin := lines(51, nil)
	s, err := Between(all, idA, begin.Add(950*time.Millisecond), begin.Add(3050*time.Millisecond))
	if err != nil || s.Between != 2*time.Second || s.Counters.CPU != time.Second || s.Counters.Periods != 20 || s.Counters.Throttled != 10 || s.Last.Procs != 2 || s.Waits != 0.4 {
		t.Errorf("got %+v, %v", s, err)
	}
	// What else is in the pod is reported, by its threads where its group may not be seen.
	for i := range all {
		all[i].Containers[0].Ran, all[i].Containers[0].Refused = time.Duration(i)*10*time.Millisecond, "it runs as user 1337"
		all[i].Containers = append(all[i].Containers, Container{ID: "c", Ran: time.Hour, Counters: cgroup.Counters{CPUKnown: true, CPU: time.Duration(i) * 30 * time.Millisecond}})
	}
	if s, err := Between(all, idA, begin.Add(950*time.Millisecond), begin.Add(3050*time.Millisecond)); err != nil || s.Used([]string{idB, "c", "none"}) != 800*time.Millisecond {
		t.Errorf("its sidecars: %v of %+v, %v", s.Used([]string{idB, "c"}), s, err)
	}
	// Where threads have ended, those that are left have run for less than there was.
	all[20].Containers[1].Ran = time.Millisecond
	if s, err := Between(all, idA, begin.Add(950*time.Millisecond), begin.Add(2*time.Second)); err != nil || s.Waits != 0 {
		t.Errorf("fewer threads: %+v, %v", s, err)
	}
	// A window of a tenth of a second has a line at most: those around it stand for it.
	s, err = Between(all, idA, begin.Add(1010*time.Millisecond), begin.Add(1120*time.Millisecond))
	if err != nil || s.Between != 110*time.Millisecond || s.Counters.CPU != 100*time.Millisecond {
		t.Errorf("a short window: %+v, %v", s, err)
	}
	for name, test := range map[string]struct {
		id     string
		change func(i int, c *Container)
		from   time.Duration
		why    string
		passes bool
	}{
		"another container": {strings.Repeat("0", 64), nil, 0, "none about this container", true},
		"refused":           {idA, func(_ int, c *Container) { c.Refused = "it runs as user 5" }, 0, "it runs as user 5", false},
		"too late":          {idA, func(i int, c *Container) { c.ID = map[bool]string{true: idA, false: "x"}[i > 30] }, 0, "stood still", true},
		"ended too early":   {idA, func(i int, c *Container) { c.ID = map[bool]string{true: idA, false: "x"}[i < 30] }, 0, "stood still", true},
		"another time":      {idA, nil, time.Hour, "none about this container", true},
	} {
		t.Run(name, func(t *testing.T) {
			all, begin := lines(51, test.change)
			_, err := Between(all, test.id, begin.Add(test.from), begin.Add(test.from+5*time.Second))
			var unseen *ErrUnseen
			if !errors.As(err, &unseen) || !strings.Contains(err.Error(), test.why) || unseen.Passes != test.passes {
				t.Errorf("got %v, want %q", err, test.why)
			}
		})
	}
}

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(`becoming user 7: operation not permitted
{"at":"2026-01-02T03:04:06Z","containers":[]}
{"at":"2026-01-02T03:04:05Z","containers":[{"id":"a","gomaxprocs":3}]}
{}
{"at":"2026-01-02T03:04:07Z","conta`))
	if err != nil || len(got) != 2 || got[0].At.Second() != 5 || got[0].Containers[0].Procs != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}
