package loadtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/grpc"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Requests say what to send, in the words of a command line.
type Requests struct {
	File              string // of targets, "-" being stdin; "": there is a URL, to which Method and Data belong
	Method, Data      string // of Data, @FILE is that of a file; of Method, "" is GET
	Headers           []string
	ContentType, User string
	GRPC, Descriptors string // a method of gRPC, and a file that describes it: Data has its messages as JSON

	Client            load.Client // without TLS; "auto" is its HTTP2 and Engine where they are left open
	Insecure          bool
	CACert, Cert, Key string // files
}

// Read makes targets of a URL or of the file, and reads the files that are named.
func (r *Requests) Read(ctx context.Context, url string, stdin io.Reader) (targets []load.Target, c load.Client, err error) {
	c = r.Client
	if c.HTTP2 == "auto" {
		c.HTTP2 = load.HTTP2Auto
	}
	if c.Engine == "auto" {
		c.Engine = load.Any
	}
	if c.TLS, err = r.tls(); err != nil {
		return nil, c, err
	}
	common, err := r.header()
	if err != nil {
		return nil, c, err
	}
	if r.Descriptors != "" && r.GRPC == "" {
		return nil, c, hint.Usage("--grpc pkg.Service/Method --descriptors FILE", "--descriptors is for --grpc")
	}
	switch {
	case r.GRPC != "":
		c.HTTP2, c.NoCompression = load.HTTP2Only, true
		targets, err = r.calls(ctx, url, c, common, stdin)
	case r.File == "":
		targets, err = r.target(ctx, url, stdin)
	default:
		targets, err = r.file(ctx, stdin)
	}
	for i := range targets {
		targets[i].Header = append(slices.Clone(common), targets[i].Header...)
	}
	return targets, c, err
}

// First is the URL that the first request goes to. It reads what Read will, but asks no server, so that what is wrong can be said before one
// is started.
func (r *Requests) First(ctx context.Context, url string, stdin io.Reader) (string, error) {
	if r.GRPC != "" && r.Descriptors == "" {
		if _, _, err := grpc.ParseName(r.GRPC); err != nil {
			return "", hint.Usage(callExample, "--grpc: %w", err)
		}
		_, err := r.body(ctx, stdin)
		return withScheme(url), err
	}
	targets, _, err := r.Read(ctx, url, stdin)
	if err != nil {
		return "", err
	}
	return targets[0].URL, nil
}

// target is what is sent to a URL.
func (r *Requests) target(ctx context.Context, url string, stdin io.Reader) ([]load.Target, error) {
	body, err := r.body(ctx, stdin)
	return []load.Target{{Method: strings.ToUpper(r.Method), URL: withScheme(url), Body: body}}, err
}

func withScheme(url string) string {
	if !strings.Contains(url, "://") {
		return "http://" + url
	}
	return url
}

// body is that of Data, or of the file that it names.
func (r *Requests) body(ctx context.Context, stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(r.Data, "@")
	if !isFile {
		return []byte(r.Data), nil
	}
	body, err := input.ReadAll(ctx, name, stdin, mostInput)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the body: %w", err), "--data @FILE reads it from a file")
	}
	return body, nil
}

// file reads the targets of the file.
func (r *Requests) file(ctx context.Context, stdin io.Reader) ([]load.Target, error) {
	data, err := input.ReadAll(ctx, r.File, stdin, mostInput)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the targets: %w", err), "--targets takes a file such as: GET http://localhost:8080/")
	}
	targets, err := load.ParseTargets(data, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(r.File), name)
		}
		return input.ReadAll(ctx, name, nil, mostInput)
	})
	if err != nil {
		return nil, hint.Usage("each line a JSON object with a url, or as vegeta has it: GET http://localhost:8080/", "%s: %w", r.File, err)
	}
	return targets, nil
}

// mostInput is the most of a file of targets, or of a body, all of which is kept in memory: a million targets have some 100 MiB.
const mostInput = 1 << 30

// calls are the calls of gRPC, one for each message.
func (r *Requests) calls(ctx context.Context, url string, c load.Client, common [][2]string, stdin io.Reader) (targets []load.Target, err error) {
	if url = strings.TrimSuffix(withScheme(url), "/"); strings.Count(url, "/") > 2 {
		return nil, hint.Usage(callExample, "--grpc says what is called, so that the URL has no path: %s", url)
	}
	header := http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	for _, h := range common {
		header.Add(h[0], h[1])
	}
	messages, err := r.body(ctx, stdin)
	if err != nil {
		return nil, err
	}
	client, err := load.NewClient(c)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, reflecting)
	defer cancel()
	method, err := r.method(ctx, client, url, header)
	if err != nil {
		return nil, err
	}
	bodies, err := method.Bodies(ctx, messages)
	if err != nil {
		return nil, hint.Usage(callExample, "--data: %w", err)
	}
	fields := [][2]string{{"Content-Type", "application/grpc"}, {"Te", "trailers"}}
	if ms := c.Timeout.Milliseconds(); ms > 0 && ms < 1e8 { // so that the server gives up when we do
		fields = append(fields, [2]string{"Grpc-Timeout", strconv.FormatInt(ms, 10) + "m"})
	}
	for _, body := range bodies {
		targets = append(targets, load.Target{Method: http.MethodPost, URL: url + method.Path, Header: fields, Body: body})
	}
	return targets, nil
}

// method finds out what is called.
func (r *Requests) method(ctx context.Context, client *http.Client, url string, header http.Header) (*grpc.Method, error) {
	if _, _, err := grpc.ParseName(r.GRPC); err != nil {
		return nil, hint.Usage(callExample, "--grpc: %w", err)
	}
	if r.Descriptors != "" {
		data, err := input.ReadAll(ctx, r.Descriptors, nil, mostInput)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading --descriptors: %w", err), protoc)
		}
		method, err := grpc.Find(data, r.GRPC)
		if err != nil {
			return nil, hint.With(fmt.Errorf("%s: %w", r.Descriptors, err), protoc)
		}
		return method, nil
	}
	method, err := grpc.Ask(ctx, client, url, header, r.GRPC)
	if err != nil {
		return nil, hint.With(err, "--descriptors FILE says what the messages are; "+protoc)
	}
	return method, nil
}

const (
	callExample = "unthrottle load --grpc pkg.Service/Method -d '{\"name\": \"value\"}' localhost:50051"
	reflecting  = 20 * time.Second // is the most that all questions to a server may take
	protoc      = "protoc --include_imports --descriptor_set_out=FILE X.proto writes one"
)

// header is what all requests have.
func (r *Requests) header() (fields [][2]string, err error) {
	if r.ContentType != "" {
		fields = append(fields, [2]string{"Content-Type", r.ContentType})
	}
	if r.User != "" {
		if !strings.Contains(r.User, ":") {
			return nil, hint.Usage("--user name:password", "--user has no colon between name and password")
		}
		fields = append(fields, [2]string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(r.User))})
	}
	for _, h := range r.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" || strings.ContainsAny(h, "\r\n") {
			return nil, hint.Usage(`--header "Accept: text/plain"`, "--header %q is not a header field", h)
		}
		fields = append(fields, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return fields, nil
}

func (r *Requests) tls() (*tls.Config, error) {
	if !r.Insecure && r.CACert == "" && r.Cert == "" && r.Key == "" {
		return nil, nil
	}
	c := &tls.Config{InsecureSkipVerify: r.Insecure}
	if r.CACert != "" {
		data, err := os.ReadFile(r.CACert)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading --cacert: %w", err), "it needs the PEM certificates of the authority that signed the server's")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, hint.With(fmt.Errorf("reading --cacert: %s holds no certificate in PEM form", r.CACert), "openssl x509 -in FILE -out FILE.pem changes the form")
		}
	}
	if r.Cert != "" || r.Key != "" {
		pair, err := tls.LoadX509KeyPair(r.Cert, r.Key)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading --cert and --key: %w", err), "both are needed, in PEM form")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
