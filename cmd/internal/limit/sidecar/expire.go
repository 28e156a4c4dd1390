package sidecar

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

// Expiry is what to wait for. The zero value of all but the names is usable.
type Expiry struct {
	Namespace string
	Owner     string // the Job
	Every     time.Duration
	Env       func(string) string
	Dir       string    // of the service account's credentials; "": where a pod finds them
	Log       io.Writer // nil: errors that may pass are not reported
}

const (
	usually  = 15 * time.Second
	credence = "/var/run/secrets/kubernetes.io/serviceaccount"
	patience = 10 * time.Second // for an answer
)

// Expire deletes the namespace of a study when the Job that owns all that is in it is gone. Kubernetes itself ends that Job at its
// deadline, which is put off as long as someone conducts the study, and removes all that it owns; what is left is the empty namespace.
// Errors of the API server may pass, for all we know: it asks again. Its service account may get that Job and delete that namespace, and
// nothing else.
func Expire(ctx context.Context, o Expiry) error {
	if o.Namespace == "" || o.Owner == "" {
		return errors.New("expire needs a namespace and the Job that owns what is in it")
	}
	host, port := o.Env("KUBERNETES_SERVICE_HOST"), o.Env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return errors.New("looking for the API server: this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	base := "https://" + net.JoinHostPort(host, port)
	namespace := base + "/api/v1/namespaces/" + url.PathEscape(o.Namespace)
	owner := base + "/apis/batch/v1/namespaces/" + url.PathEscape(o.Namespace) + "/jobs/" + url.PathEscape(o.Owner)
	c := client{dir: cmp.Or(o.Dir, credence)}
	for {
		status, err := c.do(ctx, http.MethodGet, owner)
		if err == nil && status == http.StatusNotFound {
			status, err = c.do(ctx, http.MethodDelete, namespace)
			if err == nil && (status < 300 || status == http.StatusNotFound || status == http.StatusConflict) {
				return nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil // the namespace is being deleted, and this pod with it
		case o.Log == nil:
		case err != nil:
			fmt.Fprintln(o.Log, err)
		case status >= 300:
			fmt.Fprintf(o.Log, "the API server answers %d %s\n", status, http.StatusText(status))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(o.Every, usually)):
		}
	}
}

// A client reads its credentials for each call: the kubelet writes a new token every hour, and one call a quarter of a minute
// costs nothing.
type client struct{ dir string }

func (c client) do(ctx context.Context, method, url string) (status int, err error) {
	ca, err := os.ReadFile(filepath.Join(c.dir, "ca.crt"))
	if err != nil {
		return 0, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	token, err := os.ReadFile(filepath.Join(c.dir, "token"))
	if err != nil {
		return 0, fmt.Errorf("reading the service account's token: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return 0, fmt.Errorf("%s has no certificate", filepath.Join(c.dir, "ca.crt"))
	}
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "unthrottle-expire")
	asks := web.New(web.Options{Of: "the API server", Within: patience, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	defer asks.CloseIdleConnections()
	answer, err := asks.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
