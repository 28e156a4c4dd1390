// Package agent answers: what do the Go programs of this node do, and whose are they? In go the node's processes, looked at
// repeatedly, and what a pods.Source knows about their containers. Out come a document with each Go program, what it counted since
// the scan before, and metrics of the containers; [Agent.Serve] answers for them over HTTP.
//
// The agent writes nothing but events of pods, if asked to, and starts nothing. It keeps what the last scan found and what the next one has
// to compare with, so that a container that is gone is forgotten at the next scan.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/permit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// Options say what an agent looks at.
type Options struct {
	Node          string
	Root          string        // below which the node's /proc and /sys are; "" is "/"
	Interval      time.Duration // between the beginnings of two scans
	For           time.Duration // how long a scan looks
	CPUs          float64       // that it may use on average; 0: as many as it takes
	Pods          pods.Source   // nil: none is asked, and containers have no names
	Unnamed       bool          // the reader of its document knows the containers: that they have no names is no trouble
	MaxContainers int           // that have metrics
	Guard         *permit.Guard // nil: anyone may ask
	Certificate   certs.Source  // nil: it answers without TLS
	PProf         bool
	Events        Recorder // of what is wrong now; nil: none is written
	Log           *slog.Logger
}

// An Agent looks at a node.
type Agent struct {
	o       Options
	began   time.Time
	metrics *collector
	latest  atomic.Pointer[Scan] // nil: there was none yet
	beat    atomic.Int64         // when the loop was last alive, in nanoseconds since began
	scans   atomic.Int64
	late    atomic.Int64

	mu     sync.Mutex // of what follows: scans come one after the other
	survey host.Survey
	memory memory
}

// A Scan is what one look at the node found.
type Scan struct {
	Doc        *result.Agent
	Containers []Container // that have metrics, by namespace, pod and name
	Dropped    int         // containers beyond the limit
	Known      bool        // the pods are known, and up to date
	Took       time.Duration

	stale   map[int]*rule.Stale    // programs, by pid
	encoded func() ([]byte, error) // the document as JSON, made when it is first asked for
}

// New makes an agent that has not looked yet.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{o: o, began: time.Now(), memory: newMemory(0)}
	a.metrics = newCollector(a)
	return a
}

// stretch is how many intervals the beginnings of two scans are apart at most.
const stretch = 4

// Run scans until ctx ends. A scan that takes longer than the interval, or the first one than four, is given up, and the next one
// begins an interval after it; where scans take more CPU time than the agent may use, they are farther apart: what a node is full of
// may make the agent blind, never busy.
func (a *Agent) Run(ctx context.Context) {
	said, missing := "", map[string]bool{}
	scans := make(chan *Scan, 1)
	if a.o.Events != nil {
		told := make(chan struct{})
		defer func() { close(scans); <-told }()
		go func() {
			defer close(told)
			e := newEvents(&a.o)
			for s := range scans {
				e.after(ctx, s.Doc, time.Now())
			}
		}()
	}
	var used time.Duration // when the last scan had ended; what the first one reads, it reads once
	for ctx.Err() == nil {
		began := time.Now()
		a.beat.Store(int64(time.Since(a.began)))
		within := a.o.Interval
		if a.Latest() == nil { // it reads what the others know by then, and until it is done there is no answer at all
			within *= stretch
		}
		limit, cancel := context.WithTimeout(ctx, within)
		found, err := a.Scan(limit)
		late := limit.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		if late {
			a.late.Add(1)
			err = fmt.Errorf("a scan was given up after %v, by --interval %v", within, a.o.Interval)
		}
		if text := errorText(err); text != said { // each trouble is reported once, and so is its end
			said = text
			if err != nil {
				a.o.Log.Error("scan", "error", err)
			} else {
				a.o.Log.Info("scan: all is well again")
			}
		}
		if found != nil {
			missing = a.tell(found.Doc.Problems, missing)
		}
		if found != nil && a.o.Events != nil {
			select {
			case scans <- found:
			default: // the API server keeps it waiting
			}
		}
		now := host.OwnTime()
		if used == 0 {
			used = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(a.o.pause(time.Since(began), now-used)):
		}
		used = now
	}
}

// tell logs what a scan could not see that the one before could; told has the texts of that one. A different number of affected
// programs doesn't make it another problem.
func (a *Agent) tell(problems []string, told map[string]bool) map[string]bool {
	now := map[string]bool{}
	for _, text := range problems {
		bare := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, text)
		if now[bare] = true; !told[bare] {
			a.o.Log.Warn("scan", "missing", text)
		}
	}
	return now
}

// pause is how long to wait for the next scan, after one that took so long. So much CPU time was used since the one before.
func (o *Options) pause(took, used time.Duration) time.Duration {
	pause := o.Interval - took
	if pause <= 0 {
		pause = o.Interval
	}
	if o.CPUs > 0 {
		pause = max(pause, min(time.Duration(float64(used)/o.CPUs), stretch*o.Interval)-took)
	}
	return pause
}

// Scan looks once, and keeps what it found as the latest.
func (a *Agent) Scan(ctx context.Context) (*Scan, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, err := a.scan(ctx)
	if err != nil {
		return nil, err
	}
	a.latest.Store(s)
	a.scans.Add(1)
	return s, nil
}

// Latest is what the last scan found, nil before the first.
func (a *Agent) Latest() *Scan { return a.latest.Load() }

// alive reports whether the loop goes on.
func (a *Agent) alive() bool {
	return time.Since(a.began)-time.Duration(a.beat.Load()) < 4*a.o.Interval+time.Minute
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
