package pods

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// A roundTripper is a kubelet without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tokens makes the files of a service account.
func tokens(t *testing.T, authority []byte) KubeletOptions {
	t.Helper()
	dir := t.TempDir()
	o := KubeletOptions{Host: "127.0.0.1", TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	if err := errors.Join(os.WriteFile(o.TokenFile, []byte("secret"), 0o600), os.WriteFile(o.CAFile, authority, 0o600)); err != nil {
		t.Fatal(err)
	}
	return o
}

// stranger is the certificate of an authority that signed nothing.
func stranger(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestKubelet: it is asked once, for callers that want what it does not know at most once a second, and once a minute for changes.
func TestKubelet(t *testing.T) {
	o := tokens(t, nil)
	o.Insecure, o.CAFile = true, ""
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k, err := newKubelet(o)
		if err != nil {
			t.Fatal(err)
		}
		began, body := time.Now(), one("", "app:1")
		var asked []int
		k.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, int(time.Since(began).Seconds()))
			if body == "hang" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}
		if k.Err() != errNotYet {
			t.Error(k.Err())
		}
		go k.run(ctx)
		synctest.Wait()
		if image(k, idA) != "app:1" || k.Err() != nil {
			t.Errorf("%q, %v", image(k, idA), k.Err())
		}
		for range 100 { // all at once: one question
			image(k, "sandbox")
			image(k, idB)
			k.Container(podpath.Ref{})
		}
		pass(10 * time.Second)
		body = `{"kind":"PodList","items":[` + object("1", "a", idA, "app:2") + "," + object("1", "b", idB, "new:1") + "]}"
		image(k, idB)
		pass(time.Second)
		if image(k, idA) != "app:2" || image(k, idB) != "new:1" {
			t.Errorf("%q and %q", image(k, idA), image(k, idB))
		}
		pass(59 * time.Second)
		image(k, idA) // nothing is old yet
		pass(2 * time.Second)
		image(k, idA)
		synctest.Wait()
		if got := fmt.Sprint(asked); got != "[0 1 10 72]" {
			t.Errorf("asked at %s", got)
		}
		body = "hang"
		pass(time.Hour) // no one wants anything
		image(k, idA)
		pass(21 * time.Second)
		if err := k.Err(); image(k, idA) != "app:2" || err == nil || !strings.Contains(err.Error(), "asking the kubelet at 127.0.0.1:10250 for its pods: timed out") || len(asked) != 5 {
			t.Errorf("%q, %v, asked at %v", image(k, idA), err, asked)
		}
		body = one("", "app:3")
		image(k, "sandbox")
		pass(time.Second)
		if image(k, idA) != "app:3" || k.Err() != nil {
			t.Errorf("%q, %v", image(k, idA), k.Err())
		}
		cancel()
		<-k.done
	})
}

// TestKubeletServer: the token goes to a server that the authority signed, and what it refuses is reported with what is missing.
func TestKubeletServer(t *testing.T) {
	code, body := 200, one("", "app:1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s with %q", r.URL, r.Header)
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of who does not trust it
	server.StartTLS()
	defer server.Close()
	host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	o := tokens(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	o.Host = host
	o.Port, _ = strconv.Atoi(port)
	ask := func(o KubeletOptions) error {
		k, err := newKubelet(o)
		if err != nil {
			return err
		}
		if err := k.ask(t.Context()); err != nil {
			return k.explain(err)
		}
		if image(k, idA) != "app:1" {
			t.Error("it does not know what it was told")
		}
		return nil
	}
	if err := ask(o); err != nil {
		t.Error(err)
	}
	strange := o
	strange.CAFile = tokens(t, stranger(t)).CAFile
	for _, c := range []struct {
		name       string
		o          KubeletOptions
		code       int
		body       string
		want, hint string
	}{
		{
			"forbidden", o, 403, "Forbidden (user=system:serviceaccount:unthrottle:agent, verb=get, resource=nodes, subresource(s)=[pods proxy])",
			"403 Forbidden: Forbidden (user=system:serviceaccount:unthrottle:agent, verb=get", "the verb get for nodes/pods, or for nodes/proxy before Kubernetes 1.33",
		},
		{"unauthorized", o, 401, "Unauthorized", "401 Unauthorized", "authentication.webhook"},
		{"not found", o, 404, "404 page not found", "404 Not Found: 404 page not found", "asked again"},
		{"lies", o, 200, "<html>", errNotPods.Error(), "asked again"},
		{"a stranger", strange, 200, body, "x509", "serverTLSBootstrap"},
		{"nobody", KubeletOptions{}, 0, "", "no address", "status.hostIP"},
		{"no token", KubeletOptions{Host: host, TokenFile: "/none", Insecure: true}, 0, "", "/none", ""},
	} {
		code, body = c.code, c.body
		err := ask(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(hint.Of(err), "\n"), c.hint) {
			t.Errorf("%s: %v (%q)", c.name, err, hint.Of(err))
		}
	}
	code, body = 200, one("", "app:1")
	strange.CAFile, strange.Insecure = "", true
	if err := ask(strange); err != nil {
		t.Error(err)
	}
}
