package maxprocs_test

import (
	"log"

	"github.com/unthrottle/unthrottle/maxprocs"
)

func Example() {
	undo, err := maxprocs.Set(maxprocs.Logger(log.Printf), maxprocs.Min(2))
	defer undo()
	if err != nil {
		log.Printf("GOMAXPROCS stays as it is: %v", err)
	}
}
