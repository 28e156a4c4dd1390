package permit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// An apiServer knows tokens of the form "user" and "user@audience", and a list of what users may get.
type apiServer struct {
	t       *testing.T
	mu      sync.Mutex
	rights  []string // "user path"
	blind   bool     // it knows no audiences
	down    bool
	reviews atomic.Int64
	hold    chan struct{} // nil: it answers at once
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	down, hold := a.down, a.hold
	a.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	if down || r.Method != http.MethodPost {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	var in struct {
		Kind string
		Spec struct {
			Token         string
			Audiences     []string
			User          string
			Groups        []string
			NonResource   *struct{ Path, Verb string } `json:"nonResourceAttributes"`
			ResourceAttrs *struct{}                    `json:"resourceAttributes"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		a.t.Error(err)
	}
	status := map[string]any{}
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews") && in.Kind == "TokenReview":
		a.reviews.Add(1)
		user, audience, _ := strings.Cut(in.Spec.Token, "@")
		if _, rest, ok := strings.Cut(user, "."); ok { // what looks like a JWT
			text, _ := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(rest, ".sig"))
			var claims struct{ User, Aud string }
			json.Unmarshal(text, &claims)
			user, audience = claims.User, claims.Aud
		}
		ok := !strings.HasPrefix(user, "bad") && (a.blind || audience == "" && in.Spec.Audiences == nil || slices.Contains(in.Spec.Audiences, audience))
		status["authenticated"] = ok
		if ok {
			status["user"] = map[string]any{"username": user, "groups": []string{"all"}}
			if !a.blind {
				status["audiences"] = in.Spec.Audiences
			}
		}
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") && in.Kind == "SubjectAccessReview":
		a.mu.Lock()
		status["allowed"] = in.Spec.NonResource.Verb == "get" && slices.Contains(in.Spec.Groups, "all") && slices.Contains(a.rights, in.Spec.User+" "+in.Spec.NonResource.Path)
		a.mu.Unlock()
	default:
		a.t.Errorf("%s of %s", r.URL.Path, in.Kind)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"status": status})
}

func (a *apiServer) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// guarded is a guard that asks a server, with a clock of its own, before a handler that records what came.
func guarded(t *testing.T, rights ...string) (*apiServer, http.Handler, *atomic.Int64) {
	t.Helper()
	a := &apiServer{t: t, rights: rights}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	c := &rest.Config{Host: server.URL, QPS: -1}
	c.GroupVersion = &schema.GroupVersion{}
	scheme := runtime.NewScheme()
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	g := New(client, slog.New(slog.DiscardHandler))
	var clock atomic.Int64
	g.now = func() time.Time { return time.Unix(1e9, clock.Load()) }
	mux := http.NewServeMux()
	for _, path := range []string{"/metrics", "/api/v1/processes"} {
		mux.Handle(path, g.For(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization")+r.Header.Get(Header) != "" {
				t.Error("the token is passed on")
			}
			fmt.Fprint(w, "told")
		})))
	}
	return a, mux, &clock
}

func ask(h http.Handler, path, header, value string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if header != "" {
		r.Header.Set(header, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func jwt(user, audience string) string {
	claims := fmt.Sprintf(`{"user":%q,"aud":%q}`, user, audience)
	return "head." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

func TestGuard(t *testing.T) {
	_, h, _ := guarded(t, "prometheus /metrics", "reader /api/v1/processes")
	for _, c := range []struct {
		name, path, header, value string
		want                      int
	}{
		{"nobody", "/metrics", "", "", 401},
		{"a password", "/metrics", "Authorization", "Basic cHJvbWV0aGV1czpw", 401},
		{"an empty token", "/metrics", "Authorization", "Bearer ", 401},
		{"a token that nobody knows", "/metrics", "Authorization", "Bearer bad", 401},
		{"one who may", "/metrics", "Authorization", "Bearer prometheus", 200},
		{"the same, spelt otherwise", "/metrics", "Authorization", "bearer prometheus", 200},
		{"but not this", "/api/v1/processes", "Authorization", "Bearer prometheus", 403},
		{"a token for agents", "/metrics", "Authorization", "Bearer " + jwt("prometheus", Audience), 200},
		{"a token for others", "/metrics", "Authorization", "Bearer " + jwt("prometheus", "vault"), 401},
		{"through the proxy", "/api/v1/processes", Header, "reader@" + Audience, 200},
		{"through the proxy, with a token for the API server", "/api/v1/processes", Header, "reader", 401},
		{"through the proxy, with one for others", "/api/v1/processes", Header, "reader@vault", 401},
		{"through the proxy, one who may not", "/metrics", Header, "reader@" + Audience, 403},
	} {
		code, text := ask(h, c.path, c.header, c.value)
		if code != c.want || (code == 200) != (text == "told") {
			t.Errorf("%s: %d %s, want %d", c.name, code, text, c.want)
		}
		if code != 200 && c.value != "" && strings.Contains(text, c.value) {
			t.Errorf("%s: the token is told: %s", c.name, text)
		}
	}
}

// A server that knows no audiences would take any token.
func TestBlind(t *testing.T) {
	a, h, _ := guarded(t, "reader /metrics")
	a.blind = true
	if code, _ := ask(h, "/metrics", Header, "reader@vault"); code != 401 {
		t.Errorf("%d", code)
	}
}

func TestRemembered(t *testing.T) {
	a, h, clock := guarded(t, "prometheus /metrics")
	prometheus := func() int { code, _ := ask(h, "/metrics", "Authorization", "Bearer prometheus"); return code }
	bad := func() int { code, _ := ask(h, "/metrics", "Authorization", "Bearer bad"); return code }
	for range 10 {
		if prometheus() != 200 || bad() != 401 {
			t.Fatal("not let in, or not kept out")
		}
	}
	if n := a.reviews.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	// A right that is taken away ends.
	a.set(func() { a.rights = nil })
	if prometheus() != 200 {
		t.Error("it is not remembered")
	}
	clock.Add(int64(goodFor))
	if code := prometheus(); code != 403 {
		t.Errorf("after %v without the right: %d", goodFor, code)
	}
	a.set(func() { a.rights = []string{"prometheus /metrics"} })
	clock.Add(int64(badFor))
	if code := prometheus(); code != 200 {
		t.Errorf("with it again: %d", code)
	}
	// No one is let in unseen.
	a.set(func() { a.down = true })
	if code := prometheus(); code != 200 {
		t.Errorf("while it is remembered: %d", code)
	}
	clock.Add(int64(goodFor))
	if code := prometheus(); code != 503 {
		t.Errorf("without an API server: %d", code)
	}
	a.set(func() { a.down = false })
	if code := prometheus(); code != 200 {
		t.Errorf("with one again: %d", code)
	}
}

// A client that sends rubbish without end takes nothing from those who were let in: they are remembered, and have room of their own.
func TestRubbish(t *testing.T) {
	a, h, clock := guarded(t, "prometheus /metrics")
	if code, _ := ask(h, "/metrics", "Authorization", "Bearer prometheus"); code != 200 {
		t.Fatal(code)
	}
	for i := range 3 * mostBad {
		if code, _ := ask(h, "/metrics", "Authorization", fmt.Sprint("Bearer bad", i)); code != 401 {
			t.Fatal(code)
		}
	}
	n := a.reviews.Load()
	if code, _ := ask(h, "/metrics", "Authorization", "Bearer prometheus"); code != 200 || a.reviews.Load() != n {
		t.Errorf("%d, asked again: %t", code, a.reviews.Load() != n)
	}
	hold := make(chan struct{})
	a.set(func() { a.hold = hold })
	var strangers sync.WaitGroup
	var busy atomic.Int64
	for i := range 4 * mostStrangers {
		strangers.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Authorization", fmt.Sprint("Bearer bad-again", i))
			r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i%3)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code == 503 {
				busy.Add(1)
			}
		})
	}
	for busy.Load() < int64(4*mostStrangers-3*mostOfOne) { // the others of each address are turned away at once
		time.Sleep(time.Millisecond)
	}
	clock.Add(int64(goodFor))
	done := make(chan int)
	go func() {
		code, _ := ask(h, "/metrics", "Authorization", "Bearer prometheus")
		done <- code
	}()
	a.set(func() { a.hold = nil }) // for later callers; the strangers' questions stay open
	if code := <-done; code != 200 && code != 503 {
		t.Errorf("%d", code)
	}
	if code, _ := ask(h, "/metrics", "Authorization", "Bearer prometheus"); code != 200 {
		t.Errorf("one who was let in before has to wait for strangers: %d", code)
	}
	close(hold)
	strangers.Wait()
}

func FuzzToken(f *testing.F) {
	f.Add("a.b.c", "x")
	f.Add(jwt("a", Audience), Audience)
	f.Add("."+base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["a","b"]}`))+".", "b")
	f.Fuzz(func(t *testing.T, token, audience string) { isFor(token, audience) })
}

func TestTickets(t *testing.T) {
	var mu sync.Mutex
	asked, code := []string{}, http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer mine" {
			t.Errorf("%s without what says who it is", r.URL.Path)
		}
		if strings.HasSuffix(r.URL.Path, "/token") {
			body, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodPost || r.URL.RawQuery != "" || !strings.Contains(string(body), `"audiences":["unthrottle-agent"]`) || !strings.Contains(string(body), `"expirationSeconds":600`) {
				t.Errorf("%s %s: %s", r.Method, r.URL, body)
			}
			asked = append(asked, r.URL.Path)
			w.WriteHeader(code)
			fmt.Fprint(w, `{"status":{"token":"ticket"}}`)
			return
		}
		fmt.Fprint(w, r.Header.Get(Header))
	}))
	defer server.Close()
	transport := Tickets(http.DefaultTransport).(*tickets)
	now := time.Unix(1e9, 0)
	transport.now = func() time.Time { return now }
	client := &http.Client{Transport: transport}
	get := func(path string) (int, string) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodGet, server.URL+path, nil)
		r.Header.Set("Authorization", "Bearer mine")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	const agent = "/api/v1/namespaces/unthrottle/pods/https:a:9435/proxy/api/v1/processes?x=1"
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/a/pods/http:a:80/proxy/", "/api/v1/namespaces/a/pods/a/log", "/api/v1/namespaces/a/services/https:a:80/proxy/"} {
		if _, text := get(path); text != "" || len(asked) > 0 {
			t.Errorf("%s gets %q", path, text)
		}
	}
	for range 3 {
		if _, text := get(agent); text != "ticket" || len(asked) != 1 || asked[0] != "/api/v1/namespaces/unthrottle/serviceaccounts/unthrottle-reader/token" {
			t.Errorf("%q, asked %q", text, asked)
		}
	}
	if get("/clusters/one/api/v1/namespaces/watch/pods/https:b:9435/proxy/"); len(asked) != 2 || asked[1] != "/clusters/one/api/v1/namespaces/watch/serviceaccounts/unthrottle-reader/token" {
		t.Errorf("%q", asked)
	}
	now = now.Add(ticketLife)
	if get(agent); len(asked) != 3 {
		t.Errorf("a ticket that has ended is used again")
	}
	now, code = now.Add(ticketLife), http.StatusForbidden
	if got, text := get(agent); got != http.StatusForbidden || !strings.Contains(text, "status") {
		t.Errorf("the refusal is %d %s", got, text)
	}
	code = http.StatusNotFound
	if got, text := get(agent); got != 200 || text != "" {
		t.Errorf("without an account: %d %q", got, text)
	}
}
