package certs

import (
	"context"
	"log/slog"
	"time"
)

// Own is a certificate that its server makes for itself, keeps in memory and signs with its own key. It is for clients that verify
// none, as the API server's proxy does of pods: it keeps the wire from being read, and proves nothing.
type Own struct {
	Name string
	Log  *slog.Logger

	current
}

const (
	ownLife  = 30 * 24 * time.Hour
	everyOwn = time.Hour
)

// Load makes one if there isn't one, or if the existing one has a third of its life left.
func (o *Own) Load() error { return o.load(time.Now()) }

func (o *Own) load(now time.Time) error {
	if c := o.Certificate(); c != nil && now.Before(c.Leaf.NotAfter.Add(-ownLife/3)) {
		return nil
	}
	made, err := newServing(o.Name, now)
	if err != nil {
		return err
	}
	o.show(made.Certificate)
	return nil
}

// Run makes a new one in time, until the context ends.
func (o *Own) Run(ctx context.Context) {
	tick := time.NewTicker(everyOwn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := o.load(now); err != nil {
				o.failures.Add(1)
				o.Log.Error("certificate not made; the one before stays", "error", err)
			}
		}
	}
}
