// Command busy computes without end on as many goroutines as asked, and serves net/http/pprof.
package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
	"strconv"
)

func main() {
	n, _ := strconv.Atoi(os.Getenv("BUSY"))
	for range n {
		go func() {
			for i := 0; ; i++ {
			}
		}()
	}
	panic(http.ListenAndServe("localhost:6060", nil))
}
