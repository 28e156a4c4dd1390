package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// Callers are who may send reviews: those with a certificate of an authority. An API server shows one if its administrator has
// configured it to, in its AdmissionConfiguration.
type Callers struct {
	File  string   // with the authority's certificate, as PEM; it is read again while the server runs
	Names []string // common names that may call; none: all that the authority has signed
	Log   *slog.Logger

	mu     sync.Mutex
	pool   *x509.CertPool
	loaded time.Time
}

const everyPool = 10 * time.Second

// Load reads the file now.
func (c *Callers) Load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

func (c *Callers) load() error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("reading the callers' authority %s: %w", c.File, hint.Cause(err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("reading the callers' authority %s: there is no certificate in it", c.File)
	}
	c.pool, c.loaded = pool, time.Now()
	return nil
}

// current is the authority of the moment. What can't be read now, while it is being written, leaves it unchanged.
func (c *Callers) current() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.loaded) >= everyPool {
		if err := c.load(); err != nil {
			c.loaded = time.Now()
			c.Log.Error("callers' authority not loaded; the one before stays", "error", err)
		}
	}
	return c.pool
}

// ask makes a server ask for certificates.
func (c *Callers) ask(config *tls.Config) *tls.Config {
	asking := config.Clone()
	asking.ClientAuth = tls.RequireAndVerifyClientCert
	asking.VerifyConnection = func(s tls.ConnectionState) error {
		if len(c.Names) > 0 && !slices.Contains(c.Names, s.PeerCertificates[0].Subject.CommonName) {
			return errors.New("the client's certificate is for another client")
		}
		return nil
	}
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := asking.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, c.current()
		return now, nil
	}
	return asking
}
