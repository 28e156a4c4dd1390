// Command worker is what the containers of the agent's test run: it tells its GOMAXPROCS at PORT, keeps BUSY threads busy, with a
// REST after each millisecond of work, and calls runtime.GOMAXPROCS with CALL.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

func main() {
	if n, err := strconv.Atoi(os.Getenv("CALL")); err == nil {
		runtime.GOMAXPROCS(n)
	}
	busy, _ := strconv.Atoi(os.Getenv("BUSY"))
	rest, _ := time.ParseDuration(os.Getenv("REST"))
	for range busy {
		go func() {
			for {
				for began := time.Now(); time.Since(began) < time.Millisecond; {
				}
				time.Sleep(rest)
			}
		}()
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, runtime.GOMAXPROCS(0)) })
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+os.Getenv("PORT"), nil))
	os.Exit(1)
}
