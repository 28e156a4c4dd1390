package program

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"time"
)

const (
	agentRate      = 12000 // events a second unless --rate is given
	agentMaxRate   = 1000000
	agentTick      = time.Millisecond       // the source sleeps at least this long, as a timer or a network poll would have it
	agentFlush     = 100 * time.Millisecond // how often the aggregates go to the writer
	agentShards    = 8                      // goroutines that aggregate, each its part of the keys
	agentInFlight  = 4096                   // events being received at a time: a process that can't keep up must not grow
	agentMessages  = 1024                   // distinct messages, sent repeatedly
	classicRequest = 12000                  // the figure is the CPU time for this many events
)

// runAgent measures what events cost that arrive at a fixed rate, far below what the CPUs could do: a telemetry agent in
// small. The events are messages of some 150 bytes. Each is decoded by a goroutine of its own, goes to one of a few
// goroutines that aggregate, and ten times a second what they have goes to one that encodes it. The heap is small, so
// the collector runs a few times a second.
//
// There is never much to do, and it is done at once. What is measured is what comes with it: threads that are woken,
// look for work and find none, and collector workers on every idle P. Those costs grow with GOMAXPROCS; the work does not.
func runAgent(o options) (Result, error) {
	messages := agentInput()
	if _, err := serveEvents(messages, newPace(o.rate, warmUp)); err != nil {
		return Result{}, err
	}
	p := newPace(o.rate, o.window)
	m := startMeter()
	got, err := serveEvents(messages, p)
	r := m.stop(p.total)
	if err != nil {
		return r, err
	}
	if want := expected(messages, p.total); got != want {
		return r, fmt.Errorf("the aggregates are %+v, want %+v", got, want)
	}
	if r.CPUSeconds == nil {
		return r, errors.New("this system does not report a process's CPU time")
	}
	delete(r.Metrics, "ns/op") // the pace, not a cost
	r.Metrics["cpu-s/12k-events"] = *r.CPUSeconds * classicRequest / float64(p.total)
	r.Metrics["events/s"] = float64(p.total) / r.Seconds
	return r, nil
}

// A pace says when events arrive: event i, counted from 0, at i/rate seconds. Late events are caught up with, so the
// number of events does not depend on how fast they are processed.
type pace struct {
	rate  int64
	total int64
}

func newPace(rate int, window time.Duration) pace {
	p := pace{rate: int64(rate)}
	if p.total = p.before(window); p.total == 0 {
		p.total = 1
	}
	return p
}

// before returns how many events fit into d. Seconds and the rest are reckoned apart, so that nothing overflows.
func (p pace) before(d time.Duration) int64 {
	return int64(d/time.Second)*p.rate + int64(d%time.Second)*p.rate/int64(time.Second)
}

// due returns how many events have arrived when the time elapsed has gone by.
func (p pace) due(elapsed time.Duration) int64 {
	if n := p.before(elapsed) + 1; n < p.total {
		return n
	}
	return p.total
}

// arrival returns when event i arrives.
func (p pace) arrival(i int64) time.Duration {
	return time.Duration(i/p.rate)*time.Second + time.Duration((i%p.rate*int64(time.Second)+p.rate-1)/p.rate)
}

// wait returns how long to sleep before the event next.
func (p pace) wait(elapsed time.Duration, next int64) time.Duration {
	if d := p.arrival(next) - elapsed; d > agentTick {
		return d
	}
	return agentTick
}

// An event is a decoded message.
type event struct {
	service, resource string
	micros            uint64
	failed            bool
	tags              map[string]string
}

// aggregate is what is kept of the events of one key. It is a sum, so that the order of events does not matter.
type aggregate struct {
	Events int64  `json:"events"`
	Errors int64  `json:"errors"`
	Micros uint64 `json:"micros"`
	Tags   int64  `json:"tags"`
}

func (a *aggregate) count(e *event) {
	a.Events++
	a.Micros += e.micros
	a.Tags += int64(len(e.tags))
	if e.failed {
		a.Errors++
	}
}

func (a *aggregate) merge(b aggregate) {
	a.Events += b.Events
	a.Errors += b.Errors
	a.Micros += b.Micros
	a.Tags += b.Tags
}

type batch map[string]*aggregate

// serveEvents sends events at their pace through the agent, and returns the sum of what came out at its other end.
func serveEvents(messages [][]byte, p pace) (aggregate, error) {
	var shards [agentShards]chan *event
	batches := make(chan batch)
	var aggregating sync.WaitGroup
	for i := range shards {
		shards[i] = make(chan *event, 64)
		aggregating.Add(1)
		go func(in <-chan *event) {
			defer aggregating.Done()
			aggregateEvents(in, batches)
		}(shards[i])
	}
	type outcome struct {
		sum aggregate
		err error
	}
	written := make(chan outcome, 1)
	go func() {
		sum, err := writeBatches(batches)
		written <- outcome{sum, err}
	}()

	wrong := make(chan error, 1) // the first that could not be decoded
	places := make(chan struct{}, agentInFlight)
	receive := func(message []byte) {
		e, err := decode(message)
		if err == nil {
			h := fnv.New32a()
			io.WriteString(h, e.service)
			shards[h.Sum32()%agentShards] <- e
		} else {
			select {
			case wrong <- err:
			default:
			}
		}
		<-places
	}
	start := time.Now()
	for sent := int64(0); sent < p.total; {
		for due := p.due(time.Since(start)); sent < due; sent++ {
			places <- struct{}{}
			go receive(messages[sent%int64(len(messages))])
		}
		if sent < p.total {
			time.Sleep(p.wait(time.Since(start), sent))
		}
	}
	for i := 0; i < agentInFlight; i++ {
		places <- struct{}{} // all places are free: every event has been handed on
	}
	for _, s := range shards {
		close(s)
	}
	aggregating.Wait()
	close(batches)
	out := <-written
	select {
	case out.err = <-wrong:
	default:
	}
	return out.sum, out.err
}

// aggregateEvents sums up events by service, resource and status, and hands on what it has from time to time and at the
// end.
func aggregateEvents(in <-chan *event, out chan<- batch) {
	ticker := time.NewTicker(agentFlush)
	defer ticker.Stop()
	now := batch{}
	for {
		select {
		case e, ok := <-in:
			if !ok {
				out <- now
				return
			}
			key := e.service + "|" + e.resource + "|" + e.tags["status"]
			if now[key] == nil {
				now[key] = &aggregate{}
			}
			now[key].count(e)
		case <-ticker.C:
			out <- now
			now = batch{}
		}
	}
}

// writeBatches encodes what comes, as if to send it on, and returns the sum.
func writeBatches(in <-chan batch) (aggregate, error) {
	var sum aggregate
	var failed error
	for b := range in {
		if err := json.NewEncoder(io.Discard).Encode(b); err != nil && failed == nil {
			failed = fmt.Errorf("encoding a batch: %w", err)
		}
		for _, a := range b {
			sum.merge(*a)
		}
	}
	return sum, failed
}

// agentInput makes the messages, the same each time.
func agentInput() [][]byte {
	messages := make([][]byte, agentMessages)
	for i := range messages {
		e := event{
			service:  fmt.Sprintf("service-%d", i%23),
			resource: fmt.Sprintf("GET /api/v1/resource/%d", i%7),
			micros:   uint64(100 + i*7919%50000),
			failed:   i%50 == 0,
			tags: map[string]string{
				"status": []string{"200", "204", "404"}[i%3], "host": fmt.Sprintf("host-%d", i%11),
				"env": "production", "region": "north-1", "version": "1.2.3",
			},
		}
		messages[i] = encode(&e)
	}
	return messages
}

// expected is what n events add up to.
func expected(messages [][]byte, n int64) aggregate {
	var all aggregate
	for i, message := range messages {
		e, err := decode(message)
		if err != nil {
			continue // serveEvents reports it
		}
		var one aggregate
		one.count(e)
		times := n / int64(len(messages))
		if int64(i) < n%int64(len(messages)) {
			times++
		}
		all.merge(aggregate{one.Events * times, one.Errors * times, one.Micros * uint64(times), one.Tags * times})
	}
	return all
}

// A message is the service and the resource, each a length and its bytes, the duration, 1 for an error or 0, the number of
// tags, and their names and values. Numbers are varints.

func encode(e *event) []byte {
	text := func(to []byte, s string) []byte { return append(appendUvarint(to, uint64(len(s))), s...) }
	m := text(text(nil, e.service), e.resource)
	m = appendUvarint(m, e.micros)
	failed := uint64(0)
	if e.failed {
		failed = 1
	}
	m = appendUvarint(appendUvarint(m, failed), uint64(len(e.tags)))
	for name, value := range e.tags {
		m = text(text(m, name), value)
	}
	return m
}

// appendUvarint is binary.AppendUvarint, which came after Go 1.18.
func appendUvarint(to []byte, v uint64) []byte {
	var buf [binary.MaxVarintLen64]byte
	return append(to, buf[:binary.PutUvarint(buf[:], v)]...)
}

func decode(message []byte) (*event, error) {
	r := reader{rest: message}
	e := &event{service: r.text(), resource: r.text(), micros: r.number(), failed: r.number() == 1}
	tags := r.number()
	e.tags = make(map[string]string)
	for i := uint64(0); i < tags && !r.bad; i++ {
		name := r.text()
		e.tags[name] = r.text()
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("bad message %q", message)
	}
	return e, nil
}

// A reader takes a message apart, and remembers that it could not.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
