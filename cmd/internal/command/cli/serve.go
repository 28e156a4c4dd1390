package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/demo"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

const serveHelp = `A server that shows what a CPU limit and GOMAXPROCS do, with a live page.

Usage:
  unthrottle serve [FLAGS]

{{flags}}

What it answers:
  /               the page: limit, GOMAXPROCS as a slider, a load dial, and each period of the last minute
  /maxProcs       GET shows GOMAXPROCS; POST /maxProcs/N sets it
  /isPrime/N      tests N by trial division, which takes time in proportion to N
  /work           ?cpu=5ms&alloc=64k: uses that much CPU time, and makes that much garbage
  /metrics /healthz /debug/pprof/ /debug/trace?seconds=1

Exit codes:
  0 stopped by Ctrl-C or SIGTERM   1 failed   2 usage

Worth watching under a limit:
  unthrottle run --cpus 0.5 -- unthrottle serve
`

func newServe(stdio IO) *cobra.Command {
	return verb.New("serve", serveHelp, func(l *verb.Flags) func(context.Context, []string) error {
		var o demo.Options
		flags := l.Section("Flags:")
		listen := flags.String("listen", "127.0.0.1:8080", "ADDR\twhere to listen (127.0.0.1:8080), or only a port; port 0 picks a free one")
		flags.StringArrayVar(&o.Hosts, "allow-host", nil, "H\tallow another host name for the page, besides localhost and addresses; may be repeated")
		verb.Number(flags, &o.MaxN, "max-n", "", 0, "N\tlargest N for /isPrime (100000000)")
		flags.Float64Var(&o.MaxRate, "max-rate", 0, "R\thighest rate of the page's load dial, in requests a second (10000)")
		verb.Number(flags, &o.MaxOpen, "max-open", "", 0, "N\tmost requests of the load dial that are open at once (512)")
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			switch {
			case !(o.MaxRate >= 0):
				return hint.Usage("--max-rate 10000", "--max-rate: %v is not a rate", o.MaxRate)
			case *listen == "": // which would be every address
				return hint.Usage("--listen 127.0.0.1:8080", "--listen: no address given")
			}
			if _, err := strconv.ParseUint(*listen, 10, 16); err == nil { // a port alone is one of this machine
				*listen = net.JoinHostPort("127.0.0.1", *listen)
			}
			listener, err := net.Listen("tcp", *listen)
			if err != nil {
				err = fmt.Errorf("listening on %s: %w", *listen, err)
				if errors.Is(err, syscall.EADDRINUSE) {
					return hint.With(err, "--listen 127.0.0.1:0 takes a port that is free")
				}
				return hint.With(err, "--listen takes an address such as 127.0.0.1:8080")
			}
			host, port, _ := net.SplitHostPort(listener.Addr().String())
			if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
			fmt.Fprintf(stdio.Err, "unthrottle: listening on http://%s\n", net.JoinHostPort(host, port))
			return demo.New(o).Serve(ctx, listener)
		}
	})
}
