// Command exporter is a program as many are: it exports what client_golang does by itself, at port 8080, and keeps BUSY threads busy. What
// package metrics tells is on a page of its own.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unthrottle/unthrottle/metrics/web"
)

func main() {
	busy, _ := strconv.Atoi(os.Getenv("BUSY"))
	for range busy {
		go func() {
			for {
			}
		}()
	}
	http.Handle("/metrics", promhttp.Handler())
	http.Handle("/metrics/limits", web.Handler())
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
	os.Exit(1)
}
