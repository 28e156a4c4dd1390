package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// asServer in the environment makes the test binary a server of a kind.
const asServer = "SERVICE_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		serve(kind, os.Args[1])
		return
	}
	os.Exit(m.Run())
}

func serve(kind, address string) {
	switch kind {
	case "crash":
		fmt.Println("starting")
		fmt.Fprintln(os.Stderr, "panic: no such table")
		os.Exit(3)
	case "mute":
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "parent":
		exec.Command("sleep", "1000").Start()
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening on", l.Addr())
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind == "dies" {
			fmt.Println("out of luck")
			os.Exit(7)
		}
		if kind == "errors" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
}

// spec is a server of a kind, at a port that is free.
func spec(t *testing.T, kind string) (s Spec, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Args: []string{self, address}, Env: append(os.Environ(), asServer+"="+kind), With: runner.Auto, Ready: Ready{Address: address}}, "http://" + address + "/"
}

func TestStart(t *testing.T) {
	for _, ready := range []string{"URL", "address", "line", "time"} {
		t.Run(ready, func(t *testing.T) {
			s, url := spec(t, "good")
			switch ready {
			case "URL":
				s.Ready = Ready{URL: url}
			case "line":
				r, err := ParseReady("^listening on .*:[0-9]+$")
				if err != nil {
					t.Fatal(err)
				}
				s.Ready = r
			case "time":
				s.Ready = Ready{After: time.Millisecond}
			}
			server, err := Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if ready != "time" && !answers(t.Context(), nil, url) {
				t.Error("it is ready and does not answer")
			}
			if err := server.Check(); err != nil {
				t.Error(err)
			}
			if _, obeyed := server.Stop(); !obeyed {
				t.Error("it had to be killed")
			}
			if answers(t.Context(), nil, url) {
				t.Error("it is stopped and answers")
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		kind    string
		ready   string // "": its address
		timeout time.Duration
		want    string
		output  string
	}{
		{"crash", "", time.Minute, "ended before it was ready: exit code 3", "panic: no such table"},
		{"mute", "", 100 * time.Millisecond, "not ready within 100ms (nothing listened on", ""},
		{"mute", "^ready$", 100 * time.Millisecond, `no line matched "^ready$"`, ""},
		{"errors", "URL", 200 * time.Millisecond, "answers with status 500", "listening on"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			s, url := spec(t, test.kind)
			s.Timeout = test.timeout
			if test.ready == "URL" {
				s.Ready = Ready{URL: url}
			} else if test.ready != "" {
				s.Ready, _ = ParseReady(test.ready)
			}
			_, err := Start(t.Context(), s)
			var failure *Error
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.output) {
				t.Errorf("got %v, want %q and %q", err, test.want, test.output)
			}
		})
	}
	s, _ := spec(t, "good")
	s.Args = []string{"/nosuchprogram"}
	var missing *runner.CommandError
	if _, err := Start(t.Context(), s); !errors.As(err, &missing) {
		t.Errorf("got %v, want an error of the command", err)
	}
}

// TestElsewhere: a server that listens somewhere else than it is expected to is said to.
func TestElsewhere(t *testing.T) {
	slowtest.Skip(t)
	s, _ := spec(t, "good")
	at := s.Ready.Address
	other, _ := spec(t, "good")
	for _, ready := range []Ready{other.Ready, {URL: "http://" + other.Ready.Address + "/"}} {
		s.Ready, s.Timeout = ready, time.Second
		_, port, _ := net.SplitHostPort(at)
		if _, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), ", and it listens on "+port+" instead)") {
			t.Errorf("%+v: %v", ready, err)
		}
	}
	s.Ready, s.Timeout, s.Patient = other.Ready, time.Minute, true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := ""
	s.Late = func(text string) { said = text; cancel() }
	if _, err := Start(ctx, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !strings.HasPrefix(said, "nothing listened on ") || !strings.HasSuffix(said, ": waiting for it, for 1m0s at most") {
		t.Errorf("%q", said)
	}
}

// TestInVain: a server that is seen to have no chance of getting ready is not waited for.
func TestInVain(t *testing.T) {
	slowtest.Skip(t)
	elsewhere, _ := spec(t, "good")
	other, _ := spec(t, "good")
	at := elsewhere.Ready.Address
	elsewhere.Ready = other.Ready
	failing, url := spec(t, "errors")
	failing.Ready = Ready{URL: url}
	mute, _ := spec(t, "mute")
	for name, c := range map[string]struct {
		start func() error
		want  string
		least time.Duration
	}{
		"another port": {func() error { _, err := Start(t.Context(), elsewhere); return err }, "nothing listened on " + other.Ready.Address + ", and it listens on " + at[len("127.0.0.1:"):] + " instead;", lateAfter},
		"500":          {func() error { _, err := Start(t.Context(), failing); return err }, url + " answers with status 500;", vainAfter},
		"no port":      {func() error { _, err := FindURL(t.Context(), mute); return err }, "it listens on no port after 10s;", vainAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			if err := c.start(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if took := time.Since(begin); took < c.least || took > defaultTimeout/2 {
				t.Errorf("it took %v, and was to take %v", took, c.least)
			}
		})
	}
}

// TestFindNothing: why no URL was found.
func TestFindNothing(t *testing.T) {
	crash, _ := spec(t, "crash")
	mute, _ := spec(t, "mute")
	mute.Timeout = 100 * time.Millisecond
	for want, s := range map[string]Spec{"exit code 3": crash, "it listens on no port within 100ms": mute} {
		if _, err := FindURL(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "while it was measured") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Another process at the address would be measured in the server's place.
func TestTaken(t *testing.T) {
	s, _ := spec(t, "good")
	l, err := net.Listen("tcp", s.Ready.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is an old one still running?") {
		t.Errorf("got %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	s, _ := spec(t, "mute")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestDeafServer(t *testing.T) {
	s, url := spec(t, "deaf")
	s.Grace = 100 * time.Millisecond
	server, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, obeyed := server.Stop()
	if obeyed || r.Signal == "" || answers(t.Context(), nil, url) {
		t.Errorf("obeyed %v, ended by %q", obeyed, r.Signal)
	}
}

func TestServerThatDies(t *testing.T) {
	s, url := spec(t, "dies")
	server, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	answers(t.Context(), nil, url)
	<-server.Ended()
	if err := server.Check(); err == nil || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("got %v", err)
	}
	server.Stop()
}

func TestParseReady(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"http://localhost:8080/healthz", "http://localhost:8080/healthz did not answer with a status below 500"},
		{"8080", "nothing listened on localhost:8080"},
		{":8080", "nothing listened on localhost:8080"},
		{"127.0.0.1:80", "nothing listened on 127.0.0.1:80"},
		{"2s", "after 2s"},
		{"listening on", `no line matched "listening on"`},
		{"ready: true", `no line matched "ready: true"`},
	} {
		if r, err := ParseReady(test.text); err != nil || r.missing(new(answer)) != test.want {
			t.Errorf("%q: %v, %v, want %s", test.text, r, err, test.want)
		}
	}
	for _, bad := range []string{"", "-1s", "(", "http://a b/"} {
		if r, err := ParseReady(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, r)
		}
	}
}

func TestTail(t *testing.T) {
	w := newTail(func(line []byte) bool { return string(line) == "ready" }, nil)
	for i := range 30 {
		fmt.Fprintf(w, "line %d\r\n", i)
	}
	fmt.Fprint(w, "rea")
	select {
	case <-w.matched:
		t.Fatal("matched too early")
	default:
	}
	fmt.Fprint(w, "dy")
	<-w.matched
	fmt.Fprint(w, strings.Repeat("x", 5000))
	last := w.last()
	asked := newTail(func([]byte) bool { return false }, func(line []byte) bool { return bytes.HasPrefix(line, []byte("gc ")) })
	fmt.Fprint(asked, "hello\ngc 1 @0.1s\nworld\n")
	if got := asked.last(); !slices.Equal(got, []string{"hello", "world"}) {
		t.Errorf("with what was asked for: %q", got)
	}
	if len(last) != maxLines+1 || last[0] != "line 10" || len(last[maxLines]) != maxLine {
		t.Errorf("%d lines, the first %q", len(last), last[0])
	}
}

func FuzzParseReady(f *testing.F) {
	for _, text := range []string{"8080", "http://x/", "2s", "a|b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseReady(text); err == nil && r.missing(new(answer)) == "" {
			t.Error("nothing is waited for")
		}
	})
}
