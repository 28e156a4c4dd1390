// Package certs answers: which certificate does the webhook show, and how does the API server come to trust it? In go two files
// that someone else keeps, or the place of a Secret that the webhook keeps itself; out comes the certificate of the moment.
//
// A Keeper has an authority of its own. The replicas share it through the Secret, and none of them leads: the first to see that
// something is due writes it, the others lose the race by the Secret's resourceVersion and take what is there. An authority is
// trusted, by the caBundle of the webhook's configuration, some time before it signs anything, and for as long as it lasts; so a
// rotation is never seen from outside.
//
// It knows nothing of admission. It needs four calls of the API server, by net/http.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Source has the certificate of a server.
type Source interface {
	// Run keeps the certificate as it should be until the context ends.
	Run(context.Context)
	// Certificate is the one of the moment; nil while there isn't one.
	Certificate() *tls.Certificate
	// Failures counts the times that looking after it failed.
	Failures() int64
}

// Get is tls.Config.GetCertificate for a source.
func Get(s Source) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := s.Certificate(); c != nil {
			return c, nil
		}
		return nil, errors.New("there is no certificate yet")
	}
}

// Good says what is wrong with a source's certificate now, or nil. A clock may run behind the one that made it, so its beginning
// does not matter.
func Good(s Source, now time.Time) error {
	c := s.Certificate()
	switch {
	case c == nil:
		return errors.New("there is no certificate yet")
	case now.After(c.Leaf.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// current is a certificate that may be exchanged while it is shown.
type current struct {
	certificate atomic.Pointer[tls.Certificate]
	failures    atomic.Int64
}

func (c *current) Certificate() *tls.Certificate { return c.certificate.Load() }
func (c *current) Failures() int64               { return c.failures.Load() }

// show exchanges the certificate, and reports whether it is another one.
func (c *current) show(next *tls.Certificate) bool {
	before := c.certificate.Swap(next)
	return before == nil || !before.Leaf.Equal(next.Leaf)
}

// parsePair reads a certificate and its key.
func parsePair(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil { // GODEBUG x509keypairleaf=0
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}
