package load

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// moody is a server that answers most requests, and with each of the others does something bad: closes the connection before or
// after, resets it, stalls, never answers, reads or writes slowly, says too much. answered counts what it has answered properly.
func moody(t *testing.T, answered *atomic.Int64) (url string) {
	const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	var seed atomic.Uint64
	return listen(t, func(c *net.TCPConn) {
		random := rand.New(rand.NewPCG(7, seed.Add(1)))
		r := bufio.NewReaderSize(c, 64)
		pause := func() { time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) }
		say := func(text string) bool { _, err := io.WriteString(c, text); return err == nil }
		if random.IntN(50) == 0 { // before any request
			return
		}
		for {
			slow := random.IntN(20) == 0
			if slow {
				c.SetReadBuffer(1024)
				pause()
			}
			if !readRequest(r) {
				return
			}
			good := true
			answered.Add(1)
			switch random.IntN(40) {
			case 0: // closes instead of answering
				answered.Add(-1)
				return
			case 1: // resets
				answered.Add(-1)
				c.SetLinger(0)
				return
			case 2: // in the middle
				answered.Add(-1)
				say(hello[:20+random.IntN(20)])
				return
			case 3: // closes after an answer, without saying so
				say(hello)
				return
			case 4: // stalls
				time.Sleep(30 * time.Millisecond)
				good = say(hello)
			case 5: // never answers
				answered.Add(-1)
				io.Copy(io.Discard, c)
				return
			case 6: // in pieces
				for i := 0; i < len(hello) && good; i += 7 {
					good = say(hello[i:min(i+7, len(hello))])
					pause()
				}
			case 7: // in chunks
				for _, piece := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chun", "ked\r\n\r\n5\r\nhel", "lo\r\n0\r\n", "\r\n"} {
					good = good && say(piece)
					pause()
				}
			case 8: // says too much
				say(hello + "and more")
				return
			case 9: // says something without being asked, which may be taken for the answer to the next request
				say(hello)
				pause()
				say("HTTP/1.1 408 Request Timeout\r\n\r\n")
				return
			case 10: // half closes, later
				good = say(hello)
				pause()
				c.CloseWrite()
			default:
				good = say(hello)
			}
			if !good {
				return
			}
		}
	})
}

// TestStress: a load ends whatever a server does, and each request that was planned was answered, has failed for a reason, or is counted as
// unfinished, once.
func TestStress(t *testing.T) {
	slowtest.Skip(t)
	body := []byte(strings.Repeat("x", 1<<20)) // more than the socket takes at once
	for name, p := range map[string]Plan{
		"open":               {Rate: 4000, Requests: 3000, Conns: 300},
		"open, few":          {Rate: 4000, Requests: 2000, Conns: 5},
		"open, warm-up":      {Rate: 3000, Duration: 500 * time.Millisecond, WarmUp: 200 * time.Millisecond, Conns: 100},
		"open, slack":        {Rate: 4000, Requests: 3000, Conns: 300, Slack: 500 * time.Microsecond},
		"open, two loops":    {Rate: 40_000, Requests: 4000, Conns: 300},
		"open, no patience":  {Rate: 4000, Requests: 2000, Conns: 5, Grace: time.Millisecond},
		"open, no timeout":   {Rate: 4000, Requests: 2000, Conns: 300, Grace: 300 * time.Millisecond, Client: Client{Timeout: -1}},
		"open, post":         {Rate: 300, Requests: 200, Conns: 100, Targets: []Target{{Method: "POST", Body: body}}},
		"closed":             {Requests: 2000, Conns: 100},
		"closed, for a time": {Duration: 300 * time.Millisecond, WarmUp: 50 * time.Millisecond, Conns: 70},
	} {
		t.Run(name, func(t *testing.T) {
			var answered atomic.Int64
			p.Client.Engine = Lean
			switch p.Client.Timeout {
			case 0:
				p.Client.Timeout = 50 * time.Millisecond
			case -1:
				p.Client.Timeout = 0
			}
			if p.Targets == nil {
				p.Targets = []Target{{}}
			}
			p.Targets = slices.Clone(p.Targets)
			p.Targets[0].URL = moody(t, &answered)
			p.Seed = 3
			samples := int64(0)
			p.Each = func(s *Sample) {
				if samples++; s.Sent >= 0 && s.Sent < s.Intended || s.Done < s.Ready || s.Ready < s.Intended {
					t.Errorf("due at %v, ready at %v, sent at %v, done at %v", s.Intended, s.Ready, s.Sent, s.Done)
				}
			}
			r := do(t, p)
			want := r.Planned
			if p.Rate > 0 {
				want = planned(p.Rate, p.Duration, p.Requests)
			} else if p.Requests > 0 {
				want = p.Requests
			}
			var errors, statuses int64
			for _, e := range r.Errors {
				errors += e.Count
			}
			for _, n := range r.Statuses {
				statuses += n
			}
			refused := r.Statuses[http.StatusRequestTimeout]
			tell := fmt.Sprintf("%d planned, %d counted, %d answered, %d failed, %d unfinished, %d unsent; %v",
				r.Planned, r.Requests, statuses, errors, r.Unfinished, r.Unsent, r.Errors)
			if r.Planned != want || r.Requests != want || samples != want || statuses+errors != want || r.Good != statuses-refused || r.Failed != errors+refused {
				t.Errorf("%d were to be planned, %d samples: %s", want, samples, tell)
			}
			if r.Good == 0 && p.Grace == 0 || r.Good > answered.Load() || r.Failed == 0 || r.MostConns > p.Conns {
				t.Errorf("the server says that it has answered %d, %d connections: %s", answered.Load(), r.MostConns, tell)
			}
			t.Log(tell)
		})
	}
}
