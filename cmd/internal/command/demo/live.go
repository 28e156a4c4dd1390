package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// liveEvery is how often the page gets news. More often would cost CPU and show no more.
const liveEvery = 500 * time.Millisecond

// A state is what the page shows. Each one that is sent has the cells since the one before.
type state struct {
	GOMAXPROCS int      `json:"gomaxprocs"`
	Most       int      `json:"most_procs"` // for the slider
	CPUs       int      `json:"cpus"`       // of the machine that may be used
	Limit      limit    `json:"limit"`
	First      int64    `json:"first"` // number of the first of the cells
	Cells      []cell   `json:"cells"`
	Summary    summary  `json:"summary"`
	Load       *figures `json:"load"` // null: none
	LoadNote   string   `json:"load_note"`
}

// A limit is the CPU limit in text form.
type limit struct {
	State  string   `json:"state"`
	CPUs   float64  `json:"cpus"`  // 0: none, or not known
	Short  string   `json:"short"` // "0.5 CPUs"
	Long   string   `json:"long"`  // "50 ms of CPU time in each 100 ms, set by …"
	Levels []level  `json:"levels"`
	Procs  int      `json:"procs"` // what unthrottle would set GOMAXPROCS to; 0: it would leave it unchanged
	Why    []string `json:"why"`
}

type level struct {
	Dir     string `json:"dir"`
	Quota   string `json:"quota"`
	InForce bool   `json:"in_force"`
}

// live streams the state as server-sent events.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if !s.watch.enter(s.o.MaxWatchers) {
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are open already", s.o.MaxWatchers))
		return
	}
	defer s.watch.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	news := time.NewTicker(liveEvery)
	defer news.Stop()
	for next := int64(0); ; {
		now := s.state(next)
		next = now.First + int64(len(now.Cells))
		if err := send(w, control, now); err != nil {
			return
		}
		select {
		case <-news.C:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
}

// send writes an event. A client that does not take it within some seconds is gone.
func send(w http.ResponseWriter, control *http.ResponseController, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = control.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: state\ndata: %s\n\n", data); err != nil {
		return err
	}
	return control.Flush()
}

func (s *Server) state(next int64) state {
	first, cells, newest, l := s.watch.since(next)
	now := state{GOMAXPROCS: runtime.GOMAXPROCS(0), CPUs: l.Affinity, First: first, Cells: cells, Summary: newest, Limit: describe(l)}
	if now.CPUs == 0 {
		now.CPUs = runtime.NumCPU()
	}
	now.Most = min(mostProcs(l.CPUs, now.CPUs), s.o.MaxProcs)
	now.Load, now.LoadNote = s.dial.figures()
	return now
}

// mostProcs is how far the slider goes: clearly beyond what makes sense, to see what that does.
func mostProcs(limit float64, cpus int) int { return max(8, 2*int(math.Ceil(limit))+2, cpus) }

func describe(l cgroup.Limits) limit {
	decision := unthrottle.Decide(l, unthrottle.Go)
	d := limit{State: l.State.String(), CPUs: l.CPUs, Procs: decision.Procs, Why: decision.Why(), Levels: []level{}}
	for _, at := range l.Levels {
		d.Levels = append(d.Levels, level{at.Dir, quotaText(at), l.From != "" && at.Dir == l.From})
	}
	switch l.State {
	case cgroup.Limited:
		d.Short, d.Long = quantity.CPUs(l.CPUs), "set by "+l.From
		if owner, ok := l.Owner(); ok {
			d.Long = quotaText(owner) + ", set by " + l.From
		}
	case cgroup.None:
		d.Short, d.Long = "none", "no cgroup from this process's own up to the root sets one"
	default:
		d.Short, d.Long = l.State.String(), "it could not be found out"
		if l.Reason != nil {
			d.Long = l.Reason.Error()
		}
	}
	return d
}

func quotaText(l cgroup.Level) string {
	switch {
	case l.Err != nil:
		return l.Err.Error()
	case l.Quota.QuotaMicros == 0:
		return "no limit"
	}
	return fmt.Sprintf("%s ms of CPU time in each %s ms", millis(l.Quota.QuotaMicros), millis(l.Quota.PeriodMicros))
}

func millis(micros int64) string {
	return fmt.Sprintf("%.4g", float64(micros)/1000)
}
