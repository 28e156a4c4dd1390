package attach

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

// Hints for a program that offers no trace.
const (
	importPprof = `import _ "net/http/pprof" in the program, and let it call http.ListenAndServe("localhost:6060", nil)`
	importGuard = "or let it call guard.Start of github.com/unthrottle/unthrottle/guard, which saves a trace when it is throttled"
	watchIt     = "unthrottle watch PID sees throttling of any process, without its help"
)

// findPprof finds where a process or a descendant of it serves net/http/pprof.
func findPprof(ctx context.Context, pid int) (*url.URL, error) {
	process, err := procs.Read("", pid)
	if err != nil {
		return nil, hint.With(err, "pgrep NAME finds a process's pid", fmt.Sprintf("if %d is a port: unthrottle trace localhost:%[1]d", pid))
	}
	u, ports, err := pprofOf(ctx, pid)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case u != nil:
		return u, nil
	case err != nil:
		return nil, hint.With(fmt.Errorf("process %d (%s): where it listens can't be seen: %w", pid, process.Name, err), "run it as root, or give the URL: unthrottle trace localhost:6060")
	case otherNetwork(pid):
		return nil, hint.With(fmt.Errorf("process %d (%s) is in another network namespace, as in a container", pid, process.Name),
			fmt.Sprintf("nsenter -t %d -n unthrottle trace localhost:PORT, or run it inside: kubectl exec", pid), watchIt)
	}
	return nil, hint.With(fmt.Errorf("process %d (%s) %s", pid, process.Name, noPprof(ports)), importPprof, importGuard, watchIt)
}

// noPprof says what is missing of a process that listens on these ports.
func noPprof(ports []int) string {
	if len(ports) == 0 {
		return "listens on no TCP port that can be seen: there is no net/http/pprof to ask for a trace"
	}
	return fmt.Sprintf("listens on %s, where no net/http/pprof answers", strings.Trim(fmt.Sprint(ports), "[]"))
}

// pprofOf asks all ports of a process and its descendants; nil if none of them answers as pprof does.
func pprofOf(ctx context.Context, pid int) (*url.URL, []int, error) {
	ports, err := procs.Ports("", pid)
	if err != nil {
		return nil, nil, err
	}
	for _, port := range ports {
		u := &url.URL{Scheme: "http", Host: fmt.Sprintf("localhost:%d", port)}
		if isPprof(ctx, u) {
			return u, ports, nil
		}
	}
	return nil, ports, nil
}

// pprofSoon is how long a page may take that is ready.
const pprofSoon = 5 * time.Second

// isPprof looks whether pprof's index is there.
func isPprof(ctx context.Context, base *url.URL) bool {
	ctx, cancel := context.WithTimeout(ctx, pprofSoon)
	defer cancel()
	res, err := service.Get(ctx, base.JoinPath("/debug/pprof/").String())
	if err != nil {
		return false
	}
	defer res.Body.Close()
	page, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return res.StatusCode == http.StatusOK && strings.Contains(string(page), "/debug/pprof") // not any page
}

// otherNetwork reports whether a process has a network of its own.
func otherNetwork(pid int) bool {
	theirs, err := os.Readlink(filepath.Join(procs.Dir("", pid), "ns/net"))
	own, ownErr := os.Readlink(filepath.Join(procs.Dir("", os.Getpid()), "ns/net"))
	return err == nil && ownErr == nil && theirs != own
}

// pprofTimeout is how long a program may take until its pprof answers: under a limit starting takes its time.
const pprofTimeout = 30 * time.Second

// awaitPprof waits until a program that was started serves pprof.
func awaitPprof(ctx context.Context, server *service.Server, name string, timeout time.Duration) (*url.URL, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	for {
		if err := server.Check(); err != nil {
			return nil, hint.With(err, "--record wants a program that goes on running, with net/http/pprof", importPprof, importGuard)
		}
		u, ports, err := pprofOf(ctx, server.PID())
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: where it listens can't be seen: %w", name, err)
		case u != nil:
			return u, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		case <-patience.C:
			return nil, hint.With(fmt.Errorf("%s %s, after %v", name, noPprof(ports), timeout), importPprof, importGuard)
		}
	}
}
