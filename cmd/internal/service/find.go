package service

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// FindURL starts a server to see on which port it answers HTTP, and ends it. Spec.Ready is ignored.
func FindURL(ctx context.Context, spec Spec) (string, error) {
	spec.Ready = Ready{}
	s, err := Start(ctx, spec)
	if err != nil {
		return "", err
	}
	defer s.Stop()
	patience := time.NewTimer(s.spec.Timeout)
	defer patience.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var ports []int
	for {
		if err := s.Check(); err != nil {
			return "", err
		}
		if ports, err = procs.Ports("", s.PID()); err != nil {
			return "", fmt.Errorf("where it listens can't be seen: %w", err)
		}
		for _, port := range ports {
			url := fmt.Sprintf("http://localhost:%d/", port)
			if status(ctx, url) > 0 {
				return url, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		case <-patience.C:
			why := "it listens on no port"
			if len(ports) > 0 {
				why = fmt.Sprintf("it listens on %s, where nothing answers plain HTTP", strings.Trim(fmt.Sprint(ports), "[]"))
			}
			return "", &Error{fmt.Sprintf("%s: %s within %v", filepath.Base(spec.Args[0]), why, s.spec.Timeout), s.Output()}
		}
	}
}
