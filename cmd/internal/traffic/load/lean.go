package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"
)

// A leanConn speaks HTTP/1.1 over a connection of its own, where there are no loops that do it: the pacer writes the request
// itself, so that no goroutine must be woken for it, and run is always there to read.
type leanConn struct {
	slot
	load    *Run
	nc      net.Conn // guarded by load.mu; nil: not connected
	used    bool     // an answer has come over nc
	again   bool     // the job was tried before, over a connection that the server had just closed
	wrote   atomic.Int64
	writing chan struct{} // closed when a request that is too large to be written at once is written; nil: it is not so large
	connect Phases
	answer  answer
	buf     []byte
}

const (
	readSize = 8 << 10
	// atOnce is a request that fits into the socket's buffer, which is empty between requests: writing it does not block.
	atOnce = 8 << 10
)

func (c *leanConn) request() *request { return &c.load.requests[c.job.request] }

// run does the slot's job and those that follow. Whenever it comes round there is a job and no connection.
func (c *leanConn) run() {
	c.buf = make([]byte, readSize)
	for {
		if err := c.dial(); err != nil {
			c.load.done(c, outcome{at: c.load.now(), err: err, phases: c.connect})
			if c.load.take(c, false) != work {
				return
			}
			continue
		}
		c.write()
		if !c.serve() {
			return
		}
	}
}

// dial connects to where a request goes.
func (r *Run) dial(req *request) (nc net.Conn, phases Phases, err error) {
	ctx := r.ctx
	if timeout := r.plan.Client.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	begin := r.now()
	var lookup atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone: func(httptrace.DNSDoneInfo) { lookup.Store(int64(r.now() - begin)) },
	})
	var d net.Dialer
	nc, err = d.DialContext(ctx, req.network, req.address)
	if err != nil && timedOut(err) {
		err = ErrTimeout
	}
	return nc, Phases{Connect: r.now() - begin, Lookup: time.Duration(lookup.Load())}, err
}

func (c *leanConn) dial() error {
	r := c.load
	nc, phases, err := r.dial(c.request())
	c.connect = phases
	if err != nil {
		return err
	}
	r.mu.Lock()
	c.nc = nc
	gone := r.over
	r.mu.Unlock()
	if gone {
		nc.Close()
		return ErrUnfinished
	}
	c.used = false
	r.opened.Add(1)
	r.connected(c)
	if timeout := r.plan.Client.Timeout; timeout > 0 {
		nc.SetReadDeadline(time.Now().Add(timeout))
	}
	return nil
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// start is write, called by the pacer.
func (c *leanConn) start() { c.write() }

// write sends the job's request. That it failed will be seen by the reader.
func (c *leanConn) write() {
	raw := c.request().raw
	if len(raw) <= atOnce {
		begin := c.load.now()
		c.nc.Write(raw)
		c.wrote.Store(int64(c.load.now() - begin))
		return
	}
	nc, written, begin := c.nc, make(chan struct{}), c.load.now()
	c.load.mu.Lock()
	c.writing = written
	c.load.mu.Unlock()
	go func() {
		nc.Write(raw)
		c.wrote.Store(int64(c.load.now() - begin))
		close(written)
	}()
}

// serve reads answers until the connection is gone. It reports whether there is a job by then.
func (c *leanConn) serve() (hasJob bool) {
	for {
		o, err := c.read()
		reusable := c.finishWriting()
		if err == nil {
			c.again = false
			c.load.done(c, o)
			c.connect = Phases{}
			if c.answer.close || !reusable {
				c.nc.Close()
				return c.load.take(c, false) == work
			}
			c.used = true
			switch c.load.take(c, true) {
			case work:
				c.write()
			case quit:
				c.nc.Close()
				return false
			}
			continue
		}
		c.nc.Close()
		if c.load.lost(c) {
			return false
		}
		if c.used && !c.again && !c.answer.begun() && c.request().again && err != ErrTimeout {
			c.again = true
			return true
		}
		c.again = false
		c.load.done(c, outcome{at: c.load.now(), bytes: c.answer.body, err: err})
		return c.load.take(c, false) == work
	}
}

// finishWriting waits for the writer of a large request, and reports whether the connection can be used again: a server
// may have answered before it had read everything, and that what is left would be taken for the next request.
func (c *leanConn) finishWriting() (reusable bool) {
	c.load.mu.Lock()
	written := c.writing
	c.writing = nil
	c.load.mu.Unlock()
	if written == nil {
		return true
	}
	select {
	case <-written:
		return true
	default:
	}
	c.nc.Close()
	<-written
	return false
}

var (
	errSurplus    = errors.New("the server sent more than its answer")
	errTruncated  = errors.New("the answer ends in the middle")
	errNoAnswer   = errors.New("the server closed the connection without an answer")
	errUnexpected = errors.New("the server sent something that was not asked for")
)

// read reads an answer, and before that waits for the connection to get a job.
func (c *leanConn) read() (o outcome, err error) {
	a, r := &c.answer, c.load
	a.reset(false)
	var first time.Duration // when the answer began
	var j job
	for {
		n, err := c.nc.Read(c.buf)
		if n > 0 {
			o.at = r.now()
			if !a.begun() && first == 0 {
				r.mu.Lock()
				busy := c.busy
				j = c.job
				r.mu.Unlock()
				if !busy {
					return o, errUnexpected
				}
				first = o.at
				a.head = r.requests[j.request].method == "HEAD"
			}
			used, err := a.feed(c.buf[:n])
			switch {
			case err != nil:
				return o, err
			case used < n:
				return o, errSurplus
			case a.state == done:
				return c.outcome(o.at, first, j), nil
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !c.moreTime() {
				return o, ErrTimeout
			}
		case err == io.EOF && a.eof():
			o.at = r.now()
			return c.outcome(o.at, first, j), nil
		case err == io.EOF && a.begun():
			return o, errTruncated
		case err == io.EOF:
			return o, errNoAnswer
		default:
			return o, err
		}
	}
}

func (c *leanConn) outcome(at, first time.Duration, j job) outcome {
	p := c.connect
	p.Write = time.Duration(c.wrote.Load())
	p.Wait, p.Read = max(0, first-j.sent-p.Write), at-first
	return outcome{at: at, status: c.answer.status, bytes: c.answer.body, phases: p}
}

// moreTime is asked when the connection's deadline has passed. The deadline is not moved for every request: it is at
// most as late as the job's own, and what is left of that is given now.
func (c *leanConn) moreTime() bool {
	r := c.load
	r.mu.Lock()
	busy, sent := c.busy, c.job.sent
	r.mu.Unlock()
	left := r.plan.Client.Timeout
	if busy {
		left -= r.now() - sent
	}
	if left <= 0 {
		return false
	}
	c.nc.SetReadDeadline(time.Now().Add(left))
	return true
}

// abort ends any wait.
func (c *leanConn) abort() {
	c.load.mu.Lock()
	nc := c.nc
	c.load.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}
