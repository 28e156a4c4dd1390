package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// A dial puts the server under load, from inside: one load at a time, and only while someone watches. What the load costs, the server pays,
// as both are one process; the page says so.
type dial struct {
	o     Options
	watch *watch
	start func(context.Context, load.Plan) (running, error)

	change sync.Mutex // held while the load is changed, which includes waiting for the end of the one before

	mu    sync.Mutex
	now   *going
	note  string // how the last load ended, if it was not asked to
	ended bool
}

// running is a *load.Run.
type running interface {
	Live() load.Live
	Wait() *load.Result
}

// A wish is the load that is wanted. Rate 0 is none.
type wish struct {
	Rate float64 `json:"rate"`
	Path string  `json:"path"`
}

// going is a load that goes on.
type going struct {
	wish
	run    running
	cancel func()
	done   chan struct{}
	began  time.Time

	window window
	cpu    time.Duration // of this process at the last look
	count  int64         // requests that were done by then
	seen   figures
}

// figures are what is seen of a load, at the last look. Times are in seconds; 0 means that none was measured.
type figures struct {
	wish
	Elapsed       float64 `json:"elapsed"`
	DoneRate      float64 `json:"done_rate"`
	Done          int64   `json:"done"`
	Failed        int64   `json:"failed"`
	Open          int64   `json:"open"`
	ResponseP50   float64 `json:"response_p50"`
	ResponseP99   float64 `json:"response_p99"`
	ServiceP50    float64 `json:"service_p50"`
	ServiceP99    float64 `json:"service_p99"`
	CPUPerRequest float64 `json:"cpu_per_request"`
	PacerLate     float64 `json:"pacer_late"` // the worst
}

func (s *Server) getLoad(w http.ResponseWriter, _ *http.Request) {
	f, note := s.dial.figures()
	answer(w, struct {
		Load *figures `json:"load"` // null: none
		Note string   `json:"note"`
	}{f, note})
}

func (s *Server) postLoad(w http.ResponseWriter, r *http.Request) {
	// A body that does not come must not hold the connection for ever. The error occurs in tests, which have no such deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(5 * time.Second))
	asked, err := s.parseWish(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	local, err := localAddr(r)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	if err := s.dial.set(asked, "http://"+local.String()); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, asked)
}

// parseWish reads {"rate": 100, "path": "/work?cpu=5ms"}.
func (s *Server) parseWish(body io.Reader) (wish, error) {
	var asked wish
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return asked, fmt.Errorf(`load: want {"rate": 100, "path": "/work?cpu=5ms"}: %w`, err)
	}
	if asked.Rate < 0 || asked.Rate > s.o.MaxRate {
		return asked, fmt.Errorf("rate: %v is not between 0 and %v requests a second", asked.Rate, s.o.MaxRate)
	}
	if asked.Rate == 0 {
		return wish{}, nil
	}
	return asked, s.checkPath(asked.Path)
}

// checkPath allows the load to ask for what costs CPU, within the bounds that everybody has.
func (s *Server) checkPath(path string) error {
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("path: %q is not a path such as /work?cpu=5ms", path)
	}
	if n, ok := strings.CutPrefix(u.Path, "/isPrime/"); ok {
		_, err := s.parseN(n)
		return err
	}
	if u.Path != "/work" {
		return fmt.Errorf("path: %q is neither /work nor /isPrime/N", path)
	}
	_, err = s.parseJob(u.RawQuery)
	return err
}

// set ends the load that goes on, and starts another.
func (d *dial) set(asked wish, base string) error {
	d.change.Lock()
	defer d.change.Unlock()
	d.finish("")
	if asked.Rate == 0 {
		return nil
	}
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock()
	if ended {
		return errors.New("the server is about to end")
	}
	d.watch.touch() // it samples, and so looks, as long as there is a load
	return d.begin(asked, base)
}

func (d *dial) begin(asked wish, base string) error {
	g := &going{wish: asked, done: make(chan struct{}), began: time.Now()}
	g.seen.wish = asked
	g.cpu = procs.OwnCPU()
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	run, err := d.start(ctx, load.Plan{
		Targets:  []load.Target{{URL: base + asked.Path}},
		Rate:     asked.Rate,
		Arrivals: load.Poisson,
		Seed:     uint64(g.began.UnixNano()),
		Duration: d.o.MaxLoad,
		Conns:    d.o.MaxOpen,
		Step:     time.Second,
		Each:     g.window.add,
		Client:   load.Client{Timeout: 30 * time.Second, Engine: load.Goroutines}, // GOMAXPROCS is what is on show
	})
	if err != nil {
		cancel()
		return err
	}
	g.run = run
	d.mu.Lock()
	d.now = g
	d.mu.Unlock()
	go d.wait(g)
	return nil
}

// wait waits for the end of a load.
func (d *dial) wait(g *going) {
	g.run.Wait()
	g.cancel()
	d.mu.Lock()
	if d.now == g { // nothing else has ended it
		d.now, d.note = nil, fmt.Sprintf("The load has ended after %v, as every load here does.", d.o.MaxLoad)
	}
	d.mu.Unlock()
	close(g.done)
}

// finish ends the load, if there is one, and leaves a note.
func (d *dial) finish(note string) {
	d.mu.Lock()
	g := d.now
	d.now, d.note = nil, note
	d.mu.Unlock()
	if g != nil {
		g.cancel()
		<-g.done
	}
}

// desert ends a load that no one watches.
func (d *dial) desert() {
	d.change.Lock()
	defer d.change.Unlock()
	if d.watch.deserted() {
		d.finish("The load has ended because no one was watching.")
	}
}

// end ends the load for good.
func (d *dial) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.change.Lock()
	defer d.change.Unlock()
	d.finish("")
}

// A window is the requests that were done since it was last looked at. The load's own time axis uses when they were due, and has nothing to
// show for the last second when answers take longer than that.
type window struct {
	mu                sync.Mutex
	response, service []time.Duration
	late              time.Duration // of the pacer, at most
}

func (w *window) add(s *load.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = max(w.late, s.Ready-s.Intended)
	if s.Err == nil {
		w.response = append(w.response, s.Response())
		w.service = append(w.service, s.Service())
	}
}

// empty puts what is in the window into figures.
func (w *window) empty(f *figures) {
	w.mu.Lock()
	response, service := w.response, w.service
	f.PacerLate = w.late.Seconds()
	w.response, w.service, w.late = nil, nil, 0
	w.mu.Unlock()
	f.ResponseP50, f.ResponseP99 = medianAndP99(response)
	f.ServiceP50, f.ServiceP99 = medianAndP99(service)
}

// medianAndP99 are in seconds; 0 means that none was measured. It sorts what it is given.
func medianAndP99(all []time.Duration) (median, p99 float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	at := func(percent int) float64 { return all[(len(all)*percent+99)/100-1].Seconds() }
	return at(50), at(99)
}

// look takes the figures again. It is called about once a second.
func (d *dial) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.now
	if g == nil {
		return
	}
	live := g.run.Live()
	cpu := procs.OwnCPU()
	f := figures{
		wish: g.wish, Elapsed: live.Elapsed.Seconds(),
		DoneRate: live.Rate, Done: live.Done, Failed: live.Failed, Open: live.Open,
	}
	g.window.empty(&f)
	if done := live.Done - g.count; done > 0 {
		f.CPUPerRequest = (cpu - g.cpu).Seconds() / float64(done)
	}
	g.cpu, g.count, g.seen = cpu, live.Done, f
}

// figures returns what was seen at the last look, nil when there is no load, and then perhaps why.
func (d *dial) figures() (*figures, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		return nil, d.note
	}
	f := d.now.seen
	return &f, ""
}
