//go:build !go1.25

package guard

import "fmt"

// A Guard watches until it is stopped. This version of Go can't have one.
type Guard struct{}

// Start returns ErrOldGo: this program was built with a Go that has no flight recorder.
func Start(Options) (*Guard, error) { return nil, fmt.Errorf("starting the guard: %w", ErrOldGo) }

// Stop does nothing.
func (g *Guard) Stop() {}
