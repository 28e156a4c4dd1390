package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/demo"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
)

const serveHelp = `A server to see on what a CPU limit and GOMAXPROCS do, with a live page.

Usage:
  unthrottle serve [FLAGS]

{{flags}}

What it answers:
  /               the page: limit, GOMAXPROCS as a slider, a load dial, and each period of the last minute
  /maxProcs       GET tells GOMAXPROCS; POST /maxProcs/N sets it
  /isPrime/N      by trial division, which takes time in proportion to N
  /work           ?cpu=5ms&alloc=64k: that much CPU time and garbage
  /metrics /healthz /debug/pprof/ /debug/trace?seconds=1

Under a limit it is worth looking at:
  unthrottle run --cpus 0.5 -- unthrottle serve
`

func newServe(stdio IO) *cobra.Command {
	var o demo.Options
	var listen string
	cmd := &cobra.Command{Use: "serve", Long: serveHelp}
	list := newFlagList(cmd)
	flags := list.section("Flags:")
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "ADDR\twhere to listen (127.0.0.1:8080); port 0 takes a free one")
	flags.StringArrayVar(&o.Hosts, "allow-host", nil, "H\ta name that the page may be called by, besides localhost and addresses; may be repeated")
	flags.Int64Var(&o.MaxN, "max-n", 0, "N\tlargest N of /isPrime (100000000)")
	flags.Float64Var(&o.MaxRate, "max-rate", 0, "R\tmost requests a second of the page's load dial (10000)")
	flags.IntVar(&o.MaxOpen, "max-open", 0, "N\tmost requests of it that are open at once (512)")
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return hint.Usage("unthrottle serve --listen 127.0.0.1:8080", "serve wants no arguments, got %q", strings.Join(args, " "))
		}
		if o.MaxN < 0 || o.MaxRate < 0 || o.MaxOpen < 0 {
			return hint.Usage("unthrottle serve", "a negative bound makes no sense")
		}
		l, err := net.Listen("tcp", listen)
		if err != nil {
			err = fmt.Errorf("listening on %s: %w", listen, err)
			if errors.Is(err, syscall.EADDRINUSE) {
				return hint.With(err, "--listen 127.0.0.1:0 takes a port that is free")
			}
			return hint.With(err, "--listen wants an address such as 127.0.0.1:8080")
		}
		host, port, _ := net.SplitHostPort(l.Addr().String())
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		fmt.Fprintf(stdio.Err, "unthrottle: listening on http://%s\n", net.JoinHostPort(host, port))
		return demo.New(o).Serve(cmd.Context(), l)
	}
	return cmd
}
