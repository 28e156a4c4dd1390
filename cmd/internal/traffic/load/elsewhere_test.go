package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestElsewhere: requests go only to the server that was named, whatever it answers.
func TestElsewhere(t *testing.T) {
	var stolen atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer sink.Close()
	host := strings.TrimPrefix(sink.URL, "http://")
	for name, c := range map[string]struct {
		status   int
		location string
		body     string
	}{
		"302":             {302, sink.URL + "/", ""},
		"307 with a body": {307, sink.URL + "/", "much"},
		"308 with a body": {308, "//" + host + "/", "much"},
		"a user":          {302, "http://127.0.0.1@" + host + "/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/next", http.StatusTemporaryRedirect)
					return
				}
				w.Header().Set("Location", c.location)
				w.WriteHeader(c.status)
			})
			r := do(t, Plan{Requests: 40, Conns: 2, Client: Client{Redirects: 10, Timeout: time.Minute}, Targets: []Target{{
				Method: "POST", URL: url + "/", Body: []byte(c.body), Header: [][2]string{{"X-Api-Key", "SECRET"}, {"Authorization", "Bearer SECRET"}},
			}}})
			if stolen.Load() != 0 || r.Statuses[c.status] != 40 || r.Elsewhere != host {
				t.Errorf("%d requests went elsewhere; %v, %v, %q", stolen.Load(), r.Statuses, r.Errors, r.Elsewhere)
			}
		})
	}
}
