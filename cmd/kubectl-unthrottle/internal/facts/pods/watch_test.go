package pods

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// A script is a server that needs no network, so that tests of time need none either.
type script struct {
	mu    sync.Mutex
	asked []string // "list" or "watch 12", with the second in which it was asked
	began time.Time

	list           func(n int) (code int, body string)                                  // the n-th list, from 1
	watch          func(ctx context.Context, n int, version string, out *io.PipeWriter) // it closes out
	lists, watches int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	q := r.URL.Query()
	answer := &http.Response{StatusCode: 200, Header: http.Header{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int(time.Since(s.began).Seconds())
	if q.Get("watch") == "" {
		s.lists++
		s.asked = append(s.asked, fmt.Sprintf("%d list", at))
		code, body := s.list(s.lists)
		if code == 0 { // it hangs
			s.mu.Unlock()
			<-r.Context().Done()
			s.mu.Lock()
			return nil, r.Context().Err()
		}
		answer.StatusCode, answer.Body = code, io.NopCloser(strings.NewReader(body))
		return answer, nil
	}
	s.watches++
	s.asked = append(s.asked, fmt.Sprintf("%d watch %s", at, q.Get("resourceVersion")))
	in, out := io.Pipe()
	go s.watch(r.Context(), s.watches, q.Get("resourceVersion"), out)
	context.AfterFunc(r.Context(), func() { out.CloseWithError(r.Context().Err()) })
	answer.Body = in
	return answer, nil
}

// counts are how many lists and watches there were.
func (s *script) counts() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

func (s *script) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ", ")
}

// one is a list of a pod with a container, whose image is of some name.
func one(version, image string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, version, object("1", "a", idA, image))
}

func object(version, uid, id, image string) string {
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":"shop","name":"p","uid":%q,"resourceVersion":%q},"spec":{"nodeName":"node1","containers":[{"name":"app","image":%q}]},`+
		`"status":{"containerStatuses":[{"name":"app","containerID":"containerd://%s"}]}}`, uid, version, image, id)
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }

// image is that of a container, "" if it is not known.
func image(s Source, id string) string {
	c, _ := s.Container(podpath.Ref{Container: id})
	return c.Image
}

// scripted watches a script in a bubble, where time passes when all wait.
func scripted(t *testing.T, s *script, test func(w *watcher)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s.began = time.Now()
		w, err := newWatcher(&rest.Config{Host: "http://api.test"}, "node1")
		if err != nil {
			t.Fatal(err)
		}
		w.client = &http.Client{Transport: s}
		if w.Err() != errNotYet {
			t.Errorf("at first: %v", w.Err())
		}
		go w.run(ctx)
		synctest.Wait()
		test(w)
		cancel()
		<-w.done
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

// hold keeps a watch open without a word.
func hold(ctx context.Context, _ int, _ string, out *io.PipeWriter) { <-ctx.Done() }

// TestWatch: it knows what the list and the events say, and asks from the last version that it received.
func TestWatch(t *testing.T) {
	var events chan string
	s := &script{
		list: func(int) (int, string) {
			events = make(chan string) // of the bubble
			return 200, one("7", "app:1")
		},
		watch: func(ctx context.Context, _ int, _ string, out *io.PipeWriter) {
			for {
				select {
				case e := <-events:
					if e == "end" {
						out.Close()
						return
					}
					fmt.Fprintln(out, e)
				case <-ctx.Done():
					return
				}
			}
		},
	}
	scripted(t, s, func(w *watcher) {
		say := func(e string) { events <- e; synctest.Wait() }
		if image(w, idA) != "app:1" || w.Err() != nil {
			t.Errorf("listed: %q, %v", image(w, idA), w.Err())
		}
		say(event("ADDED", object("8", "b", idB, "new:1")))
		say(event("MODIFIED", object("9", "a", idA, "app:2")))
		if image(w, idA) != "app:2" || image(w, idB) != "new:1" {
			t.Errorf("told: %q and %q", image(w, idA), image(w, idB))
		}
		say(event("MODIFIED", object("10", "b", "another", "new:1"))) // it was started again
		if image(w, idB) != "" || image(w, "another") != "new:1" {
			t.Errorf("restarted: %q and %q", image(w, idB), image(w, "another"))
		}
		say(event("DELETED", object("11", "a", idA, "app:2")))
		say(event("BOOKMARK", `{"kind":"Pod","metadata":{"resourceVersion":"20"},"spec":{"containers":null},"status":{}}`))
		say(event("ADDED", strings.Replace(object("21", "c", "elsewhere", "x"), "node1", "node2", 1)))
		if len(w.byID) != 1 || len(w.ofPods) != 1 {
			t.Errorf("%v", w.byID)
		}
		say("end")
		pass(time.Second)
		if got := s.said(); got != "0 list, 0 watch 7, 0 watch 21" && got != "0 list, 0 watch 7, 1 watch 21" {
			t.Error(got)
		}
		if w.Err() != nil {
			t.Error(w.Err())
		}
	})
}

// TestGone: an API server that forgot the version, by its status or by an event, is asked for all again.
func TestGone(t *testing.T) {
	s := &script{
		list: func(n int) (int, string) { return 200, one(fmt.Sprint(n), fmt.Sprintf("app:%d", n)) },
		watch: func(ctx context.Context, n int, _ string, out *io.PipeWriter) {
			if n == 1 {
				fmt.Fprint(out, event("ERROR", `{"kind":"Status","metadata":{},"status":"Failure","message":"too old resource version: 1 (5)","reason":"Expired","code":410}`))
				out.Close()
				return
			}
			<-ctx.Done()
		},
	}
	scripted(t, s, func(w *watcher) {
		pass(2 * time.Second)
		if lists, _ := s.counts(); image(w, idA) != "app:2" || w.Err() != nil || lists != 2 {
			t.Errorf("%q, %v: %s", image(w, idA), w.Err(), s.said())
		}
	})
}

// TestAway: what was known is kept while the server is away, and the attempts become rarer.
func TestAway(t *testing.T) {
	var back atomic.Bool
	s := &script{watch: func(ctx context.Context, n int, _ string, out *io.PipeWriter) {
		switch {
		case back.Load():
		case n == 1:
			time.Sleep(10 * time.Second)
			fallthrough
		default:
			out.CloseWithError(io.ErrUnexpectedEOF)
		}
	}}
	s.list = func(int) (int, string) { return 200, one("7", "app:1") }
	scripted(t, s, func(w *watcher) {
		pass(9 * time.Second)
		if w.Err() != nil {
			t.Error(w.Err())
		}
		pass(time.Hour)
		err := w.Err()
		if image(w, idA) != "app:1" || err == nil || !strings.Contains(err.Error(), "asking the API server at api.test for the pods of node node1: ") || len(hint.Of(err)) == 0 {
			t.Errorf("%q, %v", image(w, idA), err)
		}
		if lists, watches := s.counts(); lists != 1 || watches < 60 || watches > 150 {
			t.Errorf("in an hour %d lists and %d watches", lists, watches)
		}
		back.Store(true)
		pass(time.Minute)
		if image(w, idA) != "app:1" || w.Err() != nil {
			t.Errorf("back again: %v", w.Err())
		}
	})
}

// TestHanging: neither a list nor a watch is waited for without end.
func TestHanging(t *testing.T) {
	s := &script{
		list: func(n int) (int, string) {
			if n == 1 {
				return 0, ""
			}
			return 200, one("7", "app:1")
		},
		watch: hold,
	}
	scripted(t, s, func(w *watcher) {
		pass(59 * time.Second)
		if w.Err() != errNotYet {
			t.Error(w.Err())
		}
		pass(10 * time.Second)
		if image(w, idA) != "app:1" || w.Err() != nil {
			t.Errorf("%q, %v", image(w, idA), w.Err())
		}
		pass(time.Hour) // each watch lasts five to ten minutes, and one more of patience
		if lists, watches := s.counts(); w.Err() != nil || watches < 5 || watches > 13 || lists != 2 {
			t.Errorf("%v: %s", w.Err(), s.said())
		}
	})
}

// TestLies: what isn't a list of pods, or an event, is reported, and nothing known is lost.
func TestLies(t *testing.T) {
	for name, c := range map[string]struct{ list, event, want string }{
		"a page":          {list: "<html>welcome</html>", want: errNotPods.Error()},
		"another kind":    {list: `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[]}`, want: "a NodeList"},
		"no version":      {list: `{"kind":"PodList","items":[]}`, want: "a list without a version"},
		"no list":         {list: `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":{"a":1}}`, want: errNotPods.Error()},
		"a number":        {list: `7`, want: errNotPods.Error()},
		"another shape":   {list: `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{"spec":"none"}]}`, want: "cannot unmarshal"},
		"no quantity":     {list: `{"kind":"PodList","items":[{"spec":{"resources":{"limits":{"cpu":"much"}}}}]}`, want: "a number of CPUs: \"much\" is not a quantity"},
		"cut off":         {list: one("7", "app:1")[:200], want: "unexpected EOF"},
		"nothing":         {list: "", want: "EOF"},
		"no event":        {event: `{"type":"ADDED","object":7}`, want: errNotPods.Error()},
		"unknown event":   {event: event("RENAMED", object("8", "b", idB, "x")), want: `an event of type "RENAMED"`},
		"an error":        {event: event("ERROR", `{"kind":"Status","status":"Failure","code":500,"message":"etcdserver: no leader"}`), want: "answered with 500 Internal Server Error: etcdserver: no leader"},
		"an error of air": {event: event("ERROR", `7`), want: errNotPods.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{watch: func(ctx context.Context, _ int, _ string, out *io.PipeWriter) {
				if c.event != "" {
					fmt.Fprint(out, c.event)
				}
				<-ctx.Done()
			}}
			s.list = func(n int) (int, string) {
				if c.list != "" || c.event == "" {
					return 200, c.list
				}
				return 200, one("7", "app:1")
			}
			scripted(t, s, func(w *watcher) {
				if err := w.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if c.event != "" && image(w, idA) != "app:1" {
					t.Error("it forgot what it knew")
				}
			})
		})
	}
}

// TestRefused: what is missing is reported, and a server that asks for patience gets it.
func TestRefused(t *testing.T) {
	status := `{"kind":"Status","status":"Failure","message":"pods is forbidden: User \"me\" cannot list resource \"pods\""}`
	for _, c := range []struct {
		code       int
		body       string
		want, hint string
	}{
		{403, status, `answered with 403 Forbidden: pods is forbidden: User "me" cannot list`, "the verbs list and watch for pods"},
		{401, "Unauthorized", "401 Unauthorized", "token is not valid"},
		{500, "<html>no</html>", "500 Internal Server Error", "asked again"},
		{302, "", "302 Found", "asked again"},
		{0, "", "timed out", "asked again"},
	} {
		s := &script{list: func(int) (int, string) { return c.code, c.body }, watch: hold}
		scripted(t, s, func(w *watcher) {
			pass(61 * time.Second)
			err := w.Err()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(hint.Of(err), "\n"), c.hint) {
				t.Errorf("%d: %v (%q)", c.code, err, hint.Of(err))
			}
		})
	}
}

// TestManyBytes: an answer of 100 MB is not kept, whether it is one object, very many, or an error; and no other address is asked.
func TestManyBytes(t *testing.T) {
	const much = 100 << 20
	var sent atomic.Int64
	var elsewhere atomic.Int64
	fill := func(w io.Writer, piece func(i int) string) {
		for i := 0; sent.Load() < much; i++ {
			n, err := io.WriteString(w, piece(i))
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	filler := strings.Repeat("x", 64<<10)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
		most   int64
	}{
		"one object": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"kind":"PodList","items":[{"metadata":{"name":"`)
			fill(w, func(int) string { return filler })
		}, "an object of more than 4 MB", 32 << 20},
		"one name": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"`)
			fill(w, func(int) string { return filler })
		}, "an object of more than 4 MB", 32 << 20},
		"spaces": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"items":[`)
			fill(w, func(int) string { return strings.Repeat(" ", 64<<10) })
		}, "an object of more than 4 MB", 32 << 20},
		"many pods": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"kind":"PodList","items":[`)
			fill(w, func(i int) string { return object("1", fmt.Sprint(i), fmt.Sprint(i), "x") + "," })
		}, "more than 10000 containers of one node", 32 << 20},
		"pods of other nodes": {func(w http.ResponseWriter, _ *http.Request) { // it is read, and none of it kept
			io.WriteString(w, `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[`)
			elsewhere := strings.Repeat(strings.Replace(object("1", "b", idB, filler), "node1", "node2", 1)+",", 8)
			fill(w, func(int) string { return elsewhere })
			io.WriteString(w, object("1", "a", idA, "app:1")+"]}")
		}, "", 2 * much},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fill(w, func(int) string { return filler })
		}, "500 Internal Server Error", 32 << 20},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, "a redirect to http://", much},
	} {
		t.Run(name, func(t *testing.T) {
			sent.Store(0)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("the token is %q", r.Header.Get("Authorization"))
				}
				c.answer(w, r)
			}))
			defer server.Close()
			w, err := newWatcher(&rest.Config{Host: server.URL, BearerToken: "secret"}, "node1")
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err = w.list(t.Context())
			runtime.GC()
			runtime.ReadMemStats(&after)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			server.CloseClientConnections()
			if n := sent.Load(); n > c.most {
				t.Errorf("%d bytes were read", n)
			}
			if c.want == "" && (len(w.byID) != 1 || image(w, idA) != "app:1") {
				t.Errorf("%d containers", len(w.byID))
			}
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
				t.Errorf("%d bytes are kept", kept)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("it went elsewhere")
	}
}

func TestNoNode(t *testing.T) {
	if _, err := Watch(t.Context(), &rest.Config{}, ""); err == nil || len(hint.Of(err)) == 0 {
		t.Error(err)
	}
	if _, err := Watch(t.Context(), &rest.Config{Host: "http://a.test", TLSClientConfig: rest.TLSClientConfig{CAFile: "/none"}}, "node1"); err == nil {
		t.Error("there is no such authority")
	}
}

// TestQuery: what is asked is what an API server answers from memory and by node.
func TestQuery(t *testing.T) {
	w := &watcher{node: "node1"}
	if got := w.ofNode(url.Values{"resourceVersion": {"0"}}).Encode(); got != "fieldSelector=spec.nodeName%3Dnode1%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&resourceVersion=0" {
		t.Error(got)
	}
}

// full is what an API server sends of a full node: 110 pods of three containers, as Kubernetes' own types have them.
func full(t testing.TB) string {
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range 110 {
		p := deployed()
		p.UID = types.UID(fmt.Sprint(i))
		p.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(fmt.Sprintf(`{"f:spec":%q}`, strings.Repeat("x", 8<<10)))
		p.Status.InitContainerStatuses[0].ContainerID = fmt.Sprintf("containerd://a%d", i)
		p.Status.InitContainerStatuses[1].ContainerID = fmt.Sprintf("containerd://b%d", i)
		p.Status.ContainerStatuses[1].ContainerID = fmt.Sprintf("containerd://c%d", i)
		p.Status.EphemeralContainerStatuses = nil
		pods.Items = append(pods.Items, *p)
	}
	return text(t, pods)
}

// BenchmarkList reads it, and says how much of it is kept.
func BenchmarkList(b *testing.B) {
	answer := full(b)
	var s *store
	b.ReportAllocs()
	for b.Loop() {
		s = newStore(nil)
		if _, err := readList(strings.NewReader(answer), s.put); err != nil || len(s.byID) != 330 {
			b.Fatal(err, len(s.byID))
		}
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools keep what they hold for one
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	with := heap()
	runtime.KeepAlive(s)
	s = nil
	b.ReportMetric(with-heap(), "kept-bytes")
	b.ReportMetric(float64(len(answer)), "answer-bytes")
}
