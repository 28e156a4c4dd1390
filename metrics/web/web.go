// Package web serves what package metrics reports: as a page for Prometheus, and in expvar's.
//
//	http.Handle("/metrics/limits", web.Handler())
//	web.Publish("limits") // in /debug/vars
//
// It is a package of its own as it links net/http, which a program without a server needn't have.
package web

import (
	"expvar"
	"net/http"

	"github.com/unthrottle/unthrottle/metrics"
)

// Handler answers with the current values of all series, in Prometheus' text format.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodGet {
			_ = metrics.WritePrometheus(w) // the client has gone
		}
	})
}

// Publish puts them into expvar's page as an object of that name, which has a number for each series. Like expvar.Publish, it panics if the
// name is in use.
func Publish(name string) { expvar.Publish(name, expvar.Func(values)) }

func values() any {
	all := map[string]float64{}
	for _, s := range metrics.Read() {
		all[s.Series()] = s.Value
	}
	return all
}
