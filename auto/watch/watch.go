// Package watch is package auto, and follows changes as well, once a second, when it is imported:
//
//	import _ "github.com/unthrottle/unthrottle/auto/watch"
//
// It is for programs whose limit changes while they run: those that are boosted at their start, pods that are resized in
// place, systemd's slices. The environment has the same variables as for package auto. It starts one goroutine, unless
// UNTHROTTLE=off; unthrottle.Watch is the same in code.
package watch

import (
	"context"

	"github.com/unthrottle/unthrottle"
	_ "github.com/unthrottle/unthrottle/auto" // which has decided before main begins, and before the goroutine does
)

func init() {
	if o := unthrottle.FromEnv(); !o.Policy.Off {
		go unthrottle.Watch(context.Background(), o, nil)
	}
}
