package podtrial

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// TestCompany: what other servers of the study use meanwhile is known once their loads are over; one that was loaded at another time
// doesn't match.
func TestCompany(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	for name, test := range map[string]struct {
		from, until float64 // of the other one, which uses half a CPU; both 0: nothing came of it
		used        time.Duration
		unseen      bool
	}{
		"the same time":  {-1, 10, 5 * time.Second, false},
		"it began later": {1, 11, 4500 * time.Millisecond, false},
		"it ended early": {-3, 8, 4 * time.Second, false},
		"much later":     {3, 13, 3500 * time.Millisecond, true},
		"another time":   {20, 30, 0, true},
		"it failed":      {0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &company{}
			x, y := &Session{}, &Session{}
			own, other := c.send(x), c.send(y)
			go func() {
				if test.until > 0 {
					other.from, other.until, other.cpus = at(test.from), at(test.until), 0.5
				}
				other.end()
				<-own.over
				c.leave(y)
			}()
			used, err := c.used(t.Context(), own, at(0), at(10))
			var unseen *trial.Unseen
			if used != test.used || errors.As(err, &unseen) != test.unseen || (err != nil) != test.unseen {
				t.Errorf("got %v, %v", used, err)
			}
		})
	}
	// An interrupted session does not wait, and no other waits for it.
	c := &company{}
	x, y := &Session{}, &Session{}
	own, other := c.send(x), c.send(y)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.used(ctx, own, at(0), at(10)); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if c.leave(x); len(c.loads) != 1 || c.loads[0] != other {
		t.Errorf("left are %v", c.loads)
	}
}

// TestBound: what two pods on a node would share is reported.
func TestBound(t *testing.T) {
	const pod = `{kind: Pod, metadata: {name: p}, spec: {SPEC containers: [{name: server, image: i, volumeMounts: [{name: d, mountPath: /d, readOnly: READ}]}]}}`
	for spec, want := range map[string][2]string{ // where it only reads, and where it may write
		"":                                    {"", ""},
		"volumes: [{name: d, emptyDir: {}}],": {"", ""},
		"volumes: [{name: d, hostPath: {path: /srv}}],": {"", "it may write to /srv of its node"},
		"hostNetwork: true,":                            {"its pods are in the node's network, where one has the port", "its pods are in the node's network, where one has the port"},
	} {
		for i, read := range []string{"true", "false"} {
			got := template(t, strings.NewReplacer("SPEC", spec, "READ", read).Replace(pod), "").bound()
			if got != want[i] {
				t.Errorf("%s, readOnly %s: %q", spec, read, got)
			}
		}
	}
}

// TestAtOnce: on a node with room, pods of several settings run at the same time, and the verdict is the same.
func TestAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(f *fake)
		inTurn  string // why they take turns; "": they don't
		others  float64
		most    int // pods at the same time; 0: 4
	}{
		"room":                  {prepare: func(f *fake) {}},
		"a little beside":       {prepare: func(f *fake) { f.others = 0.5 }, others: 0.5},
		"sidecars":              {prepare: func(f *fake) { f.sidecar = 0.3 }, most: 3},
		"busy sidecars":         {prepare: func(f *fake) { f.sidecar = 3 }, inTurn: "two of them take "},
		"others":                {prepare: func(f *fake) { f.others = 4 }, inTurn: "others used the CPUs while it was looked at", others: 4},
		"unseen":                {prepare: func(f *fake) { f.seesHost = false }, inTurn: "how long its threads wait for a CPU can't be seen"},
		"one after the other":   {prepare: func(f *fake) { f.apart = true }, inTurn: "a second one failed next to it: the loads did not run at the same time: "},
		"no room on the node":   {prepare: func(f *fake) { f.events["s2-run-1"], f.events["s2-run-2"] = forbidden, forbidden }, inTurn: "a second one failed next to it: the quota has no room for a trial"},
		"no room in the middle": {prepare: func(f *fake) { f.events["s2-run-3"] = forbidden }, inTurn: "one could not be run next to the others: the quota has no room for a trial"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.team()
			f.seesHost = true
			test.prepare(f)
			s, space, err := open(t, f)
			if err != nil {
				t.Fatal(err)
			}
			defer space.Close(context.Background())
			if _, err := s.Look(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			var sides []tune.Server
			for _, side := range s.Besides(4) {
				sides = append(sides, side)
			}
			study := tuned(t, f, s, sides)
			runs, err := study.Search(0)
			if err != nil {
				t.Fatal(err)
			}
			if v := runs.Verdict(); (v.Kind != search.Change || v.Leader.Procs != 2) && name != "others" {
				t.Errorf("%+v", v)
			}
			if why := study.InTurn(); !strings.HasPrefix(why, test.inTurn) || (why == "") != (test.inTurn == "") {
				t.Errorf("they take turns: %q", why)
			}
			together := 0
			for _, r := range study.Runs {
				if r.AtOnce > 1 {
					together++
				}
				if r.Error != "" || r.Others < test.others-0.1 || r.Others > test.others+0.1 {
					t.Errorf("%+v: %q, others used %v", r.Search, r.Error, r.Others)
				}
			}
			begun := test.inTurn == "" || name == "no room in the middle"
			if (together > 0) != begun || begun && f.abreast != cmp.Or(test.most, 4) {
				t.Errorf("%d runs were made beside others, %d pods at once", together, f.abreast)
			}
		})
	}
}

const forbidden = `Error creating: pods "x" is forbidden: exceeded quota: q, requested: limits.cpu=1`
