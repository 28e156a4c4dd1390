package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

const (
	mostObject     = 4 << 20 // bytes; etcd takes no object of 2 MB
	mostContainers = 10_000  // of one node, for which a hundred times fewer are usual
	mostError      = 64 << 10
)

var (
	errNotPods = errors.New("its answer is not what Kubernetes sends")
	errGone    = errors.New("too old a version to continue from") // so everything must be read again
)

// A refusal is an answer with another status than 200.
type refusal struct {
	code    int
	message string        // the server's own
	after   time.Duration // 0: it does not say when to come again
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("answered with %d %s", r.code, http.StatusText(r.code))
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// Is says that it is errGone.
func (r *refusal) Is(err error) bool { return err == errGone && r.code == http.StatusGone }

// A server is an API server, or a kubelet.
type server struct {
	client *http.Client
	base   *url.URL
}

func newServer(config *rest.Config) (*server, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // a watch lasts
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	// The token is for this server, and a watch has no end: each of its objects is bounded.
	config.WrapTransport = nil
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return web.Guard(next, web.Options{Of: "it", Most: web.Endless})
	})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &server{client, base}, nil
}

// get asks for a path. The answer's body is the caller's to close.
func (s *server) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	to := s.base.JoinPath(path)
	to.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err // the address is said already
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	refused := &refusal{code: answer.StatusCode}
	data, _ := io.ReadAll(io.LimitReader(answer.Body, mostError))
	var status struct{ Kind, Message string }
	if json.Unmarshal(data, &status) == nil && status.Kind == "Status" {
		refused.message = status.Message
	} else if text, _, more := strings.Cut(strings.TrimSpace(string(data)), "\n"); !more && len(text) < 500 && !strings.HasPrefix(text, "<") {
		refused.message = text // a kubelet's
	}
	if seconds, err := time.ParseDuration(answer.Header.Get("Retry-After") + "s"); err == nil && seconds > 0 {
		refused.after = min(seconds, 5*time.Minute)
	}
	return nil, refused
}

// A reader reads objects of a sensible size from a stream. It holds one at a time.
type reader struct {
	*json.Decoder
	from io.Reader
	left int
}

func newReader(from io.Reader) *reader {
	r := &reader{from: from, left: mostObject}
	r.Decoder = json.NewDecoder(r)
	return r
}

// Read is for the decoder.
func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("%w: an object of more than %d MB", errNotPods, mostObject>>20)
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// next reads an object.
func (r *reader) next(v any) error {
	r.left = mostObject
	err := r.Decode(v)
	r.left = mostObject
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return fmt.Errorf("%w: %v", errNotPods, err)
	}
	return err
}

// event reads an event of a watch. One that is an error of the server's is returned as such.
func (r *reader) event() (kind string, p *pod, err error) {
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := r.next(&event); err != nil {
		return "", nil, err
	}
	if event.Type == "ERROR" {
		var status metav1.Status
		if json.Unmarshal(event.Object, &status) != nil {
			return "", nil, errNotPods
		}
		return "", nil, &refusal{code: int(status.Code), message: status.Message}
	}
	p = new(pod)
	if err := json.Unmarshal(event.Object, p); err != nil {
		return "", nil, fmt.Errorf("%w: %v", errNotPods, err)
	}
	return event.Type, p, nil
}

// readList reads a list of pods, and hands each to add at once. It returns the list's version.
func readList(from io.Reader, add func(*pod) error) (version string, err error) {
	r := newReader(from)
	if token, err := r.Token(); err != nil || token != json.Delim('{') {
		return "", orNotPods(err)
	}
	kind := ""
	for r.More() {
		key, err := r.Token()
		if err != nil {
			return "", orNotPods(err)
		}
		var head struct{ ResourceVersion string }
		var other json.RawMessage
		switch key {
		case "kind":
			err = r.next(&kind)
		case "metadata":
			err = r.next(&head)
			version = head.ResourceVersion
		case "items":
			err = r.items(add)
		default:
			err = r.next(&other)
		}
		if err != nil {
			return "", err
		}
	}
	if _, err := r.Token(); err != nil {
		return "", orNotPods(err)
	}
	if kind != "PodList" {
		return "", fmt.Errorf("%w: a %s", errNotPods, kind)
	}
	return version, nil
}

func (r *reader) items(add func(*pod) error) error {
	token, err := r.Token()
	switch {
	case err != nil:
		return orNotPods(err)
	case token == nil:
		return nil // null
	case token != json.Delim('['):
		return errNotPods
	}
	for r.More() {
		p := new(pod)
		if err := r.next(p); err != nil {
			return err
		}
		if err := add(p); err != nil {
			return err
		}
	}
	_, err = r.Token()
	return err
}

func orNotPods(err error) error {
	var syntax *json.SyntaxError
	if err == nil || errors.As(err, &syntax) {
		return errNotPods
	}
	return err
}
