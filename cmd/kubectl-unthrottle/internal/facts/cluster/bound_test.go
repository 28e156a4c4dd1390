package cluster

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestListsEnd: a list that has no end, by its size or by its pages, is a problem that says so, and takes no more memory than a page.
func TestListsEnd(t *testing.T) {
	const pods = "/api/v1/namespaces/shop/pods"
	item, long := pod("bare", "", ""), `{"metadata":{"name":"`+strings.Repeat("x", 60_000)+`"}},` // made once: what the server allocates is not the question
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, n int64)
		want   string
		most   int64 // requests for pods
	}{
		"the same token": {func(w http.ResponseWriter, n int64) {
			fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":"more"},"items":[%s]}`, item)
		}, "the same token to continue with, twice", 2},
		"two tokens": {func(w http.ResponseWriter, n int64) {
			fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":"%d"},"items":[%s]}`, n%2, item)
		}, "the same token to continue with, twice", 3},
		"always another token": {func(w http.ResponseWriter, n int64) {
			fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":"%d"},"items":[%s]}`, n, item)
		}, "a list without an end: more than 10000 pages", mostPages},
		"a page without end": {func(w http.ResponseWriter, _ int64) {
			io.WriteString(w, `{"kind":"PodList","metadata":{},"items":[`)
			for {
				if _, err := io.WriteString(w, long); err != nil {
					return
				}
			}
		}, "its answer is too large: more than 67 MB", 1},
		"a gigabyte of spaces, packed": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Encoding", "gzip")
			z, spaces := gzip.NewWriter(w), strings.Repeat(" ", 1<<20)
			for range 1024 {
				if _, err := io.WriteString(z, spaces); err != nil {
					return
				}
			}
			z.Close()
		}, "its answer is too large: more than 67 MB", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			f := &fake{}
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != pods {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				c.answer(w, n.Add(1))
				return true
			}
			o := serve(t, f)
			o.Timeout = 20 * time.Second
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			found := read(t, o)
			runtime.ReadMemStats(&after)
			if text := strings.Join(problems(found), "\n"); !strings.Contains(text, c.want) || n.Load() > c.most {
				t.Errorf("%d requests, %q", n.Load(), text)
			}
			if took := after.TotalAlloc - before.TotalAlloc; c.most == 1 && took > 8*MostPage {
				t.Errorf("%d MB were allocated", took>>20)
			}
			if len(found.Workloads) > 1 {
				t.Errorf("%d workloads", len(found.Workloads))
			}
		})
	}
}
