package cluster

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

// An Access asks the API server that the options name for single answers, none larger than it may be. What a pod
// answers through the API server's proxy is the pod's own, so it may be anything.
type Access struct{ client *client }

// ErrTooLarge is the error of an answer that was not read to its end.
var ErrTooLarge = web.ErrTooLarge

// Open reads what kubectl would read. It asks nothing yet. most is how large an answer may be, in bytes, up to MostPage.
func Open(o Options, most int64) (*Access, error) {
	c, err := connect(o, func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next, most} })
	})
	if err != nil {
		return nil, err
	}
	return &Access{c}, nil
}

// Over asks with a client that is there already.
func Over(c rest.Interface) *Access { return &Access{&client{rest: c}} }

// Get asks for a path, once, for at most some time. The answer is read as it comes in, and must be closed.
func (a *Access) Get(ctx context.Context, path string, query url.Values, within time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	r := a.client.rest.Get().AbsPath(path).MaxRetries(0)
	for key, values := range query {
		for _, v := range values {
			r.Param(key, v)
		}
	}
	body, err := r.Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &answer{body, cancel}, nil
}

// Reason says why a request failed, and what to do about it.
func Reason(err error) (why, hint string) {
	if missing, ok := forbidden(err); ok {
		return missing, ""
	}
	return reason(err)
}

// Forbidden reports whether the API server does not allow a request.
func Forbidden(err error) bool {
	_, ok := forbidden(err)
	return ok
}

// An answer frees its timer when it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (a *answer) Close() error {
	defer a.cancel()
	return a.ReadCloser.Close()
}

// A bounded transport gives answers that end with an error where they are larger than most.
type bounded struct {
	next http.RoundTripper
	most int64
}

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusSwitchingProtocols: // its body is a connection
	case response.StatusCode >= 300: // the end of a long error is not needed
		response.Body = shortened{io.LimitReader(response.Body, mostError), response.Body}
	default:
		response.Body = &web.Body{ReadCloser: response.Body, Left: b.most, Most: b.most}
	}
	return response, nil
}

// mostError is how long a server's error may be, in bytes.
const mostError = 4 << 10

// A shortened body ends early.
type shortened struct {
	io.Reader
	io.Closer
}
