package hey

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// real runs the installed hey, and returns what it prints.
func real(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("hey")
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_HEY") != "" {
			t.Fatal("hey is not installed, but UNTHROTTLE_REQUIRE_HEY is set")
		}
		t.Skip("hey is not installed")
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// ours runs the same command line with our engine.
func ours(t *testing.T, args ...string) (string, *Report) {
	t.Helper()
	o, err := Parse(args, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(o)
	o.Plan.Each = c.Add
	r, err := load.Start(t.Context(), o.Plan)
	if err != nil {
		t.Fatal(err)
	}
	report := c.Report(r.Wait())
	return text(t, report, o.Output), report
}

// A site is a server to test with. It counts what it is asked for.
type site struct {
	*httptest.Server
	asked atomic.Int64
	mu    sync.Mutex
	last  *http.Request
	body  string
}

func newSite(t *testing.T, tls bool) *site {
	s := &site{}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.last, s.body = r, string(body)
		s.mu.Unlock()
		io.WriteString(w, "hello")
	})
	mux.HandleFunc("/fifth", func(w http.ResponseWriter, _ *http.Request) {
		if s.asked.Load()%5 == 0 {
			http.Error(w, "no", http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	var each sync.Mutex // one at a time: every fifth is a fifth
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		each.Lock()
		defer each.Unlock()
		s.asked.Add(1)
		mux.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestSideBySide runs hey and us against the same server, and reads what both say with the same parser.
func TestSideBySide(t *testing.T) {
	slowtest.Skip(t)
	plain, secure := newSite(t, false), newSite(t, true)
	for _, c := range []struct {
		args     string
		url      string
		hey, our string // statuses
	}{
		{"-n 200", plain.URL, "200: 200", "200: 200"},
		{"-n 205 -c 10", plain.URL, "200: 200", "200: 205"}, // that is hey's mistake
		{"-n 40 -c 4 -q 100", plain.URL, "200: 40", "200: 40"},
		{"-n 200 -c 10", plain.URL + "/fifth", "200: 160, 500: 40", "200: 160, 500: 40"},
		{"-n 100 -c 10", plain.URL + "/moved", "200: 100", "200: 100"},
		{"-n 100 -c 10 -disable-redirects", plain.URL + "/moved", "302: 100", "302: 100"},
		{"-n 100 -c 10 -disable-keepalive -disable-compression", plain.URL, "200: 100", "200: 100"},
		{"-n 100 -c 10 -m post -d abc -T text/plain -A */*", plain.URL, "200: 100", "200: 100"},
		{"-n 100 -c 10 -x " + strings.TrimPrefix(plain.URL, "http://"), "http://nowhere.invalid/", "", "200: 100"}, // hey's -x takes a URL only
		{"-n 100 -c 10 -x " + plain.URL, "http://nowhere.invalid/", "200: 100", "200: 100"},
		{"-n 100 -c 10 -host a.example", secure.URL, "200: 100", "200: 100"},
		{"-n 100 -c 10 -h2", secure.URL, "200: 100", "200: 100"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append(strings.Fields(c.args), c.url)
			said, _ := ours(t, args...)
			our := mustParse(t, said)
			if got := statuses(our); got != c.our {
				t.Errorf("we count %q, want %q: %s", got, c.our, said)
			}
			if len(our.below) != 3 {
				t.Errorf("%d lines below", len(our.below))
			}
			if c.hey == "" {
				return
			}
			theirs := real(t, args...)
			hey := mustParse(t, theirs)
			if block := masked(theirs); !strings.HasPrefix(masked(said), block) {
				t.Errorf("hey's layout is\n%s\nours is\n%s", block, masked(said))
			}
			if got := statuses(hey); got != c.hey {
				t.Errorf("hey counts %q, want %q", got, c.hey)
			}
			if len(hey.below) > 0 {
				t.Errorf("hey says more: %q", hey.below)
			}
			if hey.shape() != our.shape() {
				t.Errorf("hey's is %s\nours is  %s", hey.shape(), our.shape())
			}
			if c.hey == c.our && hey.summary["Total data"] != our.summary["Total data"] {
				t.Errorf("hey counts %v bytes, we %v", hey.summary["Total data"], our.summary["Total data"])
			}
		})
	}
}

// masked leaves the layout only, to the byte: no figures, no bars, and one percent sign where hey 0.1.5 has two.
func masked(text string) string {
	text = figures.ReplaceAllString(strings.ReplaceAll(text, "%%", "%"), "N")
	return strings.ReplaceAll(text, "■", "")
}

var figures = regexp.MustCompile(`\d+(\.\d+)?`)

func statuses(p *parsed) string {
	var s []string
	for _, status := range slices.Sorted(maps.Keys(p.statuses)) {
		s = append(s, fmt.Sprintf("%d: %d", status, p.statuses[status]))
	}
	return strings.Join(s, ", ")
}

// TestRefused: a server that is not there, with the same words.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/a%2Fb"
	l.Close()
	said, report := ours(t, "-n", "4", "-c", "2", url)
	our := mustParse(t, said)
	want := fmt.Sprintf("Get %q: dial tcp %s: connect: connection refused", url, l.Addr())
	if our.errors[want] != 4 && os.PathSeparator == '/' { // Windows has other words
		t.Errorf("%v, want %s", our.errors, want)
	}
	if !report.AllFailed() || our.failed() != 4 {
		t.Error("not all have failed")
	}
	hey := mustParse(t, real(t, "-n", "4", "-c", "2", url))
	if hey.failed() != 4 || hey.shape() != our.shape() {
		t.Errorf("hey says %v, %s, we %s", hey.errors, hey.shape(), our.shape())
	}
}

// TestRate: -q holds each worker back, in hey and here, and the rate asked for is reported.
func TestRate(t *testing.T) {
	s := newSite(t, false)
	args := []string{"-n", "40", "-c", "2", "-q", "100", s.URL}
	said, _ := ours(t, args...)
	for who, p := range map[string]*parsed{"we": mustParse(t, said), "hey": mustParse(t, real(t, args...))} {
		// Twenty requests of each worker, the first after 10 ms.
		if p.summary["Total"] < 0.199 {
			t.Errorf("%s needed %v s", who, p.summary["Total"])
		}
	}
	if !strings.Contains(said, "200.0/s were asked for, ") || !strings.Contains(said, "Intended-time latency (-q") {
		t.Error(said)
	}
}

func TestDuration(t *testing.T) {
	s := newSite(t, false)
	args := []string{"-z", "300ms", "-c", "2", "-q", "100", s.URL}
	said, _ := ours(t, args...)
	our, hey := mustParse(t, said), mustParse(t, real(t, args...))
	if n := our.answered(); n < 1 || n > 60 || our.failed() > 0 {
		t.Errorf("%d answers, %d errors", n, our.failed())
	}
	if n := hey.answered(); n < 1 || n > 62 {
		t.Errorf("hey: %d answers", n)
	}
}

// TestSent: what arrives at the server.
func TestSent(t *testing.T) {
	s := newSite(t, false)
	ours(t, "-n", "1", "-c", "1", "-m", "put", "-d", "body", "-a", "user:pass", "-H", "Host: a.example", "-H", "X-A: b", s.URL+"/x?y=z")
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.last
	user, password, _ := r.BasicAuth()
	got := fmt.Sprint(r.Method, " ", r.URL, " ", r.Host, " ", user, " ", password, " ", s.body, " ", r.Header.Get("Content-Type"), " ",
		r.Header.Get("X-A"), " ", r.UserAgent())
	if want := "PUT /x?y=z a.example user pass body text/html b hey/0.0.1 (unthrottle)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRealCSV: the same header, as many rows, the same columns.
func TestRealCSV(t *testing.T) {
	s := newSite(t, false)
	args := []string{"-n", "20", "-c", "2", "-o", "csv", s.URL}
	said, _ := ours(t, args...)
	our, hey := strings.Split(said, "\n"), strings.Split(real(t, args...), "\n")
	if len(our) != len(hey) || our[0] != hey[0] {
		t.Fatalf("%d lines, hey has %d; %s, hey has %s", len(our), len(hey), our[0], hey[0])
	}
	for _, line := range our[1 : len(our)-1] {
		columns := strings.Split(line, ",")
		if len(columns) != 8 || columns[6] != "200" {
			t.Error(line)
		}
	}
}

// TestRealJSON: the same keys, of the same kinds.
func TestRealJSON(t *testing.T) {
	s := newSite(t, false)
	for _, url := range []string{s.URL, "http://127.0.0.1:1/"} {
		args := []string{"-n", "4", "-c", "2", "-o", "{{ jsonify . }}", url}
		said, _ := ours(t, args...)
		var our, hey map[string]any
		if err := json.Unmarshal([]byte(said), &our); err != nil {
			t.Fatal(err)
		}
		theirs := real(t, args...)
		if strings.TrimSpace(theirs) == "" {
			continue // NaN is not JSON
		}
		if err := json.Unmarshal([]byte(theirs), &hey); err != nil {
			t.Fatal(err)
		}
		for name, value := range hey {
			if fmt.Sprintf("%T", value) != fmt.Sprintf("%T", our[name]) {
				t.Errorf("%s is %T, ours is %T", name, value, our[name])
			}
			if list, ok := value.([]any); ok && len(list) != len(our[name].([]any)) {
				t.Errorf("%s has %d, ours %d", name, len(list), len(our[name].([]any)))
			}
		}
		if len(our) != len(hey) || our["NumRes"] != hey["NumRes"] {
			t.Errorf("%v, ours %v", slices.Sorted(maps.Keys(hey)), slices.Sorted(maps.Keys(our)))
		}
	}
}
