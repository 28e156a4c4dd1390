package tune

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// A placed world is one of several that are alike, each of which can run one server at a time.
type placed struct {
	*world
	t    *testing.T
	mu   sync.Mutex
	open int
	shot func() error // nil: all is well
}

type placedSession struct {
	*fakeSession
	p *placed
}

func (p *placed) Open(ctx context.Context, s lab.Setting, trace bool) (Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open++; p.open > 1 {
		p.t.Error("two servers at one place")
	}
	return &placedSession{&fakeSession{w: p.world, setting: s, trace: trace}, p}, nil
}

func (x *placedSession) Load(ctx context.Context, s trial.Shot) (trial.Window, error) {
	select {
	case <-time.After(s.WarmUp + s.Lasting):
	case <-ctx.Done():
		return trial.Window{}, ctx.Err()
	}
	if x.p.shot != nil {
		if err := x.p.shot(); err != nil {
			return trial.Window{}, err
		}
	}
	return x.answer(s), nil
}

func (x *placedSession) Close() lab.Run {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.p.open--
	return lab.Run{Seconds: 6, LimitKind: "fake", Metrics: map[string]float64{}}
}

// atPlaces does a study at that many places, and returns how long it took.
func atPlaces(t *testing.T, places int, plan Plan, prepare func(*world), shot func() error) (s *Study, j *keeper, took time.Duration, err error) {
	plan.Places = places
	s = newStudy(plan)
	j = &keeper{head: head(t, s)}
	l := Lab{Clock: time.Now, Record: j.record, Tell: j.tell, Foresee: func(float64) Foresight { return Foresight{Procs: 8, Why: "a test", GoDefault: 2} }}
	for i := range places {
		w := newWorld()
		if prepare != nil {
			prepare(w)
		}
		l.Places = append(l.Places, Place{fmt.Sprintf("n%d", i+1), &placed{world: w, t: t, shot: shot}})
	}
	l.Server = l.Places[0].Server
	begin := time.Now()
	err = s.Execute(t.Context(), l)
	for _, p := range l.Places {
		if n := p.Server.(*placed).open; n != 0 {
			t.Errorf("%d servers are left at %s", n, p.Name)
		}
	}
	return s, j, time.Since(begin), err
}

func head(t *testing.T, s *Study) []byte {
	t.Helper()
	var b journalLine
	if err := lab.WriteJournal(&b, s); err != nil {
		t.Fatal(err)
	}
	return b
}

type journalLine []byte

func (l *journalLine) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	return len(p), nil
}

// TestPlaces: at several places the runs, and what they give, are those of one; it takes less time, each block is at one place, and the
// journal is what a study that goes on can read.
func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		plan    Plan
		prepare func(*world)
	}{
		"a change":     {Plan{}, nil},
		"none better":  {Plan{}, flat},
		"many":         {Plan{All: true}, nil},
		"two rates":    {Plan{Shares: []float64{0.3, 0.65}}, nil},
		"with a lever": {Plan{GOGC: []int{400}}, func(w *world) { w.gc, w.live = 5, 1<<20 }},
		"explained":    {Plan{}, func(w *world) { w.gc, w.live = 50, 64<<20 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, _, alone, err := atPlaces(t, 1, test.plan, test.prepare, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, places := range []int{2, 3, 10} {
					several, j, took, err := atPlaces(t, places, test.plan, test.prepare, nil)
					if err != nil {
						t.Fatal(err)
					}
					if len(several.Runs) != len(one.Runs) {
						t.Fatalf("%d places: %d runs, at one %d", places, len(several.Runs), len(one.Runs))
					}
					for i, r := range several.Runs {
						if want := fmt.Sprintf("n%d", (r.Search.Block-1)%places+1); r.Place != want {
							t.Errorf("%+v at %s, want %s", r.Search, r.Place, want)
						}
						if other := one.Runs[i]; r.Search != other.Search || !reflect.DeepEqual(r.Metrics, other.Metrics) {
							t.Errorf("%d places:\n%+v\nat one\n%+v", places, r, other)
						}
					}
					if pilot := several.Pilot.Seconds; name != "explained" && took.Seconds()-pilot > 0.9*(alone.Seconds()-pilot) {
						t.Errorf("%d places: it took %v, at one %v", places, took, alone)
					}
					var all []byte
					for _, line := range append([][]byte{j.head}, j.lines...) {
						all = append(all, line...)
					}
					if read, _, err := Read(all); err != nil || len(read.Runs) != len(one.Runs) {
						t.Errorf("its journal: %v", err)
					}
				}
			})
		})
	}
}

// TestPlacesFail: if a run that was made before it was asked for fails, that is reported when it is asked for and fails again.
func TestPlacesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the node is lost")
		var mu sync.Mutex
		n := 0
		s, _, _, err := atPlaces(t, 3, Plan{}, nil, func() error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n > 20 {
				return lost
			}
			return nil
		})
		if !errors.Is(err, lost) || len(s.Runs) == 0 {
			t.Errorf("%d runs, %v", len(s.Runs), err)
		}
		for i, r := range s.Runs {
			if i > 0 && r.Search.Block < s.Runs[i-1].Search.Block || r.Search.Phase != search.Race {
				t.Errorf("%+v", r.Search)
			}
		}
	})
}
