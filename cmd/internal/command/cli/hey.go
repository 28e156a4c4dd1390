package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/hey"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// mostBody is the most of a body that is sent, which is kept in memory.
const mostBody = 1 << 30

// newHey takes hey's command line unchanged: its flags are not cobra's.
func newHey(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: "hey", Long: hey.Help, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := hey.Parse(args, func(name string) ([]byte, error) { return input.ReadAll(cmd.Context(), name, nil, mostBody) })
			if errors.Is(err, flag.ErrHelp) {
				_, err := io.WriteString(stdio.Out, hey.Help)
				return err
			}
			if err != nil {
				return verb.ExitCode{Code: hey.ExitCode(err), Err: hint.With(err, "unthrottle help hey shows its flags")}
			}
			return runHey(cmd, stdio, o)
		},
	}
}

func runHey(cmd *cobra.Command, stdio IO, o hey.Options) error {
	warn := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintln(stdio.Err, "unthrottle: warning:", plain.Line(line))
		}
	}
	warn(o.Warnings)
	if o.CPUs > 0 {
		runtime.GOMAXPROCS(o.CPUs)
	}
	c := hey.NewCollector(o)
	o.Plan.Each, o.Plan.Phases = c.Add, true
	relaxGC(stdio)
	run, err := load.Start(cmd.Context(), o.Plan)
	if err != nil {
		return verb.ExitCode{Code: verb.Failed, Err: err}
	}
	res := run.Wait()
	r := c.Report(res)
	if err := r.Write(stdio.Out, o.Output); err != nil {
		return err
	}
	warn(r.Warnings())
	if o.Strict && r.AllFailed() {
		return verb.ExitCode{Code: verb.Failed, Err: errors.New("no request succeeded")}
	}
	return nil
}
