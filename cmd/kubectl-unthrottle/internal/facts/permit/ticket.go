package permit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
)

// Reader is the service account in the agents' namespace that people ask as: anyone who may make a token for it may read what agents say.
const Reader = "unthrottle-reader"

const (
	ticketLife  = 10 * time.Minute // the shortest possible
	ticketSpare = 2 * time.Minute
)

// proxied is the path of a request to a pod that speaks TLS, through the API server's proxy.
var proxied = regexp.MustCompile(`^(.*/api/v1/namespaces/)([a-z0-9-]+)/pods/https:[^/]+/proxy/`)

// Tickets gives requests to agents through the API server's proxy what agents ask for. The user's own token never goes to a pod: the
// API server makes another one for it, of an account that may do nothing else, for Audience alone, and for ten minutes.
//
// Where there is no such account the request goes unchanged; where the user may not make such a token, the API server's refusal is
// the answer.
func Tickets(next http.RoundTripper) http.RoundTripper {
	return &tickets{next: next, now: time.Now, all: map[string]ticket{}}
}

type tickets struct {
	next http.RoundTripper
	now  func() time.Time

	mu  sync.Mutex
	all map[string]ticket // by namespace
}

// A ticket is a token; "": none can be had.
type ticket struct {
	token string
	until time.Time
}

// RoundTrip sends a request.
func (t *tickets) RoundTrip(r *http.Request) (*http.Response, error) {
	part := proxied.FindStringSubmatch(r.URL.Path)
	if part == nil || r.Header.Get(Header) != "" {
		return t.next.RoundTrip(r)
	}
	token, refused, err := t.get(r, part[1]+part[2]+"/serviceaccounts/"+Reader+"/token", part[2])
	if err != nil || refused != nil {
		return refused, err
	}
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set(Header, token)
	}
	return t.next.RoundTrip(r)
}

// get is a token for the agents of a namespace, or the answer of an API server that gives none.
func (t *tickets) get(of *http.Request, path, namespace string) (token string, refused *http.Response, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.all[namespace]; ok && t.now().Before(k.until) {
		return k.token, nil, nil
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"audiences": []string{Audience}, "expirationSeconds": int(ticketLife.Seconds())},
	})
	if err != nil {
		return "", nil, err
	}
	// It is the same server, so what says who the user is goes along.
	r := of.Clone(of.Context())
	r.Method, r.URL = http.MethodPost, &url.URL{Scheme: of.URL.Scheme, Host: of.URL.Host, Path: path}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return "", nil, err
	}
	switch {
	case response.StatusCode == http.StatusNotFound: // the agents of an older version ask no one
		response.Body.Close()
		t.all[namespace] = ticket{"", t.now().Add(ticketSpare)}
		return "", nil, nil
	case response.StatusCode/100 != 2:
		return "", response, nil
	}
	defer response.Body.Close()
	var made authentication.TokenRequest
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&made); err != nil {
		return "", nil, fmt.Errorf("asking for a token for the agents: %w", err)
	}
	if made.Status.Token == "" {
		return "", nil, errors.New("asking for a token for the agents: the API server's answer has none")
	}
	t.all[namespace] = ticket{made.Status.Token, t.now().Add(ticketLife - ticketSpare)}
	return made.Status.Token, nil, nil
}
