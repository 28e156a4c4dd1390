package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A shown certificate is a source that does nothing on its own.
type shown struct {
	certificate atomic.Pointer[tls.Certificate]
}

func (s *shown) Run(ctx context.Context)       { <-ctx.Done() }
func (s *shown) Certificate() *tls.Certificate { return s.certificate.Load() }
func (s *shown) Failures() int64               { return 3 }

func (s *shown) show(t *testing.T, serial int64, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s.certificate.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf})
}

func TestServe(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	reviews, operations := listen(), listen()
	source := &shown{}
	log := slog.New(slog.DiscardHandler)
	s := &Server{Handler: New(Options{Mode: Fix}), Source: source, Drain: time.Hour, Log: log}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, reviews, operations) }()

	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get("http://" + operations.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	answers := func(path string, code int, part string) {
		t.Helper()
		if got, text := get(path); got != code || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s, want %d and %q", path, got, text, code, part)
		}
	}
	answers("/healthz", 200, "ok")
	answers("/readyz", 503, "there is no certificate yet")
	answers("/metrics", 200, "unthrottle_webhook_certificate_expires_seconds 0\n")
	answers("/debug/pprof/", 404, "")

	source.show(t, 1, time.Now().Add(-time.Minute))
	answers("/readyz", 503, "the certificate has expired")
	until := time.Now().Add(time.Hour)
	source.show(t, 2, until)
	answers("/readyz", 200, "ok")

	send := func() (serial int64) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error {
				serial = c.PeerCertificates[0].SerialNumber.Int64()
				return nil
			}},
		}}
		body := reviewOf(t, nil, podWith(t, fromNode, ""), nil)
		r, err := client.Post("https://"+reviews.Addr().String()+MutatePath, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), `"patchType":"JSONPatch"`) {
			t.Errorf("%s", text)
		}
		return serial
	}
	if got := send(); got != 2 {
		t.Errorf("certificate %d is shown, want 2", got)
	}
	source.show(t, 3, until)
	if got := send(); got != 3 {
		t.Errorf("certificate %d is shown after the exchange, want 3", got)
	}

	_, text := get("/metrics")
	for _, want := range []string{
		`unthrottle_webhook_reviews_total{review="mutate",outcome="changed"} 2`,
		`unthrottle_webhook_findings_total{rule="K003"} 2`, `unthrottle_webhook_changes_total{action="remove"} 2`,
		`unthrottle_webhook_review_seconds_count{review="mutate"} 2`, `unthrottle_webhook_review_seconds_bucket{review="mutate",le="+Inf"} 2`,
		`unthrottle_webhook_certificate_failures_total 3`,
		"unthrottle_webhook_certificate_expires_seconds " + strconv.FormatFloat(float64(until.Unix()), 'g', -1, 64),
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	checkFormat(t, text)

	// It leaves: not ready, and still answering, until the drain is over.
	cancel()
	for code := 0; code != 503; time.Sleep(time.Millisecond) {
		code, _ = get("/readyz")
	}
	answers("/readyz", 503, "shutting down")
	answers("/healthz", 200, "ok")
	send()
	select {
	case err := <-ended:
		t.Errorf("it ended in its drain: %v", err)
	default:
	}
	reviews.Close() // which ends it before the hour is over
	if err := <-ended; err == nil {
		t.Error("no error although somebody closed its listener")
	}
}

// checkFormat holds a page to the form of Prometheus: each series below its family, and never twice.
func checkFormat(t *testing.T, text string) {
	t.Helper()
	family, seen := "", map[string]bool{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(rest, " ")
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := strconv.ParseFloat(value, 64); err != nil || !strings.HasPrefix(series, family) || seen[series] {
			t.Errorf("the line %q, in %s", line, family)
		}
		seen[series] = true
	}
}

// TestLeave is an end with no one to wait for.
func TestLeave(t *testing.T) {
	for _, drain := range []time.Duration{0, time.Millisecond} {
		reviews, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		operations, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := &Server{Handler: New(Options{}), Source: &shown{}, Drain: drain, Log: slog.New(slog.DiscardHandler)}
		if err := s.Serve(ctx, reviews, operations); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("tcp", reviews.Addr().String()); err == nil {
			t.Error("it still listens")
		}
	}
}
