// Package permit answers: may the sender of this request have what it asks for? In go a token and a path; the API server says whose
// the token is (a TokenReview), and whether that one may get the path (a SubjectAccessReview). So the cluster's administrators grant
// and revoke the right by RBAC, as for the metrics of Kubernetes' own programs. Out comes the handler behind it, or 401, 403, or 503
// where the API server can't be asked: no one is let in unseen.
//
// What was answered is remembered for a short while. A caller with a token not seen before has to wait for few others, and takes no
// room from callers that were let in: one who sends rubbish makes neither the API server nor a Prometheus scrape suffer much.
//
// It keeps sums of tokens and no token, and writes none to a log.
package permit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Header is where a request that comes through the API server's proxy has its token: the proxy removes Authorization, which is
// the user's own. Such a token must be for Audience alone, so that it is worth nothing elsewhere.
const (
	Header   = "X-Unthrottle-Token"
	Audience = "unthrottle-agent"
)

const (
	goodFor  = 2 * time.Minute // a right that is taken away ends so much later
	badFor   = 10 * time.Second
	mostGood = 64  // answers of yes that are remembered: Prometheus, and a few people
	mostBad  = 256 // answers of no

	// How many ask the API server at a time: those that were let in before, others, and others of one address, which may be the API
	// server's proxy, with several people behind it.
	mostKnown     = 4
	mostStrangers = 8
	mostOfOne     = 4

	within     = 5 * time.Second // both answers together
	mostAnswer = 1 << 20         // bytes of one: it has the token in it, and a user's groups
)

// A Guard asks an API server who may have what.
type Guard struct {
	client *rest.RESTClient
	log    *slog.Logger
	now    func() time.Time

	known, strangers chan struct{}

	mu      sync.Mutex
	good    answers
	bad     answers
	asking  map[string]int // strangers, by address
	refused bool           // the API server could not be asked: it was logged
}

// New makes a guard. The client must be one that speaks JSON.
func New(client *rest.RESTClient, log *slog.Logger) *Guard {
	return &Guard{
		client: client, log: log, now: time.Now, known: make(chan struct{}, mostKnown), strangers: make(chan struct{}, mostStrangers),
		good: newAnswers(mostGood), bad: newAnswers(mostBad), asking: map[string]int{},
	}
}

// An answer is what became of a request: 200, or a status of refusal with its words.
type answer struct {
	code int
	text string
}

var (
	yes       = answer{code: http.StatusOK}
	noToken   = answer{http.StatusUnauthorized, "who asks? A token is missing: Authorization: Bearer, or " + Header + " through the API server's proxy"}
	noUser    = answer{http.StatusUnauthorized, "the API server does not know the token, or it is not for " + Audience}
	busy      = answer{http.StatusServiceUnavailable, "too many ask with tokens that are not known yet: ask again in two seconds"}
	noServer  = answer{http.StatusServiceUnavailable, "the API server can't be asked who this is: ask again in two seconds"}
	forbidden = func(user, path string) answer {
		return answer{http.StatusForbidden, fmt.Sprintf("%.200q may not get the nonResourceURL %s", user, path)}
	}
)

// For lets callers that may get a path through to a handler. The path is how the right is called; what is below it is asked for by the same
// name.
func (g *Guard) For(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.answer(r, path)
		switch a.code {
		case http.StatusOK:
			r.Header.Del("Authorization")
			r.Header.Del(Header)
			next.ServeHTTP(w, r)
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+Audience+`"`)
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "2")
		}
		http.Error(w, a.text, a.code)
	})
}

// A question is who asks for what.
type question struct {
	token string
	own   bool // it must be for Audience
	path  string
}

func (g *Guard) answer(r *http.Request, path string) answer {
	q := question{path: path}
	if q.token, q.own = r.Header.Get(Header), true; q.token == "" {
		kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(kind, "Bearer") {
			return noToken
		}
		q.token = strings.TrimSpace(token)
		q.own = isFor(q.token, Audience)
	}
	if q.token == "" {
		return noToken
	}
	sum := q.sum()
	g.mu.Lock()
	now := g.now()
	a, before, found := g.good.get(sum)
	if found && now.Sub(before) < goodFor {
		g.mu.Unlock()
		return a
	}
	seen := found
	if a, before, found = g.bad.get(sum); found && now.Sub(before) < badFor {
		g.mu.Unlock()
		return a
	}
	g.mu.Unlock()

	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	leave, ok := g.enter(ctx, seen, addressOf(r))
	if !ok {
		return busy
	}
	defer leave()
	a, err := g.ask(ctx, q)
	g.tell(err)
	if err != nil {
		return noServer
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a == yes {
		g.bad.remove(sum)
		g.good.put(sum, a, g.now())
	} else {
		g.good.remove(sum)
		g.bad.put(sum, a, g.now())
	}
	return a
}

// sum is what a question is remembered by.
func (q question) sum() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%t %q ", q.own, q.path)
	io.WriteString(h, q.token)
	return [sha256.Size]byte(h.Sum(nil))
}

// isFor reports whether a token says that it is for an audience. Nothing relies on that: it only decides what the API server is asked.
func isFor(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		Audience json.RawMessage `json:"aud"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return false
	}
	var one string
	if json.Unmarshal(claims.Audience, &one) == nil {
		return one == audience
	}
	var all []string
	return json.Unmarshal(claims.Audience, &all) == nil && slices.Contains(all, audience)
}

func addressOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// enter waits until the API server may be asked.
func (g *Guard) enter(ctx context.Context, seen bool, address string) (leave func(), ok bool) {
	room := g.known
	if !seen {
		room = g.strangers
		g.mu.Lock()
		if g.asking[address] >= mostOfOne {
			g.mu.Unlock()
			return nil, false
		}
		g.asking[address]++
		g.mu.Unlock()
	}
	left := func() {
		if seen {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.asking[address]--; g.asking[address] == 0 {
			delete(g.asking, address)
		}
	}
	select {
	case room <- struct{}{}:
		return func() { <-room; left() }, true
	case <-ctx.Done():
		left()
		return nil, false
	}
}

// tell logs once that the API server can't be asked, and once that it can again.
func (g *Guard) tell(err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller is gone
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused == (err != nil) {
		return
	}
	if g.refused = err != nil; g.refused {
		g.log.Error("the API server can't be asked who may ask, so no new caller gets an answer", "error", err)
	} else {
		g.log.Info("the API server tells again who may ask")
	}
}

// ask asks the API server.
func (g *Guard) ask(ctx context.Context, q question) (answer, error) {
	asked := &authentication.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}, Spec: authentication.TokenReviewSpec{Token: q.token},
	}
	if q.own {
		asked.Spec.Audiences = []string{Audience}
	}
	token, err := create(ctx, g, "/apis/authentication.k8s.io/v1/tokenreviews", asked)
	if err != nil {
		return answer{}, fmt.Errorf("asking whose a token is: %w", err)
	}
	// A server that knows no audiences says nothing of them, and would take any token.
	of := token.Status.User
	if s := token.Status; !s.Authenticated || of.Username == "" || q.own && !slices.Contains(s.Audiences, Audience) {
		return noUser, nil
	}
	extra := map[string]authorization.ExtraValue{}
	for key, value := range of.Extra {
		extra[key] = authorization.ExtraValue(value)
	}
	access, err := create(ctx, g, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &authorization.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Spec: authorization.SubjectAccessReviewSpec{
			User: of.Username, UID: of.UID, Groups: of.Groups, Extra: extra,
			NonResourceAttributes: &authorization.NonResourceAttributes{Path: q.path, Verb: "get"},
		},
	})
	if err != nil {
		return answer{}, fmt.Errorf("asking what %q may: %w", of.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return forbidden(of.Username, q.path), nil
	}
	return yes, nil
}

// create sends a review, and gets it back with an answer.
func create[T any](ctx context.Context, g *Guard, path string, review *T) (*T, error) {
	data, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	body, err := g.client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(data).MaxRetries(0).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	answered := new(T)
	return answered, json.NewDecoder(io.LimitReader(body, mostAnswer)).Decode(answered)
}
