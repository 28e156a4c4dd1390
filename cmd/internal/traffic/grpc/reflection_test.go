package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A reflecting server answers questions as a test wants. The real one of google.golang.org/grpc is asked in the module bench.
func reflecting(t *testing.T, answer func(w http.ResponseWriter, what int, about string)) (*http.Client, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := message1(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/grpc")
		fields(data, func(f field) error {
			answer(w, f.number, string(f.bytes))
			return nil
		})
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	transport := &http.Transport{Protocols: s.Config.Protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, s.URL
}

// files answers with these.
func files(w io.Writer, files ...[]byte) {
	var data []byte
	for _, f := range files {
		data = appendBytes(data, 1, f)
	}
	w.Write(frame(appendBytes(nil, gotFiles, data)))
}

func fails(w io.Writer, code int) {
	w.Write(frame(appendBytes(nil, gotError, append(appendVarint(nil, 1, uint64(code)), text(2, "no")...))))
}

func TestAsk(t *testing.T) {
	var asked []string
	client, url := reflecting(t, func(w http.ResponseWriter, what int, about string) {
		asked = append(asked, fmt.Sprint(what, " ", about))
		switch {
		case what == askSymbol && about == "shop.Till":
			files(w, shop())
		case what == askFile && about == "google/protobuf/timestamp.proto":
			files(w, times())
		case what == askServices:
			w.Write(frame(appendBytes(nil, gotServices, bytes.Join(asBytes([]part{in(1, text(1, "shop.Till")), in(1, text(1, "grpc.reflection.v1.ServerReflection"))}), nil))))
		default:
			fails(w, codeNotFound)
		}
	})
	m, err := Ask(t.Context(), client, url, http.Header{}, "shop.Till/Buy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Bodies(t.Context(), []byte(`{"when": "2026-01-02T15:04:05Z"}`)); err != nil {
		t.Error(err)
	}
	if got := strings.Join(asked, ", "); got != "4 shop.Till, 3 google/protobuf/timestamp.proto" {
		t.Errorf("asked %s", got)
	}
	if _, err := Ask(t.Context(), client, url, http.Header{}, "shop.Kiosk/Buy"); err == nil || !strings.Contains(err.Error(), "no such service; there are shop.Till") || strings.Contains(err.Error(), "reflection") {
		t.Error(err)
	}
}

// TestAskHostile: a server that answers with anything, or without an end, gets an error in the end.
func TestAskHostile(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, what int, about string)
		want   string
	}{
		"no gRPC":         {func(w http.ResponseWriter, _ int, _ string) { w.Header().Set("Content-Type", "text/html") }, "not a gRPC server"},
		"too long":        {func(w http.ResponseWriter, _ int, _ string) { w.Write([]byte{0, 255, 255, 255, 255}) }, "more than 32 MB"},
		"it says a lot":   {func(w http.ResponseWriter, _ int, _ string) { w.Write([]byte{0, 1, 0, 0, 0, 'a'}) }, "breaks off after 1 bytes of 16777216"},
		"compressed":      {func(w http.ResponseWriter, _ int, _ string) { w.Write([]byte{1, 0, 0, 0, 0}) }, "compressed"},
		"garbage":         {func(w http.ResponseWriter, _ int, _ string) { w.Write(frame([]byte("garbage"))) }, "not a protocol buffers message"},
		"an empty answer": {func(w http.ResponseWriter, _ int, _ string) { w.Write(frame(nil)) }, "there is no service shop.Till"},
		"a garbled file":  {func(w http.ResponseWriter, _ int, _ string) { files(w, append(text(1, "x"), 255)) }, "there is no service"},
		"no reflection":   {func(w http.ResponseWriter, _ int, _ string) { w.Header().Set("Grpc-Status", "12") }, "the server has no reflection"},
		"refused":         {func(w http.ResponseWriter, _ int, _ string) { w.Header().Set("Grpc-Status", "16") }, `grpc-status "16"`},
		"an error":        {func(w http.ResponseWriter, _ int, _ string) { fails(w, 13) }, `error 13: "no"`},
		"imports without end": {func(w http.ResponseWriter, what int, about string) {
			files(w, append(append(text(1, about), text(3, about+"x")...), text(3, about)...))
		}, "more than 2000 files"},
	} {
		t.Run(name, func(t *testing.T) {
			client, url := reflecting(t, c.answer)
			if _, err := Ask(t.Context(), client, url, http.Header{}, "shop.Till/Buy"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	client, url := reflecting(t, func(w http.ResponseWriter, _ int, _ string) {
		w.(http.Flusher).Flush()
		time.Sleep(200 * time.Millisecond)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, client, url, http.Header{}, "shop.Till/Buy"); err == nil {
		t.Error("one that does not answer was waited for")
	}
}

// TestAskAny: a server is asked once for each kind of message that others hold, and for what its file imports.
func TestAskAny(t *testing.T) {
	var asked []string
	client, url := reflecting(t, func(w http.ResponseWriter, what int, about string) {
		asked = append(asked, fmt.Sprint(what, " ", about))
		switch about {
		case "box.Store":
			files(w, box(), anyFile())
		case "shop.All", "shop.Order":
			files(w, shop())
		case "google/protobuf/timestamp.proto":
			files(w, times())
		case "shop.Broken":
			fails(w, 13)
		default:
			fails(w, codeNotFound)
		}
	})
	m, err := Ask(t.Context(), client, url, http.Header{}, "box.Store/Put")
	if err != nil {
		t.Fatal(err)
	}
	asked = nil
	bodies, err := m.Bodies(t.Context(), []byte(`{"more": [{"@type": "a/shop.Order", "when": "2026-01-02T15:04:05Z"}, {"@type": "a/shop.All", "f3": 1}]} {"held": {"@type": "b/shop.All", "f3": 2}}`))
	if want := "4 shop.Order, 3 google/protobuf/timestamp.proto"; err != nil || len(bodies) != 2 || strings.Join(asked, ", ") != want {
		t.Errorf("%d bodies, %v; it was asked %q, want %s", len(bodies), err, asked, want)
	}
	for name, want := range map[string]string{
		"shop.Nosuch": `asking the server for shop.Nosuch, which an "@type" names: unknown to the server`,
		"shop.Broken": `error 13: "no"`,
	} {
		if _, err := m.Bodies(t.Context(), []byte(`{"held": {"@type": "a/`+name+`"}}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Bodies(ctx, []byte(`{"held": {"@type": "a/shop.Other"}}`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
