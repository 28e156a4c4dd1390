package view

import (
	"context"
	"fmt"
	"html"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// TestBrowser opens pages in a browser, as wide as a phone and as a desk's screen, and measures whether anything is wider
// than the page, cut off or too small, and whether a table scrolls sideways on a phone. With -artifacts the pages are kept.
func TestBrowser(t *testing.T) {
	browser := findBrowser(t)
	dir := t.ArtifactDir()
	var frames strings.Builder
	pages, widths := browserPages(t), []int{320, 390, 1280}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		var page strings.Builder
		if err := render.HTML(&page, pages[name]); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(page.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, width := range widths {
			fmt.Fprintf(&frames, `<iframe name="%s, %d wide" width="%d" srcdoc="%s"></iframe>`, name, width, width, html.EscapeString(page.String()))
		}
	}
	wrapper := filepath.Join(dir, "measure.html")
	if err := os.WriteFile(wrapper, []byte(strings.Replace(measure, "FRAMES", frames.String(), 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	out, said := browse(t, browser, wrapper)
	for _, line := range regexp.MustCompile(`.*CONSOLE.*`).FindAllString(said, 5) {
		t.Errorf("the browser says: %.300s", line)
	}
	match := regexp.MustCompile(`(?s)<pre id="result">(.*?)</pre>`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the browser did not measure; it wrote %d bytes: %.300s", len(out), out)
	}
	lines := strings.Split(strings.TrimSpace(html.UnescapeString(match[1])), "\n")
	if want := fmt.Sprintf("measured %d pages", len(widths)*len(pages)); lines[len(lines)-1] != want {
		t.Errorf("the browser ended with %q, want %q", lines[len(lines)-1], want)
	}
	for _, line := range lines[:len(lines)-1] {
		t.Error(line)
	}
}

// browserPages are those of each verb that have the most on them, and those whose texts are the worst.
func browserPages(t *testing.T) map[string]*sheet.Sheet {
	watches, traces, profiles, tunes, loads, benches := watches(), traces(t), profiles(), tunes(), loads(), benches()
	return map[string]*sheet.Sheet{
		"ps":              Ps(psDocument()),
		"watch-throttled": Watch(watches["throttled"]), "watch-long": Watch(watches["long"]), "watch-hostile": Watch(hostileWatch()),
		"trace-throttled": Trace(traces["throttled"]), "trace-empty": Trace(traces["empty"]), "trace-hostile": Trace(hostileTrace(t)),
		"profile-live": Profile(profiles["live"]), "profile-alone": Profile(profiles["alone"]), "profile-hostile": Profile(hostileProfile()),
		"tune-change": Tune(tunes["change"]), "tune-loads": Tune(tunes["loads"]), "tune-limits": Tune(tunes["limits"]), "tune-gogc": Tune(tunes["gogc"]), "tune-doubts": Tune(tunes["doubts"]),
		"load-held": Load(loads["held"]), "load-missed": Load(loads["missed"]), "load-find-max": Load(loads["find-max"]), "load-hostile": Load(hostileLoad()),
		"bench-usual": Bench(benches["usual"]), "bench-failures": Bench(benches["failures"]), "bench-large": Bench(benches["large"]), "bench-readfile": Bench(benches["readfile"]), "bench-several": Bench(benches["several"]),
		"tune-hostile": Tune(hostileTune(hostile)), "tune-long": Tune(hostileTune(strings.Repeat("very", 100))),
	}
}

// measure is a page that looks into others: a browser's own window can't be as narrow as a phone.
const measure = `<!DOCTYPE html><meta charset="utf-8"><style>iframe { height: 900px; border: 0 }</style>FRAMES<pre id="result"></pre>
<script>
// A click makes a frame as wide as the graph, and what is searched for is summed up.
const zoom = (flame, say) => {
  const [input, button, sum] = flame.previousElementSibling.children, second = flame.children[Math.min(3, flame.children.length - 1)];
  const width = second.style.width;
  second.click();
  if (second.style.width !== "100%" || button.hidden) say("a click does not zoom: " + second.outerHTML);
  if (flame.children[0].style.width !== "100%") say("the root is " + flame.children[0].style.width);
  button.click();
  if (Math.abs(parseFloat(second.style.width) - parseFloat(width)) > .01) say("it does not zoom back");
  input.value = second.title.split(":")[0];
  input.dispatchEvent(new Event("input"));
  if (!/^[1-9][0-9.]* % of/.test(sum.textContent)) say("found " + sum.textContent);
  input.value = "";
  input.dispatchEvent(new Event("input"));
};
onload = () => {
  const result = document.getElementById("result");
  const say = text => result.textContent += text + "\n";
  const frames = document.querySelectorAll("iframe");
  for (const frame of frames) {
    const page = frame.contentDocument.documentElement;
    const requests = frame.contentWindow.performance.getEntriesByType("resource");
    if (requests.length) say(frame.name + ": it asks for " + requests[0].name);
    for (const e of page.querySelectorAll("details")) e.open = true;
    if (page.scrollWidth > frame.clientWidth) say(frame.name + ": the page is " + page.scrollWidth + " wide");
    if (frame.clientWidth === 390) for (const e of page.querySelectorAll(".scroll"))
      if (e.scrollWidth > e.clientWidth) say(frame.name + ": a table scrolls sideways: " + e.ariaLabel + ", " + e.scrollWidth + " wide");
    for (const e of page.querySelectorAll(".label, .bar"))
      if (e.scrollHeight > e.clientHeight + 1) say(frame.name + ": cut off: " + e.textContent);
    for (const e of page.querySelectorAll("p, li, pre, figcaption, dd, .name"))
      if (parseFloat(frame.contentWindow.getComputedStyle(e).fontSize) < 12) say(frame.name + ": too small: " + e.textContent);
    for (const e of page.querySelectorAll("svg text")) {
      const box = e.getBoundingClientRect();
      if (box.width && (box.left < -1 || box.right > frame.clientWidth + 1)) say(frame.name + ": reaches out: " + e.textContent);
    }
    const flame = page.querySelector(".flame");
    if (flame) zoom(flame, text => say(frame.name + ": " + text));
  }
  say("measured " + frames.length + " pages");
};
</script>`

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("UNTHROTTLE_REQUIRE_BROWSER") == "1" {
		t.Fatal("UNTHROTTLE_REQUIRE_BROWSER is 1, and there is no chromium")
	}
	t.Skip("there is no chromium to open the pages in")
	return ""
}

// browse returns what a browser made of a page, and what it complained of. It runs without its sandbox, which root may not
// have, on our own pages only.
func browse(t *testing.T, browser, page string) (out, errors string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "unthrottle-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // a helper of the browser may still write to it: that must not fail the test
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--hide-scrollbars", "--user-data-dir="+profile, "--virtual-time-budget=10000", "--enable-logging=stderr", "--dump-dom", page)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}
