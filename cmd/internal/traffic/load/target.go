package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/h2"
)

// A request is a target made ready to be sent.
type request struct {
	target  *Target
	url     *url.URL
	method  string
	raw     []byte // as it goes over a plain connection
	network string // and where that goes
	address string
	again   bool // it may be sent twice: an idle connection can be closed by the server just as it is used
	header  http.Header
	h2      *h2.Request // as a call goes over a connection of HTTP/2; nil: it is none
}

const agent = "unthrottle-load"

func compile(p *Plan) ([]request, error) {
	if len(p.Targets) == 0 {
		return nil, errors.New("no target")
	}
	requests := make([]request, len(p.Targets))
	for i := range p.Targets {
		r, err := newRequest(&p.Targets[i], p.Client)
		if err != nil {
			return nil, err
		}
		requests[i] = r
	}
	return requests, nil
}

func newRequest(t *Target, c Client) (request, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return request{}, fmt.Errorf("reading the URL: %w", err)
	}
	_, badPort := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Port() != "" && badPort != nil:
		return request{}, fmt.Errorf("the URL %q has no port up to 65535", t.URL)
	case u.Scheme != "http" && u.Scheme != "https":
		return request{}, fmt.Errorf("the URL %q does not begin with http:// or https://", t.URL)
	case u.Hostname() == "":
		return request{}, fmt.Errorf("the URL %q names no host", t.URL)
	case t.Weight < 0 || t.Weight != t.Weight:
		return request{}, fmt.Errorf("bad weight %v", t.Weight)
	}
	r := request{target: t, url: u, method: t.Method, network: "tcp", address: hostPort(u), header: http.Header{}}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if c.Unix != "" {
		r.network, r.address = "unix", c.Unix
	}
	r.header.Set("User-Agent", agent)
	if !c.NoCompression {
		r.header.Set("Accept-Encoding", "gzip")
	}
	named := map[string]bool{} // what the target says replaces what we would say
	for _, h := range t.Header {
		name := textproto.CanonicalMIMEHeaderKey(h[0])
		if !named[name] {
			r.header.Del(name)
		}
		named[name] = true
		r.header.Add(name, h[1])
	}
	switch r.method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		r.again = true
	}
	sent, err := r.http(c)
	if err != nil {
		return request{}, err
	}
	var raw bytes.Buffer
	if err := sent.Write(&raw); err != nil {
		return request{}, fmt.Errorf("writing the request for %s: %w", t.URL, err)
	}
	r.raw = raw.Bytes()
	return r, nil
}

// http makes the request for net/http.
func (r *request) http(c Client) (*http.Request, error) {
	req, err := http.NewRequest(r.method, r.target.URL, bytes.NewReader(r.target.Body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header = r.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	if c.Host != "" {
		req.Host = c.Host
	}
	req.Close = c.NoKeepAlive
	return req, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// leanRefused returns why the lean engine can't be used; nil: it can.
func leanRefused(p *Plan, requests []request) error {
	switch c := p.Client; {
	case c.Proxy != "":
		return errors.New("a proxy is used")
	case c.Redirects > 0:
		return errors.New("redirects are followed")
	case c.HTTP2 == HTTP2Only && !calls(requests):
		return errors.New("HTTP/2 is asked for")
	case c.HTTP2 == HTTP2Only && (c.NoKeepAlive || p.EachRate > 0 || p.Phases):
		return errors.New("these options of HTTP/2 are net/http's alone")
	}
	for _, r := range requests {
		if r.url.Scheme != "http" && p.Client.HTTP2 != HTTP2Only {
			return fmt.Errorf("%s is not plain http", r.target.URL)
		}
		if r.address != requests[0].address {
			return fmt.Errorf("there is more than one server, %s and %s", requests[0].address, r.address)
		}
	}
	return nil
}

// ParseTargets reads a file of requests. Either each line is a JSON object,
//
//	{"method": "POST", "url": "http://…", "header": {"Name": ["value"]}, "body": "aGk=", "weight": 2}
//
// with a body in base64, or requests are separated by empty lines and written as vegeta has them:
//
//	POST http://…
//	Name: value
//	@body.json
//
// Both formats know comments, which begin with #. readFile reads the files of bodies.
func ParseTargets(data []byte, readFile func(string) ([]byte, error)) ([]Target, error) {
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	parse := parseText
	for _, line := range lines {
		if line != "" && line[0] != '#' {
			if line[0] == '{' {
				parse = parseJSON
			}
			break
		}
	}
	targets, err := parse(lines, readFile)
	if err == nil && len(targets) == 0 {
		err = errors.New("there is no request in it")
	}
	return targets, err
}

func parseJSON(lines []string, _ func(string) ([]byte, error)) (targets []Target, err error) {
	for i, line := range lines {
		if line == "" || line[0] == '#' {
			continue
		}
		var t struct {
			Method string              `json:"method"`
			URL    string              `json:"url"`
			Header map[string][]string `json:"header"`
			Body   []byte              `json:"body"`
			Weight float64             `json:"weight"`
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&t); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if t.URL == "" {
			return nil, fmt.Errorf("line %d has no url", i+1)
		}
		target := Target{Method: t.Method, URL: t.URL, Body: t.Body, Weight: t.Weight}
		for name, values := range t.Header {
			for _, v := range values {
				target.Header = append(target.Header, [2]string{name, v})
			}
		}
		targets = append(targets, target)
	}
	return targets, nil
}

func parseText(lines []string, readFile func(string) ([]byte, error)) (targets []Target, err error) {
	open := false // a request's lines go on
	for i, line := range lines {
		switch {
		case line == "":
			open = false
		case line[0] == '#':
		case !open:
			method, url, ok := strings.Cut(line, " ")
			if !ok {
				return nil, fmt.Errorf("line %d: %q is not a request such as GET http://localhost:8080/", i+1, line)
			}
			targets = append(targets, Target{Method: method, URL: strings.TrimSpace(url)})
			open = true
		case line[0] == '@':
			body, err := readFile(line[1:])
			if err != nil {
				return nil, fmt.Errorf("line %d: reading the body: %w", i+1, err)
			}
			targets[len(targets)-1].Body = body
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" {
				// Requests without fields may stand on lines that follow each other.
				if method, url, ok := strings.Cut(line, " "); ok && strings.ToUpper(method) == method {
					targets = append(targets, Target{Method: method, URL: strings.TrimSpace(url)})
					continue
				}
				return nil, fmt.Errorf("line %d: %q is not a header field", i+1, line)
			}
			if method, url, ok := strings.Cut(line, " "); ok && !strings.Contains(method, ":") && strings.ToUpper(method) == method {
				targets = append(targets, Target{Method: method, URL: strings.TrimSpace(url)})
				continue
			}
			t := &targets[len(targets)-1]
			t.Header = append(t.Header, [2]string{name, strings.TrimSpace(value)})
		}
	}
	return targets, nil
}
