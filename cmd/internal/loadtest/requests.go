package loadtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/input"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
)

// Requests say what is to be sent, in the words of a command line.
type Requests struct {
	File              string // of targets, "-" being stdin; "": there is a URL, to which Method and Data belong
	Method, Data      string // of Data, @FILE is that of a file; of Method, "" is GET
	Headers           []string
	ContentType, User string

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
	if r.File == "" {
		targets, err = r.target(ctx, url, stdin)
	} else {
		targets, err = r.file(ctx, stdin)
	}
	for i := range targets {
		targets[i].Header = append(slices.Clone(common), targets[i].Header...)
	}
	return targets, c, err
}

// target is what is sent to a URL.
func (r *Requests) target(ctx context.Context, url string, stdin io.Reader) ([]load.Target, error) {
	t := load.Target{Method: strings.ToUpper(r.Method), URL: url, Body: []byte(r.Data)}
	if !strings.Contains(url, "://") {
		t.URL = "http://" + url
	}
	if name, isFile := strings.CutPrefix(r.Data, "@"); isFile {
		var err error
		if t.Body, err = input.ReadAll(ctx, name, stdin, mostInput); err != nil {
			return nil, hint.With(fmt.Errorf("reading the body: %w", err), "--data @FILE reads it from a file")
		}
	}
	return []load.Target{t}, nil
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
