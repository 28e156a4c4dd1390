package demo

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/show/browsertest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// serverEnv makes the test binary a server, which can be started under a limit.
const serverEnv = "UNTHROTTLE_DEMO_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		if err := beServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beServer writes its address and serves until it is interrupted.
func beServer() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return New(Options{}).Serve(ctx, l)
}

// openBrowser opens the live page in a browser of the test's own.
func openBrowser(t *testing.T, url string) context.Context {
	t.Helper()
	ctx := browsertest.Start(t)
	browsertest.Do(t, ctx, chromedp.Navigate(url))
	waitFor(t, ctx, "the stream", `document.getElementById("connection").textContent === "live"`)
	return ctx
}

// waitFor waits until an expression is true in the page.
func waitFor(t *testing.T, ctx context.Context, what, expression string) {
	t.Helper()
	var result bool
	if err := chromedp.Run(ctx, chromedp.Poll(expression, &result, chromedp.WithPollingInterval(100*time.Millisecond),
		chromedp.WithPollingTimeout(time.Minute))); err != nil {
		var page string
		_ = chromedp.Run(ctx, chromedp.Text("main", &page))
		t.Fatalf("waiting for %s: %v\n%s", what, err, page)
	}
}

func textOf(t *testing.T, ctx context.Context, id string) (text string) {
	t.Helper()
	browsertest.Do(t, ctx, chromedp.TextContent("#"+id, &text, chromedp.ByQuery))
	return text
}

// become makes the page so wide, and light or dark.
func become(t *testing.T, ctx context.Context, width int64, scheme string) {
	t.Helper()
	height := int64(800)
	if width < 500 {
		height = 844 // a phone's
	}
	browsertest.Do(t, ctx, chromedp.EmulateViewport(width, height), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme},
	}))
}

// tooWide names what is wider than the page may be.
const tooWide = `(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return "";
  return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > width + 1)
    .map(e => e.tagName + "#" + e.id).join(" ") || "something";
})()`

func checkWidths(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, width := range []int64{320, 390, 768, 960, 1280} {
		become(t, ctx, width, "light")
		var wide string
		browsertest.Do(t, ctx, chromedp.Evaluate(tooWide, &wide))
		if wide != "" {
			t.Errorf("at a width of %d there is too wide: %s", width, wide)
		}
	}
}

// A box is where an element is in the window.
type box struct{ Left, Top, Right, Bottom float64 }

func boxOf(t *testing.T, ctx context.Context, id string) (b box) {
	t.Helper()
	const rect = `(r => ({Left: r.left, Top: r.top, Right: r.right, Bottom: r.bottom}))(document.getElementById(%q).getBoundingClientRect())`
	browsertest.Do(t, ctx, chromedp.Evaluate(fmt.Sprintf(rect, id), &b))
	return b
}

// checkBeside holds that a user who moves the slider need not scroll to see what that does to the strip.
func checkBeside(t *testing.T, ctx context.Context) {
	t.Helper()
	become(t, ctx, 1280, "light")
	browsertest.Do(t, ctx, chromedp.Evaluate(`scrollTo(0, 0)`, nil))
	strip := boxOf(t, ctx, "strip")
	for _, id := range []string{"procs", "rate-dial", "start"} {
		if b := boxOf(t, ctx, id); b.Left < strip.Right || b.Top < 0 || b.Bottom > 800 {
			t.Errorf("at 1280×800 %s is at %+v, not beside the strip at %+v", id, b, strip)
		}
	}
	if strip.Top < 0 || strip.Bottom > 800 {
		t.Errorf("at 1280×800 the strip is at %+v", strip)
	}
	become(t, ctx, 390, "light")
	if strip, procs := boxOf(t, ctx, "strip"), boxOf(t, ctx, "procs"); procs.Top < strip.Bottom || procs.Bottom-strip.Top > 844 {
		t.Errorf("on a phone the strip is at %+v and the slider at %+v: they are not seen at once", strip, procs)
	}
}

// pictures saves the page as it looks, for people, where the environment says where to.
func pictures(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("UNTHROTTLE_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			become(t, ctx, width, scheme)
			var png []byte
			// The next state draws the strip in its new size.
			browsertest.Do(t, ctx, chromedp.Sleep(2*liveEvery), chromedp.FullScreenshot(&png, 100))
			file := filepath.Join(dir, fmt.Sprintf("demo-%s-%d-%s.png", name, width, scheme))
			if err := os.WriteFile(file, png, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBrowser(t *testing.T) {
	slowtest.Skip(t)
	keepProcs(t)
	_, server := serve(t, Options{})
	ctx := openBrowser(t, server.URL)

	runtime.GOMAXPROCS(2)
	waitFor(t, ctx, "the number", `document.getElementById("procs").value === "2"`)
	browsertest.Do(t, ctx, chromedp.Focus("#procs", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	waitFor(t, ctx, "GET /maxProcs", `fetch("maxProcs").then(a => a.json()).then(a => a.gomaxprocs === 4)`)
	if got := runtime.GOMAXPROCS(0); got != 4 {
		t.Errorf("the slider has set GOMAXPROCS to %d, want 4", got)
	}
	waitFor(t, ctx, "the page", `document.getElementById("procs-now").textContent === "4"`)

	// The strip has a mark where the slider moved, and one where someone else has set the number.
	mark := `[...document.querySelectorAll("#marks .flag")].some(f => f.textContent === "%d" && (r =>
		r.width > 0 && r.left >= strip.getBoundingClientRect().left && r.right <= strip.getBoundingClientRect().right)(f.getBoundingClientRect()))`
	waitFor(t, ctx, "the mark", fmt.Sprintf(mark, 4))
	runtime.GOMAXPROCS(3)
	waitFor(t, ctx, "the other mark", fmt.Sprintf(mark, 3))
	checkBeside(t, ctx)

	// The controls follow a load that is set from elsewhere.
	elsewhere := func(rate int, path string) {
		t.Helper()
		body := strings.NewReader(fmt.Sprintf(`{"rate": %d, "path": %q}`, rate, path))
		answer, err := http.Post(server.URL+"/load", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("POST /load: %s", answer.Status)
		}
	}
	controls := `document.getElementById("rate").value === "%[1]d" && document.getElementById("rate-dial").value === "%[1]d" && document.getElementById("path").value === %[2]q`
	for _, load := range []wish{{3, "/work?cpu=50ms"}, {250, "/work?cpu=1ms"}} {
		elsewhere(int(load.Rate), load.Path)
		waitFor(t, ctx, "the dial", fmt.Sprintf(controls, int(load.Rate), load.Path))
	}
	elsewhere(0, "")
	waitFor(t, ctx, "the end of the load", `document.getElementById("stop").disabled`)

	// Start, change and stop a load without a mouse.
	browsertest.Do(t, ctx, chromedp.Focus("#start", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	waitFor(t, ctx, "figures", `document.getElementById("response-p99").textContent !== "–"`)
	browsertest.Do(t, ctx, chromedp.Focus("#rate-dial", chromedp.ByQuery), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.Tab))
	waitFor(t, ctx, "the other rate", `document.getElementById("asked").textContent === "1/s"`)
	browsertest.Do(t, ctx, chromedp.Focus("#stop", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	waitFor(t, ctx, "the end of the load", `document.getElementById("asked").textContent === "–"`)

	checkWidths(t, ctx)
	pictures(t, ctx, "free")
}

// Under a real limit the page shows what the limit does.
func TestBrowserUnderALimit(t *testing.T) {
	slowtest.Skip(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	run, err := runner.Start(runner.Limit{CPUs: 0.5}, runner.Cgroup, runner.Command{
		Args: []string{program}, Env: append(os.Environ(), serverEnv+"=1", "GOMAXPROCS=2"), Stdout: toUs, Stderr: os.Stderr,
	})
	toUs.Close()
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
			t.Fatal(err)
		}
		t.Skipf("a program can't be held to a limit here: %v", err)
	}
	t.Cleanup(func() {
		_ = run.Signal(os.Interrupt)
		if result := run.Wait(); result.ExitCode != 0 {
			t.Errorf("the server ended with %d", result.ExitCode)
		}
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	ctx := openBrowser(t, "http://"+strings.TrimSpace(address))
	if got := textOf(t, ctx, "limit"); got != "0.5 CPUs" {
		t.Errorf("the limit is %q", got)
	}
	browsertest.Do(t, ctx, chromedp.Click("#numbers summary", chromedp.ByQuery), chromedp.SetValue("#rate", "120", chromedp.ByQuery), chromedp.Click("#start", chromedp.ByQuery))
	waitFor(t, ctx, "throttled periods", `/^Throttled in [1-9]\d* of/.test(document.getElementById("summary").textContent)`)
	waitFor(t, ctx, "a throttled period in the table", `document.getElementById("cells").textContent.includes("throttled")`)
	waitFor(t, ctx, "figures", `document.getElementById("cpu-per-request").textContent !== "–"`)
	if os.Getenv("UNTHROTTLE_SCREENSHOTS") != "" {
		browsertest.Do(t, ctx, chromedp.Click("#numbers summary", chromedp.ByQuery), chromedp.Sleep(25*time.Second),
			chromedp.Focus("#procs", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft), chromedp.Sleep(8*time.Second))
	}
	t.Log(textOf(t, ctx, "summary"))
	checkWidths(t, ctx)
	pictures(t, ctx, "limit")
	browsertest.Do(t, ctx, chromedp.Click("#stop", chromedp.ByQuery))
	waitFor(t, ctx, "the end of the load", `document.getElementById("asked").textContent === "–"`)
}
