package demo

import (
	"errors"
	"net/http"
	"runtime/trace"
	"time"
)

// seconds reads how long something should take from the parameter of that name.
func (s *Server) seconds(r *http.Request, otherwise time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return otherwise, nil
	}
	n, err := whole("seconds", text, 1, int64(s.o.MaxTrace/time.Second))
	return time.Duration(n) * time.Second, err
}

// bounded refuses to profile for too long.
func (s *Server) bounded(profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.seconds(r, 0); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		profile(w, r)
	}
}

// trace answers with an execution trace. There can be one at a time in a process.
func (s *Server) trace(w http.ResponseWriter, r *http.Request) {
	d, err := s.seconds(r, time.Second)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if !s.tracing.CompareAndSwap(false, true) {
		refuse(w, http.StatusConflict, errors.New("a trace is being taken already"))
		return
	}
	defer s.tracing.Store(false)
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="trace"`)
	header.Set("Cache-Control", "no-store")
	if err := trace.Start(w); err != nil {
		header.Del("Content-Disposition")
		refuse(w, http.StatusConflict, err)
		return
	}
	defer trace.Stop()
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	case <-s.closing:
	}
}
