package podtrial

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// TestLogBound: a log has no more than was asked for, regardless of what the server sends.
func TestLogBound(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, most := strings.Repeat("x", 1<<20), 64
		if got := r.URL.Query().Get("limitBytes"); got != "67108864" {
			t.Errorf("%s bytes were asked for", got)
		}
		if strings.Contains(r.URL.Path, "/endless/") {
			most = 1 << 20
		}
		for range most {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	p := cluster.Place{Config: &rest.Config{Host: s.URL}}
	cluster.Prepare(p.Config, time.Minute)
	c, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := (&API{c}).Log(t.Context(), "shop", "full", "app", time.Time{}, false); err != nil || len(data) != cluster.MostPage {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if data, err := (&API{c}).Log(t.Context(), "shop", "endless", "app", time.Time{}, false); !errors.Is(err, cluster.ErrTooLarge) || data != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
