package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Page is a page of net/http/pprof that takes its time.
type Page struct {
	path    string
	what    string // profile
	kind    string // CPU profile
	Example string // of a command line
	parts   bool   // it takes parts of a second
}

// The pages that take their time.
var (
	CPUProfile = Page{path: "/debug/pprof/profile", what: "profile", kind: "CPU profile", Example: "unthrottle profile cpu.pb.gz, or unthrottle profile http://localhost:6060/debug/pprof/profile"}
	Trace      = Page{path: "/debug/pprof/trace", what: "trace", kind: "trace", Example: "unthrottle trace trace.out, or unthrottle trace http://localhost:6060/debug/pprof/trace", parts: true}
)

// URL makes a URL from what names one; nil for a file. It completes host:port without a path, and a path that ends where pprof's pages
// begin.
func (p Page) URL(source string, seconds int, given bool) (*url.URL, error) {
	text := source
	if !strings.Contains(source, "://") {
		if _, err := os.Stat(source); err == nil || source == "-" {
			return nil, nil
		}
		address, _, _ := strings.Cut(source, "/")
		_, port, err := net.SplitHostPort(address)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return nil, nil
		}
		text = "http://" + source
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, hint.Usage(p.Example, "%q is not a URL: %w", source, errors.Unwrap(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, hint.Usage(p.Example, "%q does not begin with http:// or https:// and a host", source)
	}
	switch strings.TrimSuffix(u.Path, "/") {
	case "", path.Dir(p.path):
		u.Path = p.path
	}
	query := u.Query()
	if given || query.Get("seconds") == "" {
		query.Set("seconds", strconv.Itoa(seconds))
		u.RawQuery = query.Encode()
	}
	return u, nil
}

// Place is what a word of a command line names: a file that exists, a URL, or a process by its pid or name. A file that may be
// executed is the program and not its profile, so that its name means the process.
func (p Page) Place(source string, seconds int, given bool) (pid int, u *url.URL, err error) {
	info, missing := os.Stat(source)
	if source == "-" || missing == nil && info.Mode()&0o111 == 0 {
		return 0, nil, nil
	}
	if u, err = p.URL(source, seconds, given); u != nil {
		_, err = p.Time(u)
	}
	if u != nil || err != nil || strings.Contains(source, "/") {
		return 0, u, err
	}
	pid, err = procs.FindOne("", source)
	switch {
	case errors.Is(err, procs.ErrNone) && missing == nil:
		err = nil
	case errors.Is(err, procs.ErrNone):
		err = hint.With(fmt.Errorf("there is no file %q, and %w", source, err), p.Example)
	case runtime.GOOS != "linux" && procs.IsName(source):
		err = nil // no processes can be seen
	}
	return pid, nil, err
}

// At is the page of a program whose pprof is at base.
func (p Page) At(base *url.URL, seconds int) *url.URL {
	u := base.JoinPath(p.path)
	u.RawQuery = "seconds=" + strconv.Itoa(seconds)
	return u
}

// Time is how long the page of a URL takes.
func (p Page) Time(u *url.URL) (time.Duration, error) {
	text := u.Query().Get("seconds")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds <= 3600) || !p.parts && seconds != float64(int(seconds)) {
		return 0, hint.Usage("--for 10s", "seconds=%s in the URL is not within 1 and 3600", text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// patience is how long a server may take besides what was asked for: it is throttled, perhaps.
const patience = 30 * time.Second

// open asks for the page. What it returns must be closed.
func (p Page) open(ctx context.Context, far *Far, u *url.URL) (io.ReadCloser, error) {
	length, err := p.Time(u)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, length+patience)
	body, err := p.ask(ctx, far, u)
	if err != nil {
		cancel()
		return nil, err
	}
	return closer{body, cancel}, nil
}

// mostRedirects is how many redirects are followed, none of them to another host: a mux that adds a slash sends one.
const mostRedirects = 10

// closer ends the request with its answer.
type closer struct {
	io.ReadCloser
	cancel func()
}

func (c closer) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// ask asks for the page, and if the answer is something else says what can be done.
func (p Page) ask(ctx context.Context, far *Far, u *url.URL) (io.ReadCloser, error) {
	res, err := far.get(ctx, u, traceMost+1) // its reader says what is too much of which page
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		var elsewhere *web.Redirect
		if errors.As(err, &elsewhere) {
			return nil, p.failed(ctx, u, err, "give the address that it leads to, if that is the program's")
		}
		return nil, p.failed(ctx, u, err, "does the program run, and is this where its net/http/pprof listens?")
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 512))
	err = fmt.Errorf("answered %s%s", web.Said(res.Status), afterColon(string(text)))
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, p.failed(ctx, u, err, `the program has to import _ "net/http/pprof", and to serve http.DefaultServeMux there`)
	case strings.Contains(string(text), "already"):
		return nil, p.failed(ctx, u, err, "another client is taking a "+p.kind+" of it: there can be only one at a time")
	case strings.Contains(string(text), "WriteTimeout"):
		return nil, p.failed(ctx, u, err, "--for has to be less than the server's WriteTimeout")
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return nil, p.failed(ctx, u, err, "take it with curl, which can authenticate itself, and give the file")
	}
	return nil, p.failed(ctx, u, err)
}

// failed says what was being done. An interrupted request is not a failure of the server.
func (p Page) failed(ctx context.Context, u *url.URL, err error, hints ...string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	err = fmt.Errorf("taking a %s from %s: %w", p.what, u.Redacted(), err)
	if len(hints) == 0 {
		return err
	}
	return hint.With(err, hints...)
}

// afterColon is the first line of a server's text, quoted if it is not plain.
func afterColon(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" || strings.HasPrefix(line, "<") {
		return ""
	}
	return ": " + web.Said(line)
}
