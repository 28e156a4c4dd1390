package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

const (
	// mostSeries is how many series all answers of one reading have together: 50,000 containers in each of two dozen.
	mostSeries = 1_200_000
	// mostContainers is how many containers they report. Kubernetes is made for 300,000.
	mostContainers = 300_000
	// mostOfAll is how many bytes they have together. A series has some 150.
	mostOfAll = 256 << 20
	// mostOne is how many bytes one series has: its labels are names of Kubernetes.
	mostOne = 64 << 10
	// mostError is how much is read of an error.
	mostError = 64 << 10
)

var (
	errTooLarge = web.ErrTooLarge
	errTooMuch  = errors.New("its answers are too large together")
	errOther    = errors.New("its answer is not what was asked for")
	errNone     = errors.New("the server there is not Prometheus")
)

// A refusal is Prometheus' own error.
type refusal struct{ kind, message string }

func (r *refusal) Error() string { return fmt.Sprintf("%s: %.300s", r.kind, r.message) }

// A sample is a series and its value.
type sample struct {
	Metric model.Metric
	Value  [2]json.RawMessage // a time, and a number in quotes
}

// number is its value; ok is false if that isn't one.
func (s *sample) number() (v float64, ok bool) {
	var text string
	if json.Unmarshal(s.Value[1], &text) != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// A server is asked for one query after the other, and what it has answered counts against all that may come.
type server struct {
	client *http.Client
	url    string
	series int
	left   int64 // bytes of all answers
}

// newServer asks at an address.
func newServer(o Options) (*server, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	return &server{
		client: web.New(web.Options{Of: "Prometheus", Within: o.Within, Most: o.Most, Proxy: true}),
		url:    strings.TrimRight(u.String(), "/") + "/api/v1/query", left: mostOfAll,
	}, nil
}

// query asks for a vector, and hands over each of its series without keeping any.
func (s *server) query(ctx context.Context, text string, got func(model.Metric, float64) error) error {
	if s.left <= 0 || s.series > mostSeries {
		return s.tooMuch()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(url.Values{"query": {text}}.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "kubectl-unthrottle")
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refused(answer)
	}
	in := &counted{from: answer.Body, all: &s.left, left: mostOne}
	err = s.answer(json.NewDecoder(in), in, got)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax), errors.As(err, &kind):
		return errNone
	case err != nil && in.err != nil: // what went wrong below is what went wrong
		return in.err
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *server) tooMuch() error {
	return fmt.Errorf("%w: more than %d series or %d MB", errTooMuch, mostSeries, mostOfAll>>20)
}

// refused is the error of an answer with another status.
func refused(answer *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(answer.Body, mostError))
	var said struct{ Status, ErrorType, Error string }
	if json.Unmarshal(data, &said) == nil && said.Status == "error" {
		return &refusal{web.Said(said.ErrorType), said.Error}
	}
	return fmt.Errorf("answered %s", web.Said(answer.Status))
}

// answer reads {"status":"success","data":{"resultType":"vector","result":[…]}} piece by piece.
func (s *server) answer(d *json.Decoder, in *counted, got func(model.Metric, float64) error) error {
	status, vector := "", false
	var refused refusal
	err := object(d, in, func(key string) error {
		switch key {
		case "status":
			return d.Decode(&status)
		case "errorType":
			return d.Decode(&refused.kind)
		case "error":
			return d.Decode(&refused.message)
		case "data":
			return object(d, in, func(key string) error {
				switch key {
				case "resultType":
					var kind string
					err := d.Decode(&kind)
					if err == nil && kind != "vector" {
						return errOther
					}
					vector = err == nil
					return err
				case "result":
					return s.result(d, in, got)
				}
				return d.Decode(new(json.RawMessage))
			})
		}
		return d.Decode(new(json.RawMessage))
	})
	switch {
	case err != nil:
		return err
	case status == "error":
		return &refusal{web.Said(refused.kind), refused.message}
	case status != "success":
		return errNone
	case !vector:
		return errOther
	}
	return nil
}

// object reads an object; each reads the value of a key.
func object(d *json.Decoder, in *counted, each func(key string) error) error {
	token, err := d.Token()
	if err != nil || token == nil { // null
		return err
	}
	if token != json.Delim('{') {
		return errNone
	}
	for in.next(); d.More(); in.next() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := each(name); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func (s *server) result(d *json.Decoder, in *counted, got func(model.Metric, float64) error) error {
	token, err := d.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return errOther
	}
	for in.next(); d.More(); in.next() {
		var x *sample
		if err := d.Decode(&x); err != nil {
			return err
		}
		if s.series++; s.series > mostSeries {
			return s.tooMuch()
		}
		if x == nil {
			continue
		}
		v, ok := x.number()
		if !ok {
			return errOther
		}
		if err := got(x.Metric, v); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// A counted reader ends a series that is too long, and an answer where all of them have become too large.
type counted struct {
	from io.Reader
	all  *int64
	left int
	err  error // other than the end
}

// next begins another value.
func (c *counted) next() { c.left = mostOne }

func (c *counted) Read(to []byte) (n int, err error) {
	switch {
	case *c.all <= 0:
		err = fmt.Errorf("%w: more than %d MB", errTooMuch, mostOfAll>>20)
	case c.left <= 0:
		err = fmt.Errorf("%w: one series in it has more than %d KB", errTooLarge, mostOne>>10)
	default:
		n, err = c.from.Read(to[:min(int64(len(to)), int64(c.left), *c.all)])
		c.left -= n
		*c.all -= int64(n)
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// answered reports whether Prometheus itself refused a query.
func answered(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// reason says why a query failed.
func reason(err error) string {
	var r *refusal
	var elsewhere *web.Redirect
	var request *url.Error
	var late interface{ Timeout() bool }
	switch {
	case errors.As(err, &elsewhere):
		return elsewhere.Error()
	case errors.Is(err, errTooLarge), errors.Is(err, errTooMuch), errors.Is(err, errOther), errors.Is(err, errNone), errors.As(err, &r):
		return err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return "it does not answer in time"
	case errors.As(err, &request):
		err = request.Err
	}
	return fmt.Sprintf("%.300s", err.Error())
}
