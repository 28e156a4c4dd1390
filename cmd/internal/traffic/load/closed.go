package load

import "time"

// startWorkers begins a closed loop: every worker sends its next request when it has the answer to its last.
func (r *Run) startWorkers() {
	r.mu.Lock()
	workers := r.plan.Conns
	if n := r.plan.Requests; n > 0 && n < int64(workers) && r.plan.WarmUp == 0 {
		workers = int(n)
	}
	conns := make([]conn, workers)
	for i := range conns {
		conns[i] = r.newConn()
	}
	r.mu.Unlock()
	for _, c := range conns {
		go func() {
			defer r.running.Done()
			if r.takeTurn(c, false) == work {
				c.run()
			}
		}()
	}
	go func() {
		r.running.Wait()
		r.sent()
	}()
}

// takeTurn gives a worker its next request, once it is its turn.
func (r *Run) takeTurn(c conn, alive bool) next {
	s := c.own()
	due := r.now()
	if r.plan.EachRate > 0 {
		var ok bool
		if due, ok = r.awaitTick(s); !ok {
			return r.retire(c)
		}
	}
	r.mu.Lock()
	now := r.now()
	counted := now >= 0
	if r.over || r.allDue || now >= r.until || counted && r.plan.Requests > 0 && r.turn >= r.plan.Requests {
		r.mu.Unlock()
		return r.retire(c)
	}
	if counted {
		if r.turn == 0 {
			r.before = readUsage()
		}
		r.turn++
		r.planned++
	} else {
		due = now
	}
	r.open++
	r.give(c, job{request: r.choice.next(), due: due, ready: now, sent: -1}, alive)
	r.mu.Unlock()
	return work
}

// awaitTick holds a worker to its rate as hey does it: a clock ticks, a tick that comes while the worker is busy waits
// for it, and more are lost. So a slow server slows it for good. When the request was due by the rate is what it returns.
func (r *Run) awaitTick(s *slot) (due time.Duration, ok bool) {
	interval := time.Duration(float64(time.Second) / r.plan.EachRate)
	s.turn++
	due = time.Duration(s.turn)*interval - r.plan.WarmUp
	s.tick = max(s.tick+1, int64((r.now()+r.plan.WarmUp)/interval))
	at := min(time.Duration(s.tick)*interval-r.plan.WarmUp, r.until)
	if wait := at - r.now(); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.ctx.Done():
			return 0, false
		}
	}
	return due, true
}

// retire lets a worker go home.
func (r *Run) retire(c conn) next {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	return quit
}
