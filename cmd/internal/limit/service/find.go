package service

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
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
	late := time.NewTimer(lateAfter)
	defer late.Stop()
	vain := time.NewTimer(vainAfter)
	defer vain.Stop()
	nowhere := func() string {
		if len(ports) > 0 {
			return "it listens on " + inWords(ports) + ", where nothing answers plain HTTP"
		}
		return "it listens on no port"
	}
	for {
		if err := s.CheckThat("before it answered"); err != nil {
			return "", err
		}
		if ports, err = procs.Ports("", s.PID()); err != nil {
			return "", fmt.Errorf("where it listens can't be seen: %w", err)
		}
		for _, port := range ports {
			url := fmt.Sprintf("http://localhost:%d/", port)
			if status(ctx, spec.Net, url) > 0 {
				return url, nil
			}
		}
		select {
		case <-tick.C:
		case <-late.C:
			s.late(nowhere() + " so far")
		case <-ctx.Done():
			return "", ctx.Err()
		case <-vain.C:
			if len(ports) == 0 && !spec.Patient {
				return "", &Error{Why: fmt.Sprintf("%s: it listens on no port after %v", filepath.Base(spec.Args[0]), vainAfter), Output: s.Output()}
			}
		case <-patience.C:
			return "", &Error{Why: fmt.Sprintf("%s: %s within %v", filepath.Base(spec.Args[0]), nowhere(), s.spec.Timeout), Output: s.Output()}
		}
	}
}
