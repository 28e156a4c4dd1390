package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Hints for a program that offers no trace.
const (
	importPprof = `import _ "net/http/pprof" in the program, and let it call http.ListenAndServe("localhost:6060", nil)`
	importGuard = "or let it call guard.Start of github.com/unthrottle/unthrottle/guard, which saves a trace when it is throttled"
	watchIt     = "unthrottle watch PID sees throttling of any process, without its help"
)

// find finds where a process or a descendant of it serves net/http/pprof.
func (p Page) find(ctx context.Context, pid int) (*url.URL, error) {
	verb := "unthrottle " + p.what
	process, err := procs.Read("", pid)
	if err != nil {
		return nil, hint.With(err, "pgrep NAME finds a process's pid", fmt.Sprintf("if %d is a port: %s localhost:%[1]d", pid, verb))
	}
	m := host.StartMeter("", pid, pprofSoon)
	asked, err := pprofOf(ctx, pid)
	readings := m.Stop()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case asked.pprof != nil:
		return asked.pprof, nil
	case len(asked.late) > 0:
		return nil, hint.With(fmt.Errorf("process %d (%s) listens on %s, where nothing has answered in %v%s", pid, process.Name, list(asked.late), pprofSoon, frozen(readings)),
			fmt.Sprintf("%s localhost:%d, its URL instead of its pid, waits for up to %v longer than the %s takes", verb, asked.late[0], patience, p.what),
			fmt.Sprintf("unthrottle watch %d sees throttling of any process, without its help", pid))
	case err != nil:
		return nil, hint.With(fmt.Errorf("process %d (%s): where it listens can't be seen: %w", pid, process.Name, err), "run it as root, or give the URL: "+verb+" localhost:6060")
	case len(asked.all) == 0 && unreadable(pid):
		return nil, hint.With(fmt.Errorf("process %d (%s) is another user's: where it listens can't be seen", pid, process.Name), "run it as root, or as its user, or give the URL: "+verb+" localhost:6060")
	case otherNetwork(pid):
		return nil, hint.With(fmt.Errorf("process %d (%s) is in another network namespace, as in a container", pid, process.Name),
			fmt.Sprintf("nsenter -t %d -n %s localhost:PORT, or run it inside: kubectl exec", pid, verb), watchIt)
	}
	return nil, hint.With(fmt.Errorf("process %d (%s) %s", pid, process.Name, noPprof(asked)), importPprof, importGuard, watchIt)
}

// frozen says that a CPU limit held a process up while these readings were taken; "" if it did not, as far as known.
func frozen(readings []host.Reading) string {
	c := readings[len(readings)-1].Counters.Since(readings[0].Counters)
	if !c.Known || 2*c.Throttled < c.Periods || c.Throttled == 0 {
		return ""
	}
	return fmt.Sprintf(": its CPU limit froze it meanwhile, in %d of %d periods", c.Throttled, c.Periods)
}

func list(ports []int) string { return strings.Trim(fmt.Sprint(ports), "[]") }

// noPprof says what a process lacks that was asked.
func noPprof(asked ports) string {
	if len(asked.all) == 0 {
		return "listens on no TCP port that can be seen, so there is no net/http/pprof to ask"
	}
	return fmt.Sprintf("listens on %s, where no net/http/pprof answers", list(asked.all))
}

// The ports on which a process and its descendants listen, and the result of asking them.
type ports struct {
	all   []int
	pprof *url.URL // nil: none of them answers as pprof does
	late  []int    // that did not answer in time
}

// pprofOf asks all ports of a process and its descendants, until one of them answers as pprof does.
func pprofOf(ctx context.Context, pid int) (asked ports, err error) {
	if asked.all, err = procs.Ports("", pid); err != nil {
		return asked, err
	}
	asked, _, _ = askPorts(ctx, asked.all, here)
	return asked, nil
}

// askPorts asks one port after the other, until one of them answers as pprof does. Refused is how many
// can't be asked, and why the first of them can't.
func askPorts(ctx context.Context, all []int, get getter) (asked ports, refused int, why error) {
	asked.all = all
	for _, port := range all {
		u := &url.URL{Scheme: "http", Host: fmt.Sprintf("localhost:%d", port)}
		is, err := isPprof(ctx, u, get)
		switch {
		case is:
			asked.pprof = u
			return asked, refused, why
		case errors.Is(err, context.DeadlineExceeded):
			asked.late = append(asked.late, port)
		case err != nil:
			refused, why = refused+1, cmp.Or(why, err)
		}
	}
	return asked, refused, why
}

// A getter asks for a page.
type getter func(context.Context, *url.URL) (*http.Response, error)

// here asks a program of this machine.
func here(ctx context.Context, u *url.URL) (*http.Response, error) {
	return service.Get(ctx, u.String())
}

// pprofSoon is how long a page may take if the server is ready.
const pprofSoon = 5 * time.Second

// mostIndex is how much is read of pprof's index, in bytes.
const mostIndex = 64 << 10

// isPprof reports whether pprof's index is there. An error says why there was no answer at all.
func isPprof(ctx context.Context, base *url.URL, get getter) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, pprofSoon)
	defer cancel()
	res, err := get(ctx, base.JoinPath("/debug/pprof/"))
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(io.LimitReader(res.Body, mostIndex))
	return res.StatusCode == http.StatusOK && strings.Contains(string(page), "/debug/pprof"), err // not any page
}

// unreadable reports whether this user may not see what a process has open.
func unreadable(pid int) bool {
	_, err := foreign.Names("", procs.Dir("", pid)+"/fd", foreign.Descriptors)
	return errors.Is(err, fs.ErrPermission)
}

// otherNetwork reports whether a process has a network of its own.
func otherNetwork(pid int) bool {
	theirs, err := foreign.Link("", procs.Dir("", pid)+"/ns/net")
	own, ownErr := foreign.Link("", procs.Dir("", os.Getpid())+"/ns/net")
	return err == nil && ownErr == nil && theirs != own
}

// How long a program may take until its pprof answers: under a limit starting takes a while. One that answers on all its ports, and nowhere
// as pprof does, has nothing left to start, except another server besides.
const (
	pprofTimeout = 30 * time.Second
	pprofBeside  = 3 * time.Second
	pprofQuiet   = 2 * time.Second // that nothing is said of a program that does not listen
)

// awaitPprof waits until a program that was started serves pprof. It calls note with why that takes a while.
func awaitPprof(ctx context.Context, server *service.Server, name string, timeout time.Duration, note func(string)) (*url.URL, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	var other time.Time // since when all its ports have answered, as something else
	nowhere := time.NewTimer(pprofQuiet)
	defer nowhere.Stop()
	for {
		if err := server.CheckThat("before net/http/pprof answered"); err != nil {
			return nil, hint.With(err, "--record wants a program that goes on running, with net/http/pprof", importPprof, importGuard)
		}
		asked, err := pprofOf(ctx, server.PID())
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: where it listens can't be seen: %w", name, err)
		case asked.pprof != nil:
			return asked.pprof, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(asked.all) == 0 || len(asked.late) > 0:
			other = time.Time{}
		case other.IsZero():
			other = time.Now()
			note(fmt.Sprintf("%s %s: waiting for it, for %v", name, noPprof(asked), min(pprofBeside, timeout)))
		}
		waited := time.Since(begin)
		if waited >= timeout || !other.IsZero() && time.Since(other) >= pprofBeside {
			return nil, hint.With(fmt.Errorf("%s %s, after %v", name, noPprof(asked), waited.Round(time.Second/10)), importPprof, importGuard)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-nowhere.C:
			if len(asked.all) == 0 {
				note(fmt.Sprintf("%s %s: waiting for it, for %v at most", name, noPprof(asked), timeout))
			}
		case <-tick.C:
		}
	}
}
