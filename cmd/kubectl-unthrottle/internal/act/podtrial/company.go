package podtrial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// This file has several pods of the server on one node at the same time. What one of them uses, and what sends it its load, is not a
// neighbour of the others but their company. How much that was is only known when all loads are over.

// A company is who runs on a node for one study.
type company struct {
	mu    sync.Mutex
	loads []*sending // of sessions that are open
}

// A sending is a load on its way to one of them.
type sending struct {
	to       *Session
	from     time.Time // when it began, warm-up included
	until    time.Time // zero: nothing came of it
	cpus     float64   // that its server with its sidecars, and its generator, used
	over     chan struct{}
	finished sync.Once
}

// Besides returns n servers, this one among them, whose pods may run on its node at the same time.
func (s *Server) Besides(n int) []*Server {
	if s.company == nil {
		s.company = &company{}
	}
	all := []*Server{s}
	for i := 2; i <= n; i++ {
		other := s.like(fmt.Sprintf("s%d-", i))
		other.company, other.Patience = s.company, noRoom
		all = append(all, other)
	}
	return all
}

// noRoom is how long a pod may wait for room next to another one. If there is room, it is there at once: what ran before has gone.
const noRoom = 10 * time.Second

// send notes that a load is about to be sent.
func (c *company) send(to *Session) *sending {
	s := &sending{to: to, over: make(chan struct{})}
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.loads = append(c.loads, s)
	}
	return s
}

// end lets the others know that a load is over.
func (s *sending) end() { s.finished.Do(func() { close(s.over) }) }

// leave forgets a session that ends.
func (c *company) leave(x *Session) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads = slices.DeleteFunc(c.loads, func(s *sending) bool { return s.to == x })
}

// mostApart is the share of a window that may be without a load on the others: below it they did not run at the same time.
const mostApart = 0.2

// used waits until the others' loads are over, and says what they used between two times. If they were hardly loaded then, that is too
// little to compare with.
func (c *company) used(ctx context.Context, own *sending, from, to time.Time) (used time.Duration, err error) {
	if c == nil {
		own.end()
		return 0, nil
	}
	c.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(c.loads), func(s *sending) bool { return s.to == own.to })
	c.mu.Unlock()
	own.end() // no sooner: they may leave once they know
	for _, o := range others {
		select {
		case <-o.over:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if o.until.IsZero() {
			continue // its sender says why
		}
		both := min(to.Sub(from), to.Sub(o.from), o.until.Sub(from), o.until.Sub(o.from))
		used += time.Duration(o.cpus * float64(max(0, both)))
		if apart := to.Sub(from) - max(0, both); err == nil && apart.Seconds() > mostApart*to.Sub(from).Seconds() {
			err = &trial.Unseen{Why: fmt.Sprintf("the loads did not run at the same time: %s of %s were without the other",
				quantity.Lasting(apart.Seconds()), quantity.Lasting(to.Sub(from).Seconds()))}
		}
	}
	return used, err
}

// Bound says what keeps another pod from running next to it.
func (x *Session) Bound() string { return x.Template.bound() }

func (t *Template) bound() string {
	if host, _ := t.Spec["hostNetwork"].(bool); host {
		return "its pods are in the node's network, where one has the port"
	}
	for _, v := range list(t.Spec, "volumes") {
		if path := text(v, "hostPath", "path"); path != "" && t.writes(text(v, "name")) {
			return "it may write to " + path + " of its node"
		}
	}
	return ""
}

// writes reports whether a container may write to a volume.
func (t *Template) writes(volume string) bool {
	for _, key := range []string{"containers", "initContainers"} {
		for _, c := range list(t.Spec, key) {
			for _, m := range list(c, "volumeMounts") {
				if readOnly, _ := m["readOnly"].(bool); text(m, "name") == volume && !readOnly {
					return true
				}
			}
		}
	}
	return false
}
