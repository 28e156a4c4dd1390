package guard_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/unthrottle/unthrottle/guard"
)

// Without a flight recorder (Go 1.24 and earlier) or a cgroup there is nothing to guard, and the program runs on as it did.
func Example() {
	g, err := guard.Start(guard.Options{
		Dir: os.TempDir(),
		OnSave: func(s guard.Snapshot) {
			log.Printf("throttled in %d of %d periods: %s", s.Storm.Throttled, s.Storm.Periods, s.Path)
		},
	})
	if err != nil {
		log.Print(err)
	}
	defer g.Stop() // of a nil Guard it does nothing
	fmt.Println("serving")
	// Output: serving
}

// Snapshots go where the program wants them: here into a file of its own choice, in place of Options.Dir.
func ExampleOptions_save() {
	save := func(ctx context.Context, s guard.Storm, snapshot io.WriterTo) error {
		f, err := os.CreateTemp("", "throttled-*.trace")
		if err != nil {
			return err
		}
		if _, err := snapshot.WriteTo(f); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	}
	g, err := guard.Start(guard.Options{Save: save, OnError: func(err error) { log.Print(err) }})
	if err != nil {
		log.Print(err)
	}
	defer g.Stop()
	fmt.Println("serving")
	// Output: serving
}
