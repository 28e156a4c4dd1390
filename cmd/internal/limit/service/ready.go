package service

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Ready says when a server is ready. One of its fields is set; none: as soon as it has started.
type Ready struct {
	URL     string         // it answers with a status below 500
	Address string         // it takes connections there
	Line    *regexp.Regexp // it has written a line that matches
	After   time.Duration  // this long after its start
}

// ParseReady reads http://localhost:8080/healthz, 8080 or :8080 or localhost:8080, 2s, and takes anything else as a regular
// expression for a line of the output.
func ParseReady(text string) (Ready, error) {
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		if _, err := http.NewRequest(http.MethodGet, text, nil); err != nil {
			return Ready{}, fmt.Errorf("%q is not a URL: %w", text, err)
		}
		return Ready{URL: text}, nil
	}
	if host, port, err := net.SplitHostPort(text); err == nil || isPort(text) {
		if err != nil {
			port = text
		}
		if host == "" {
			host = "localhost"
		}
		if isPort(port) {
			return Ready{Address: net.JoinHostPort(host, port)}, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return Ready{}, fmt.Errorf("%q: a server is not ready before it starts", text)
		}
		return Ready{After: d}, nil
	}
	line, err := regexp.Compile(text)
	if err != nil || text == "" {
		return Ready{}, fmt.Errorf("%q is not a URL, port, time or regular expression", text)
	}
	return Ready{Line: line}, nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// port is where it should listen; 0: that is not said.
func (r Ready) port() int {
	text := r.URL
	if text == "" {
		text = "http://" + r.Address
	}
	u, err := url.Parse(text)
	if err != nil {
		return 0
	}
	return procs.Port(u)
}

// An answer is the status that was answered last; 0: none was.
type answer struct{ atomic.Int64 }

// take notes a status, and reports whether it is that of a server that is ready.
func (a *answer) take(status int) bool {
	if status > 0 {
		a.Store(int64(status))
	}
	return 0 < status && status < http.StatusInternalServerError
}

// fails reports whether the server answered with an error of its own, and not that it is not ready yet.
func (a *answer) fails() bool {
	status := a.Load()
	return status == http.StatusInternalServerError || status == http.StatusNotImplemented
}

// missing says what a server did not do so far.
func (r Ready) missing(seen *answer) string {
	switch status := seen.Load(); {
	case status >= http.StatusInternalServerError:
		return fmt.Sprintf("%s answers with status %d", r.URL, status)
	case r.URL != "":
		return r.URL + " did not answer with a status below 500"
	case r.Address != "":
		return "nothing listened on " + r.Address
	case r.Line != nil:
		return fmt.Sprintf("no line matched %q", r.Line)
	}
	return fmt.Sprintf("after %v", r.After)
}

// free checks that nothing is there yet: another process would answer in the server's place, and be measured.
func (r Ready) free(ctx context.Context, n *runner.Network) error {
	var taken bool
	switch {
	case r.URL != "":
		taken = answers(ctx, n, r.URL)
	case r.Address != "":
		taken = connects(ctx, n, r.Address)
	}
	if taken {
		return fmt.Errorf("something already answers at %s%s, before the server is started: is an old one still running?", r.URL, r.Address)
	}
	return nil
}

// await waits until a server is ready, and reports whether it is: false means that ctx was done first.
func (r Ready) await(ctx context.Context, n *runner.Network, output *tail, seen *answer) bool {
	if r.Line != nil {
		select {
		case <-output.matched:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if r.URL == "" && r.Address == "" {
		select {
		case <-time.After(r.After):
			return true
		case <-ctx.Done():
			return false
		}
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if r.URL != "" && seen.take(status(ctx, n, r.URL)) || r.Address != "" && connects(ctx, n, r.Address) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// line reports whether a line of the output is the one that is waited for.
func (r Ready) line(text []byte) bool { return r.Line != nil && r.Line.Match(text) }

const askFor = 5 * time.Second

func answers(ctx context.Context, n *runner.Network, url string) bool {
	return new(answer).take(status(ctx, n, url))
}

// status is that of an answer; 0: none.
func status(ctx context.Context, n *runner.Network, url string) int {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	res, err := get(ctx, n, url)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// Get asks a server here, and no other: without a proxy, wherever a redirect leads to, and on a connection that is not kept. No more is
// read of its answer than a page of metrics has.
func Get(ctx context.Context, url string) (*http.Response, error) { return get(ctx, nil, url) }

func get(ctx context.Context, n *runner.Network, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return web.New(web.Options{Redirects: web.Returned, Once: true, Dial: n.Dial}).Do(req)
}

func connects(ctx context.Context, n *runner.Network, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	c, err := n.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
