package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

// ServiceAccount is where a pod finds its credentials.
const ServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// A Client asks the API server of the cluster that it runs in. It has only what a Keeper needs, reads the token and the cluster's
// authority again for each call, and bounds each answer.
type Client struct {
	base, dir string

	mu   sync.Mutex
	ca   []byte // that http trusts
	http *http.Client
}

// InCluster is a client with the credentials of a service account, which a pod finds in a directory, and the namespace of the
// account.
func InCluster(env func(string) string, dir string) (c *Client, namespace string, err error) {
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, "", hint.With(errors.New("looking for the API server: this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"),
			"--cert-file and --key-file take a certificate of your own, and need no API server")
	}
	text, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil {
		return nil, "", hint.With(fmt.Errorf("reading the service account's namespace in %s: %w", dir, hint.Cause(err)),
			"the pod has no service account's token: see automountServiceAccountToken")
	}
	c = &Client{base: "https://" + net.JoinHostPort(host, port), dir: dir}
	if _, err := c.client(); err != nil {
		return nil, "", err
	}
	return c, strings.TrimSpace(string(text)), nil
}

// client is the HTTP client that trusts the cluster's authority as its file has it now.
func (c *Client) client() (*http.Client, error) {
	path := filepath.Join(c.dir, "ca.crt")
	ca, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's authority %s: %w", path, hint.Cause(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil && bytes.Equal(ca, c.ca) {
		return c.http, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.ca = ca
	c.http = web.New(web.Options{
		Of: "the API server", Within: 10 * time.Second, Most: mostAnswered, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	})
	return c.http, nil
}

// A StatusError is a call that the API server refused.
type StatusError struct {
	Method, Path string
	Code         int
	Message      string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Code, http.StatusText(e.Code), e.Message)
}

// is reports whether an error is a refusal with one of these codes.
func is(err error, codes ...int) bool {
	var s *StatusError
	if errors.As(err, &s) {
		for _, code := range codes {
			if s.Code == code {
				return true
			}
		}
	}
	return false
}

// mostAnswered is how large an answer may be, in bytes: etcd takes no object of 2 MB.
const mostAnswered = 4 << 20

// do makes a call. The token is read each time: the kubelet writes a new one every hour.
func (c *Client) do(ctx context.Context, method, path, contentType string, in, out any) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(c.dir, "token"))
	if err != nil {
		return fmt.Errorf("reading the service account's token: %w", hint.Cause(err))
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "unthrottle-webhook")
	if in != nil {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer.StatusCode >= 300 {
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = "this is not an answer of an API server"
		}
		return &StatusError{method, path, answer.StatusCode, status.Message}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: the answer: %w", method, path, err)
	}
	return nil
}

const (
	asJSON  = "application/json"
	asPatch = "application/json-patch+json"
)

// An operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// A secret is kept as it came, so that nothing of it is lost when it is written.
type secret map[string]json.RawMessage

func (s secret) data() (map[string][]byte, error) {
	var data map[string][]byte
	if len(s["data"]) == 0 {
		return nil, nil
	}
	return data, json.Unmarshal(s["data"], &data)
}
