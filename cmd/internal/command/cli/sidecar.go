package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/sidecar"
)

// Verbs that are not for people: the pods of kubectl unthrottle tune are made of them.

// newSidecar is the verb that looks at the containers of its pod.
func newSidecar(stdio IO) *cobra.Command {
	cmd := verb.New("sidecar", "What the containers of a pod use, seen from another container in it; in pods of kubectl unthrottle tune.\n\n{{flags}}", func(l *verb.Flags) func(context.Context, []string) error {
		interval := sidecar.Interval
		verb.Duration(l.Section("Flags:"), &interval, "interval", time.Millisecond, "D\ttime between two lines (100ms)")
		return func(ctx context.Context, _ []string) error {
			if err := sidecar.Become(ctx); err != nil { // then it goes on unchanged, and says what it may not see
				fmt.Fprintln(stdio.Err, err)
			}
			return sidecar.Watch(ctx, stdio.Out, interval)
		}
	})
	cmd.Hidden = true
	return cmd
}

// newExpire is the verb that deletes the namespace of a study that is no longer looked after.
func newExpire(stdio IO) *cobra.Command {
	cmd := verb.New("expire", "Deletes the namespace of a study when its owner is gone; in a pod of kubectl unthrottle tune.\n\n{{flags}}", func(l *verb.Flags) func(context.Context, []string) error {
		o := sidecar.Expiry{Env: stdio.Env, Log: stdio.Err}
		flags := l.Section("Flags:")
		flags.StringVar(&o.Namespace, "namespace", "", "NAME\tthe namespace")
		flags.StringVar(&o.Owner, "owner", "", "NAME\tthe Job whose end it waits for")
		verb.Duration(flags, &o.Every, "every", time.Millisecond, "D\ttime between two looks (15s)")
		return func(ctx context.Context, _ []string) error { return sidecar.Expire(ctx, o) }
	})
	cmd.Hidden = true
	return cmd
}
