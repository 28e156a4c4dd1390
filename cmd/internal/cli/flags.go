package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/verb"
)

// Flags that several verbs have.

func arrivalsFlag(flags *pflag.FlagSet, to *load.Arrivals) {
	*to = load.Poisson
	flags.Var(verb.OneOf(to, load.Poisson, load.Constant), "arrivals", "A\tpoisson, as users arrive, or const (poisson)")
}

// marginFlag adds --margin, whose usual value is 5 %.
func marginFlag(flags *pflag.FlagSet, to *float64) {
	*to = 0.05
	parse := func(text string) (float64, error) {
		v, err := quantity.ParseShare(text)
		if err == nil && v >= 1 {
			err = fmt.Errorf("%q is too much: a margin is below 100%%", text)
		}
		return v, err
	}
	flags.Var(quantity.Value(to, parse, "5%"), "margin", "P\tsmaller differences do not matter (5%)")
}

// tailMarginFlag adds the margin of a tail, which is known less well.
func tailMarginFlag(flags *pflag.FlagSet, margin *float64) {
	*margin = 0.25
	flags.Var(quantity.Value(margin, quantity.ParseShare, "25%"), "tail-margin", "S\tby so much p99 may be higher with a setting that is advised, and must be lower to count (25%)")
}
