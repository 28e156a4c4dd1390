// Package view answers: what of a document does a screen show, and in which order? In goes a document of package report, out
// comes a sheet, which knows no width, no colour and no markup. One file a verb.
//
// It arranges, and writes numbers by package quantity. Sentences that answer, judge or advise are made in report; here is
// only what names a number: "50 ms of each 100 ms".
package view

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// quota is the CPU time that a limit gives.
func quota(quotaSeconds, periodSeconds float64) string {
	return quantity.Seconds(quotaSeconds) + " of each " + quantity.Seconds(periodSeconds)
}

// throttled says in how many of the kernel's periods something was throttled, and for how long.
func throttled(n, of int64, seconds float64) string {
	if n == 0 {
		return "none of " + quantity.Plural(of, "period")
	}
	return fmt.Sprintf("%s of %s (%s), %s summed over CPUs", quantity.Count(n), quantity.Plural(of, "period"), quantity.Part(n, of), quantity.Seconds(seconds))
}

// dash stands for what is not known in a table.
const dash = "–"

func orDash(text string) string {
	if text == "" {
		return dash
	}
	return text
}

// limitKind says what kind of limit held a program.
func limitKind(kind string) string {
	switch kind {
	case "cgroup-v1":
		return "cgroup v1"
	case "cgroup-v2":
		return "cgroup v2"
	case "systemd":
		return "a systemd scope"
	case "emulated":
		return "emulated: not the kernel's own limit"
	}
	return ""
}
