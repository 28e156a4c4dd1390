package prom

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestTogether: the total of all answers is bounded, and a reading that has reached its bound stops asking and says so.
func TestTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads a quarter of a gigabyte")
	}
	const series = 480_000
	for name, c := range map[string]struct {
		pod  func(asked, i int) string
		want string
		most int // queries that are asked
	}{
		"the same containers":  {func(_, i int) string { return fmt.Sprint("api-", i%1000) }, "its answers are too large together", 5},
		"always others":        {func(asked, i int) string { return fmt.Sprint("api-", asked, "-", i) }, "more than 300000 containers", 1},
		"as long as can be":    {func(_, i int) string { return strings.Repeat("x", 240) + fmt.Sprint(i%10) }, "its answer is too large", 13},
		"one series too large": {func(_, i int) string { return strings.Repeat("x", 1<<20) }, "one series in it has more than 64 KB", 13},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(asked.Add(1))
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`)
				for i := range series {
					if i > 0 {
						io.WriteString(w, ",")
					}
					if _, err := fmt.Fprintf(w, `{"metric":{"namespace":"shop","pod":%q,"container":"app"},"value":[1700000000,"1"]}`, c.pod(n, i)); err != nil {
						return
					}
				}
				io.WriteString(w, "]}}")
			}))
			defer s.Close()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			found, err := Read(t.Context(), Options{URL: s.URL, Within: time.Minute})
			runtime.GC()
			runtime.ReadMemStats(&after)
			text := fmt.Sprint(err)
			if err == nil {
				text = fmt.Sprint(found.Problems)
			}
			if !strings.Contains(text, c.want) || int(asked.Load()) > c.most {
				t.Errorf("%d queries, %s", asked.Load(), text)
			}
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 256<<20 {
				t.Errorf("%d MB are held", held>>20)
			}
			runtime.KeepAlive(found)
		})
	}
}

// TestHostile: a gigabyte of spaces, packed; redirects with the password; an error that is long.
func TestHostile(t *testing.T) {
	var stolen atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer sink.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"spaces": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 1024 {
				if _, err := io.WriteString(z, strings.Repeat(" ", 1<<20)); err != nil {
					return
				}
			}
			z.Close()
		}, "too large"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, sink.URL, http.StatusTemporaryRedirect)
		}, "a redirect to " + sink.URL + ": not followed"},
		"itself": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, "not followed"},
		"a long error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			text, _ := json.Marshal(strings.Repeat("\x1b[31m", 5000))
			fmt.Fprintf(w, `{"status":"error","errorType":"\u001b[2Jx","error":%s}`, text)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			found, err := Read(t.Context(), Options{URL: strings.Replace(s.URL, "http://", "http://me:secret@", 1), Within: 20 * time.Second})
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
			if c.want == "" && (err != nil || len(found.Problems) == 0 || len(found.Problems[0].Text) > 1000) {
				t.Errorf("%v, %+v", err, found)
			}
		})
	}
	if stolen.Load() > 0 {
		t.Errorf("another server was asked %d times", stolen.Load())
	}
}
