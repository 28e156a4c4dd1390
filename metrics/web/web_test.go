package web_test

import (
	"encoding/json"
	"expvar"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/metrics"
	"github.com/unthrottle/unthrottle/metrics/web"
)

func TestHandler(t *testing.T) {
	server := httptest.NewServer(web.Handler())
	defer server.Close()
	for _, test := range []struct {
		method string
		status int
		body   bool
	}{{"GET", 200, true}, {"HEAD", 200, false}, {"POST", 405, false}} {
		req, err := http.NewRequest(test.method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.status {
			t.Errorf("%s: %s, %v", test.method, resp.Status, err)
		}
		if has := strings.Contains(string(body), "\nunthrottle_gomaxprocs "+strconv.Itoa(runtime.GOMAXPROCS(0))+"\n"); has != test.body {
			t.Errorf("%s: %s", test.method, body)
		}
		if kind := resp.Header.Get("Content-Type"); test.status == 200 && kind != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("%s: %s", test.method, kind)
		}
	}
}

func TestPublish(t *testing.T) {
	web.Publish("limits")
	var got map[string]float64
	if err := json.Unmarshal([]byte(expvar.Get("limits").String()), &got); err != nil {
		t.Fatal(err)
	}
	want := metrics.Read()
	if len(got) != len(want) || got["unthrottle_gomaxprocs"] != float64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%v, want %d series", got, len(want))
	}
	for _, s := range want {
		if _, ok := got[s.Series()]; !ok {
			t.Errorf("%v lacks %s", got, s.Series())
		}
	}
}
