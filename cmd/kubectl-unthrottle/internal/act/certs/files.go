package certs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// Files follows a certificate and its key that someone else writes, such as cert-manager into a mounted Secret.
type Files struct {
	Cert, Key string
	Every     time.Duration // how often they are looked at (0: 10 s)
	Log       *slog.Logger

	current
	cert, key []byte // as they were read last
}

const everyFile = 10 * time.Second

// Load reads the files now. Both are read whole each time: their times say nothing where a directory is exchanged below a
// symbolic link.
func (f *Files) Load() error {
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return fmt.Errorf("reading the certificate %s: %w", f.Cert, hint.Cause(err))
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return fmt.Errorf("reading the key %s: %w", f.Key, hint.Cause(err))
	}
	if bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return nil
	}
	pair, err := parsePair(cert, key)
	if err != nil {
		return fmt.Errorf("the certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	f.cert, f.key = cert, key
	if f.show(pair) {
		f.Log.Info("certificate loaded", "file", f.Cert, "expires", pair.Leaf.NotAfter.UTC())
	}
	return nil
}

// Run reads the files repeatedly. What can't be read now, while it is being written, leaves the certificate unchanged.
func (f *Files) Run(ctx context.Context) {
	every := f.Every
	if every <= 0 {
		every = everyFile
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := f.Load(); err != nil {
			f.failures.Add(1)
			f.Log.Error("certificate not loaded; the one before stays", "error", err)
		}
	}
}
