// Package load answers: how long do users of an HTTP server wait at a given load? In goes a Plan: what to send, how
// often, for how long; out comes a Result with the latencies, counted from when each request was meant to be sent.
//
// That is what makes it honest. A generator that waits for an answer before it sends the next request sends fewer while
// the server stands still, and so never sees most of the standstill. Here the times at which requests are due are known
// beforehand (an open loop), whatever the server does, and a request that was due while the server stood still has
// waited since then. A closed loop is possible too: some want to know how much a server can do, and hey works like
// that.
//
// The package also reports whether it kept its own promise: a generator that is late has measured itself.
package load

import (
	"crypto/tls"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Plan is what to send, how often and for how long. With a Rate it is an open loop, else a closed one.
type Plan struct {
	Targets  []Target
	Rate     float64         // requests a second in all, on average; 0: a closed loop
	From     float64         // the rate at the beginning, from which it changes evenly to 2*Rate-From; 0: it stays the same
	Arrivals Arrivals        // how they are spread
	Burst    int             // how many are due at once, and then none for a while; 0: one
	Times    []time.Duration // of Recorded arrivals, from the start, in order
	Seed     uint64          // of the arrivals and the choice of targets
	Duration time.Duration   // 0: until Requests are sent
	Requests int64           // 0: until Duration is over; where both are given, what comes first
	WarmUp   time.Duration   // the same load before that, which is not counted
	Rush     int64           // how many of the warm-up's first requests come at once, as after a pause

	// Conns are the workers of a closed loop (0: 50), or the most connections that an open loop may have (0: 1000).
	Conns int
	// EachRate holds every worker of a closed loop to this many requests a second, as hey's -q does. 0: it does not.
	EachRate float64

	// Slack is how much later than due a request may be sent, and an answer be looked at, for the sake of doing several at once.
	// That is part of the latencies. The lean engine alone makes use of it, and only in an open loop in which a request or more
	// is due in that time. 0: each is sent when it is due.
	Slack time.Duration

	Grace  time.Duration // how long to wait at the end for requests that are open (0: the timeout)
	Step   time.Duration // of the time axis (0: 1 s; it doubles where there would be too many)
	Within time.Duration // what counts as good is a success within that time; 0: every success
	Client Client
	Each   func(*Sample) // called for every request that is done, one at a time; nil: not needed
	Phases bool          // fill in Sample.Phases

	Witnesses []Witness // none: it is not known when something else had the machine
}

// A Witness knows when something else than the server and the generator had the machine: its host, or other programs.
type Witness interface {
	// Ran reports whether they had it around a time. As long as that is not known, known is false.
	Ran(at time.Time) (ran, known bool)
	// Await waits until it is known, for some time at most.
	Await(at time.Time, most time.Duration)
}

// Arrivals are how the requests of an open loop are spread over time.
type Arrivals string

const (
	Poisson  Arrivals = "poisson"  // independent of each other, as users are
	Constant Arrivals = "const"    // evenly spaced
	Recorded Arrivals = "recorded" // as they once were
)

// A Target is one kind of request.
type Target struct {
	Method string // "": GET
	URL    string
	Header [][2]string
	Body   []byte
	Weight float64 // 0: 1
}

// A Client is how requests are sent.
type Client struct {
	Timeout       time.Duration // of one request, from when it is sent to the end of its answer; 0: none
	Redirects     int           // how many to follow to the same scheme, host and port; 0: a redirect is the answer
	NoKeepAlive   bool
	NoCompression bool        // don't ask for it
	HTTP2         HTTP2       // "": where TLS agrees on it
	Shared        int         // connections of HTTP/2 that requests share, as that many clients have; 0: one
	Proxy         string      // URL; "": none
	Unix          string      // path of the socket to connect to, regardless of the URL's host
	Host          string      // to ask for instead of the URL's
	TLS           *tls.Config // nil: Go's defaults
	Engine        Engine      // "": the lean one where the requests allow it
}

// HTTP2 says whether to use HTTP/2.
type HTTP2 string

const (
	HTTP2Auto  HTTP2 = ""
	HTTP2Never HTTP2 = "off"
	HTTP2Only  HTTP2 = "on" // over TLS, or with prior knowledge without it (h2c)
)

// An Engine is what speaks HTTP.
type Engine string

const (
	Any     Engine = ""
	Lean    Engine = "lean"     // our own HTTP/1.1, for plain http without proxy and redirects
	NetHTTP Engine = "net/http" // Go's

	// Goroutines is the lean one where there is no epoll, or where the process has other things to do: it leaves them their Ps.
	Goroutines Engine = "goroutines"
)

// A Sample is one request that is done. Times are since the start of what is counted.
type Sample struct {
	Target   int
	Intended time.Duration // when it was due; in a closed loop when its worker turned to it
	Ready    time.Duration // when the pacer turned to it
	CaughtUp bool          // it had been due before the pacer was done with the one before
	Sent     time.Duration // when a connection was there and its first byte could be written; -1: it never was
	Done     time.Duration // when the last byte of its answer was read, or it failed
	Status   int           // 0: no complete answer
	Bytes    int64         // of the answer's body
	Err      error         // why there is no complete answer, or its gRPC status
	Phases   Phases
}

// Response is how long the user waited.
func (s *Sample) Response() time.Duration { return s.Done - s.Intended }

// Service is how long the server took, as far as can be seen from here.
func (s *Sample) Service() time.Duration { return s.Done - s.Sent }

// FromReady is how long it took from when the server was, or should have been, asked: what the pacer was late by is not in it,
// but what a connection was waited for is.
func (s *Sample) FromReady() time.Duration { return s.Done - s.Ready }

// OK reports whether it was a success: a complete answer with a status below 400 and, for a gRPC call, the status OK.
func (s *Sample) OK() bool { return s.Err == nil && s.Status < 400 }

// Phases are what a request's time went into, where that is known. Connect, with Lookup in it, comes before the
// request is sent, and is 0 where a connection was used again.
type Phases struct {
	Connect, Lookup, Write, Wait, Read time.Duration
}

// A Result is what is known when the load has ended.
type Result struct {
	Plan    Plan
	Engine  Engine
	Began   time.Time
	Elapsed time.Duration // from the start to the last answer
	Sending time.Duration // from the start to the last request that was sent

	Planned              int64        // requests that were due
	Requests             int64        // that were counted, regardless of their outcome: those planned, unless the load was stopped
	Sent                 int64        // of them
	Good                 int64        // successes within Plan.Within
	Failed               int64        // without a complete answer, or with a status of 400 and more
	Errors               []ErrorCount // why there was no complete answer, most frequent first
	Timeouts, Unfinished int64        // of those without a complete answer: they count in the latencies with the time they had
	Unsent               int64        // of those unfinished: no connection was ever free for them
	Exhausted            int64        // of the errors: there was no descriptor or no port for them on this machine
	Refused              int64        // of the errors: nothing listened there
	NoHost               int64        // of the errors: the host's name was not known
	Hopeless             Hopeless     // all of them came to nothing
	Statuses             map[int]int64
	Bytes                int64

	// Nanoseconds. Response and Service are of the requests that were answered, or were given up waiting for; Lag, and its
	// two parts, of all that were sent.
	Response, Service, Lag *hdrhistogram.Histogram
	PacerLate              *hdrhistogram.Histogram // of Lag, what was our fault
	NoConnection           *hdrhistogram.Histogram // of Lag, what a connection was waited for

	// What is judged and compared. A request that failed, however fast, is slower than all others: it is not among the
	// Successes, which are responses, and in FromReady it has the time of FailedAs, or its own if that is longer.
	Successes, FromReady *hdrhistogram.Histogram
	CaughtUp             *hdrhistogram.Histogram // PacerLate of the samples that are so

	// Calm is FromReady of the requests that were due while the machine ran, as all witnesses say; nil without any. LeftOut are the others,
	// by the first witness that said so. What came of a request plays no part in that.
	Calm    *hdrhistogram.Histogram
	LeftOut []int64

	Axis []Step

	MostConns int   // at once
	AllConns  bool  // the most that were allowed were in use, and requests waited for one
	Opened    int64 // connections that were opened

	Elsewhere string // another host to which redirects led first, which were not followed; "": none did

	CPU      time.Duration // of the generator, while it sent
	Waited   time.Duration // for a CPU, all its threads; 0: not known
	CPUs     int           // that it may use
	Invalid  []string      // why the figures must not be trusted; nil: they can be
	OurFault bool          // and it is the generator's fault
	Stopped  bool          // ended before the plan was done
}

// An ErrorCount is a cause, and how often it was.
type ErrorCount struct {
	Text  string
	Count int64
}

// A Step is a piece of the time axis. Requests belong to the step in which they were due.
type Step struct {
	At, Length             time.Duration
	Sent, Failed           int64
	P50, P99, Max          time.Duration // of the response; 0: none
	ServiceP50, ServiceP99 time.Duration
	FromReadyP99           time.Duration // of Sample.FromReady, where what failed is slower than all others
	Calm                   int64         // requests that were due while the machine ran, with a Witness
	CalmP99                time.Duration // FromReadyP99 of these
}

// Live is what can be said while the load goes on.
type Live struct {
	Elapsed                     time.Duration
	Planned, Done, Failed, Open int64
	Conns                       int
	Rate                        float64 // requests done a second, since the last look
	Last                        Step    // the last whole step
}

// MethodOrGet is the method that is sent.
func (t *Target) MethodOrGet() string {
	if t.Method == "" {
		return "GET"
	}
	return t.Method
}

// WeightOrOne is the weight that counts.
func (t *Target) WeightOrOne() float64 {
	if t.Weight == 0 {
		return 1
	}
	return t.Weight
}

// FailedAs is the time that a failed request has among those that are compared: as long as a request may take.
func (p *Plan) FailedAs() time.Duration {
	if p.Client.Timeout == 0 {
		return time.Duration(longest)
	}
	return p.Client.Timeout
}

// FromReadyTail is a tail that is steadier than the p99 of all requests, which one bad moment can make: the geometric mean of the
// steps' p99s, weighted by how many requests were due in them. 0: nothing was sent.
func (r *Result) FromReadyTail() time.Duration {
	return r.tail(func(s Step) (int64, time.Duration) { return s.Sent, s.FromReadyP99 })
}

// CalmTail is the same of the requests that are in Calm.
func (r *Result) CalmTail() time.Duration {
	return r.tail(func(s Step) (int64, time.Duration) { return s.Calm, s.CalmP99 })
}

func (r *Result) tail(of func(Step) (int64, time.Duration)) time.Duration {
	sum, all := 0.0, 0.0
	for _, s := range r.Axis {
		if n, p99 := of(s); n > 0 {
			sum += float64(n) * math.Log(float64(max(1, p99)))
			all += float64(n)
		}
	}
	if all == 0 {
		return 0
	}
	return time.Duration(math.Exp(sum / all))
}

// Took is how long the load lasted: what was planned, or until the last answer where that came later or ended it.
func (r *Result) Took() time.Duration {
	if r.Stopped || r.Plan.Duration == 0 || r.Plan.Requests > 0 {
		return r.Elapsed
	}
	return max(r.Elapsed, r.Plan.Duration)
}
