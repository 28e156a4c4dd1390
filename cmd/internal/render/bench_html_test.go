package render

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// study makes a study with numbers that look like a program that allocates under a limit: the more Ps, the more CPU time
// and throttling. Change may alter each run.
func study(workload string, figure lab.Metric, cpus float64, procs []int, blocks int, change func(p int, r *lab.Run)) *lab.Study {
	random := rand.New(rand.NewPCG(1, uint64(blocks)))
	begin := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	s := &lab.Study{
		Version: 2, Verb: "bench", MadeBy: "unthrottle v0.1.0", Time: begin.Format(time.RFC3339),
		Plan: lab.Plan{
			Settings: lab.Cross([]string{workload}, []string{""}, []float64{cpus}, procs),
			Figures:  map[string]lab.Metric{workload: figure}, Blocks: blocks, Seed: 42, Margin: 0.02,
			Command: []string{"unthrottle", "bench", "--cpus", lab.Setting{CPUs: cpus}.Value(lab.ByCPUs), "--blocks", strconv.Itoa(blocks), workload},
		},
		Environment: lab.Environment{
			OS: "linux", Arch: "amd64", Kernel: "6.12.8", CPU: "AMD EPYC 9454P 48-Core Processor", CPUs: 16, Memory: 64 << 30,
			Go: "go1.26.8", LimitKind: "cgroup v2",
		},
	}
	s.Plan.Compare = lab.Varied(s.Plan.Settings)
	at := begin
	for block := 1; block <= blocks; block++ {
		host := math.Exp(0.02 * random.NormFloat64()) // what a block has in common
		for place, setting := range s.Plan.Order(block) {
			p := s.Plan.Settings[setting].Procs
			actual := p
			if p == 0 {
				actual = max(2, int(math.Ceil(cpus)))
			}
			over := max(0, float64(actual)-cpus)
			noise := host * math.Exp(0.006*random.NormFloat64())
			cost := (1 + 0.03*math.Log2(float64(actual))) * noise
			throttled := 100 * over / (over + 1.2) * (0.9 + 0.2*random.Float64())
			r := lab.Run{
				Block: block, Place: place + 1, Setting: setting, Start: at, Seconds: 1.05 + 0.1*random.Float64(), GOMAXPROCS: actual,
				Go: "go1.26.8", LimitKind: "cgroup v2",
				Metrics: map[string]float64{
					figure.Unit: 27_000 * cost, "cpu-sec": math.Round(980_000*cost) / 1e6, "throttled-%": min(100, math.Round(throttled*10)/10),
					"gc-cpu-%":     math.Round(100*(6+2*math.Log2(float64(actual)))*noise) / 100,
					"sched-p99-ns": math.Round(40_000 * float64(actual) * noise), "peak-RSS-bytes": float64(24<<20 + int(over)<<20),
				},
			}
			if figure.Better == "higher" {
				r.Metrics[figure.Unit] = 1.2e6 / cost
			}
			r.Metrics[figure.Unit] = math.Round(r.Metrics[figure.Unit]*10) / 10
			if change != nil {
				change(p, &r)
			}
			s.Runs = append(s.Runs, r)
			at = at.Add(time.Duration(r.Seconds * float64(time.Second)))
		}
	}
	return s
}

var (
	nsPerOp   = lab.Metric{Unit: "ns/op", Better: "lower", About: "time per operation"}
	opsPerSec = lab.Metric{Unit: "ops/s", Better: "higher", About: "operations a second"}
)

const hostile = `</script><b>x` + "\x1b[2J\u202e" + `<!--"'&{{.}}`

// pages are documents that a page is made of in the tests.
func pages() map[string]*report.Bench {
	documents := map[string]*report.Bench{}
	add := func(name string, s *lab.Study) { documents[name] = report.NewBench(s) }

	add("usual", study("garbage", nsPerOp, 1, []int{0, 1, 4, 8}, 10, nil))
	add("two", study("json", opsPerSec, 1.5, []int{0, 1}, 6, func(p int, r *lab.Run) { r.Metrics["ops/s"] *= 1 - 0.1*float64(p) }))
	add("one", study("fib", nsPerOp, 2, []int{2}, 6, nil))
	add("few", study("fib", nsPerOp, 1, []int{0, 1, 2}, 1, nil))
	add("wide", study("chain", nsPerOp, 0.5, []int{0, 1, 2, 4, 16}, 20, func(p int, r *lab.Run) {
		r.Metrics["ns/op"] *= math.Pow(float64(max(1, p)), 1.4)
	}))
	add("large", study("garbage", nsPerOp, 1, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32}, 60, nil))
	add("readfile", readfileStudy())
	add("failures", failuresStudy())

	several := study("garbage", nsPerOp, 1, []int{0, 1, 2}, 8, nil)
	for _, cpus := range []float64{2, 4} {
		more := study("garbage", nsPerOp, cpus, []int{0, 1, 2}, 8, nil)
		for _, r := range more.Runs {
			r.Setting += len(several.Plan.Settings)
			several.Runs = append(several.Runs, r)
		}
		several.Plan.Settings = append(several.Plan.Settings, more.Plan.Settings...)
	}
	add("several", several)
	return documents
}

// readfileStudy has an activity: with a limit of half a CPU the program uses up its 50 ms of a period the sooner the more
// Ps it has.
func readfileStudy() *lab.Study {
	random := rand.New(rand.NewPCG(3, 4))
	return study("readfile", opsPerSec, 0.5, []int{0, 1, 4}, 6, func(p int, r *lab.Run) {
		if p == 0 {
			p = 2
		}
		on := int64(50_000 / p)
		for at := 3000 + random.Int64N(90_000); at < 3_000_000; at += 100_000 {
			r.Activity = append(r.Activity, [2]int64{at, at + on + random.Int64N(2000) - 1000})
		}
		r.Metrics["on-ms"], r.Metrics["off-ms"] = float64(on)/1000, float64(100_000-on)/1000
	})
}

// failuresStudy has all that goes wrong, under names that try to break the page.
func failuresStudy() *lab.Study {
	s := study(hostile, nsPerOp, 1, []int{0, 1, 2, 4}, 9, func(p int, r *lab.Run) {
		switch {
		case p == 2 || p == 4 && r.Block%4 == 0:
			r.Error, r.Metrics = "exit status 2: "+hostile, nil
		case r.Block == 3 && p != 4:
			r.Marks = []string{"load of the host 3.2", hostile}
		}
		if p == 1 && (r.Block == 3 || r.Block == 7) {
			r.Metrics["ns/op"] *= 1.8
		}
	})
	s.Environment.LimitKind, s.Environment.Notes = "emulated", []string{"cgroup v2: no write access to /sys/fs/cgroup", hostile}
	s.Environment.CPU = hostile
	s.Plan.Blocks = 20
	s.Plan.Command = append(s.Plan.Command, "it's", "")
	return s
}

func benchPageOf(t *testing.T, b *report.Bench) string {
	t.Helper()
	var page strings.Builder
	if err := BenchHTML(&page, b); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestBenchHTML(t *testing.T) {
	got := benchPageOf(t, pages()["usual"])
	file := filepath.Join("testdata", "bench.html.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i, line := range gotLines {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("line %d of the page is\n%.300s\nwhich is not that of %s; -update writes it anew", i+1, line, file)
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Errorf("got %d lines, want %d", len(gotLines), len(wantLines))
	}
}

// TestBenchHTMLPages holds what is true of every page.
func TestBenchHTMLPages(t *testing.T) {
	for name, b := range pages() {
		t.Run(name, func(t *testing.T) {
			page := benchPageOf(t, b)
			wellFormed(t, page)
			loadsNothing(t, page)
			holdsDocument(t, page, b)
			if got, want := strings.Count(page, "<circle")+strings.Count(page, "<use"), figures(b); got != want {
				t.Errorf("%d dots for %d runs with figures", got, want)
			}
			for _, v := range b.Groups {
				if !strings.HasPrefix(v.Verdict, v.Name+": ") || !strings.EqualFold(v.Name+": "+v.Advice, v.Verdict) {
					t.Errorf("the advice %q is not what %q says", v.Advice, v.Verdict)
				}
				sentence := html.EscapeString(printable(v.Advice))
				if !strings.Contains(html.UnescapeString(strings.ReplaceAll(page, "\u00a0%", " %")), html.UnescapeString(sentence)) {
					t.Errorf("the verdict %q is not on the page", v.Verdict)
				}
			}
		})
	}
}

// wellFormed reads a page as XML. HTML needn't be, but ours is, and so what is wrong with it is found.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	var links []string
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if element.Name.Local == "b" && len(element.Attr) > 0 || element.Name.Local == "x" {
			t.Errorf("a text made the element %v", element)
		}
		for _, a := range element.Attr {
			switch a.Name.Local {
			case "id":
				if ids[a.Value] {
					t.Errorf("the id %q is there twice", a.Value)
				}
				ids[a.Value] = true
			case "href":
				links = append(links, a.Value)
			}
		}
	}
	for _, link := range links {
		if !strings.HasPrefix(link, "#") || !ids[link[1:]] {
			t.Errorf("a link leads to %q, which is not on the page", link)
		}
	}
}

var loading = regexp.MustCompile(`(?i)https?:|//[a-z]|\bsrc\s*=|\bsrcset\b|url\(|@import|@font-face|<(link|img|iframe|object|embed|base|form)\b|\son[a-z]+\s*=|javascript:`)

// loadsNothing looks for all that would make a browser ask for another file, or run something.
func loadsNothing(t *testing.T, page string) {
	t.Helper()
	if found := loading.FindString(page); found != "" {
		t.Errorf("there is %q in the page", found)
	}
	if n := strings.Count(page, "<script"); n != 1 || strings.Count(page, "</script") != 1 {
		t.Errorf("%d scripts: the only one is the document, which doesn't run", n)
	}
	if !strings.Contains(page, `<script type="application/json" id="document">`) {
		t.Error("the document has not the type that keeps it from being run")
	}
}

// holdsDocument gets the document out of a page in the way that the page tells.
func holdsDocument(t *testing.T, page string, b *report.Bench) {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return !strings.HasPrefix(line, `{"version"`) })
	if len(lines) != 1 {
		t.Fatalf("%d lines of the page begin as a document does", len(lines))
	}
	var inside report.Bench
	if err := json.Unmarshal([]byte(lines[0]), &inside); err != nil {
		t.Fatal(err)
	}
	var got, want strings.Builder
	report.WriteJSON(&got, inside)
	report.WriteJSON(&want, b)
	if got.String() != want.String() {
		t.Error("the document in the page is not the one that it was made of")
	}
}

// figures counts the runs that have a figure.
func figures(b *report.Bench) (n int) {
	for _, r := range b.Runs {
		unit := b.Plan.Figures[b.Plan.Settings[r.Setting].Workload].Unit
		if _, ok := r.Metrics[unit]; ok && r.Error == "" {
			n++
		}
	}
	return n
}

// TestBenchHTMLSize: a usual page is small. In a large one most is the document itself, which grows with the runs.
func TestBenchHTMLSize(t *testing.T) {
	for name, most := range map[string]int{"usual": 60_000, "several": 100_000, "large": 400_000} {
		b := pages()[name]
		document, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		page := benchPageOf(t, b)
		t.Logf("%s: %d runs, %d bytes, of which the document has %d", name, len(b.Runs), len(page), len(document))
		if len(page) > most || len(page)-len(document) > 120_000 {
			t.Errorf("%s: the page has %d bytes, without its document %d", name, len(page), len(page)-len(document))
		}
	}
}

// TestBenchHTMLOdd renders documents that no lab makes, but a file may hold.
func TestBenchHTMLOdd(t *testing.T) {
	huge, small := study("fib", nsPerOp, 1, []int{0, 1}, 6, nil), study("fib", nsPerOp, 1, []int{0, 1}, 6, nil)
	for i := range huge.Runs {
		huge.Runs[i].Metrics["ns/op"] = math.Pow(10, float64(i*10))
		small.Runs[i].Metrics["ns/op"] = -float64(i)
		small.Runs[i].Activity = [][2]int64{{500, 100}, {-5, 9e18}, {7, -3}}
	}
	none := study("fib", nsPerOp, 1, []int{0, 1}, 3, func(_ int, r *lab.Run) { r.Error, r.Metrics = "it failed", nil })
	wrong := report.NewBench(huge)
	wrong.Runs[0].Setting = 99
	wrong.Groups[0].Best = ptr(7)
	wrong.Groups = append(wrong.Groups, report.BenchGroup{Name: "empty"})
	for name, b := range map[string]*report.Bench{
		"empty": {}, "no figures": report.NewBench(none), "huge": report.NewBench(huge), "negative": report.NewBench(small),
		"wrong numbers": wrong, "zero": report.NewBench(study("fib", nsPerOp, 1, []int{1}, 2, func(_ int, r *lab.Run) { r.Metrics["ns/op"] = 0 })),
	} {
		t.Run(name, func(t *testing.T) {
			page := benchPageOf(t, b)
			wellFormed(t, page)
			if found := regexp.MustCompile(`NaN|[+-]Inf|ZgotmplZ`).FindString(page); found != "" {
				t.Errorf("there is %q in the page", found)
			}
		})
	}
	broken := report.NewBench(none)
	broken.Seconds = math.Inf(1)
	if err := BenchHTML(io.Discard, broken); err == nil {
		t.Error("a document that can't be JSON made a page all the same")
	}
}

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		unit      string
		low, high float64
		ticks     string
		note      string
	}{
		{"ns/op", 26_100, 30_300, "26 µs, 27 µs, 28 µs, 29 µs, 30 µs", "The axis does not begin at 0."},
		{"ns/op", 27_112, 27_118, "27.112 µs, 27.114 µs, 27.116 µs, 27.118 µs", "The axis does not begin at 0."},
		{"ns/op", 980_000, 1_040_000, "0.98 ms, 1.00 ms, 1.02 ms, 1.04 ms", "The axis does not begin at 0."},
		{"ops/s", 0.3e6, 1.2e6, "0, 500 k, 1000 k", ""},
		{"ns/op", 27e3, 1.5e6, "50 µs, 100 µs, 200 µs, 500 µs, 1 ms", "The axis is logarithmic."},
		{"ns/op", 1, 1e12, "1 ns, 100 ns, 10 µs, 1 ms, 100 ms, 10 s, 1000 s", "The axis is logarithmic."},
		{"peak-RSS-bytes", 24 << 20, 30 << 20, "24 MiB, 26 MiB, 28 MiB, 30 MiB", "The axis does not begin at 0."},
		{"throttled-%", 0, 95, "0, 20 %, 40 %, 60 %, 80 %", ""},
		{"x", 5, 5, "4.8, 4.9, 5.0, 5.1, 5.2", "The axis does not begin at 0."},
		{"x", 0, 0, "0, 0.2, 0.4, 0.6, 0.8, 1.0", ""},
		{"x", -3, 3, "−2, 0, 2", ""},
	} {
		a := newAxis(test.unit, test.low, test.high)
		var texts []string
		for _, tick := range a.ticks() {
			texts = append(texts, tick.Text)
		}
		if got := strings.Join(texts, ", "); got != test.ticks {
			t.Errorf("%v to %v %s: ticks %s, want %s", test.low, test.high, test.unit, got, test.ticks)
		}
		if got := strings.Join(a.notes(), " "); got != test.note {
			t.Errorf("%v to %v %s: note %q, want %q", test.low, test.high, test.unit, got, test.note)
		}
		if low, high := a.share(test.low), a.share(test.high); low < 0 || high > 100 || low > high {
			t.Errorf("%v to %v %s: from %v %% to %v %%", test.low, test.high, test.unit, low, high)
		}
	}
}

func TestShellWords(t *testing.T) {
	words := []string{"unthrottle", "--cpus=1.5", "", "it's", "a b", "$HOME", "`x`", "tab\there", "\u202eback", `\`, "\x1b'"}
	want := `unthrottle --cpus=1.5 '' 'it'\''s' 'a b' '$HOME' '` + "`x`" + `' $'tab\there' $'\u202eback' '\' $'\x1b\''`
	if got := report.ShellWords(words); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestBenchHTMLContrast holds texts to what WCAG calls AA, 4.5 to 1, in both schemes, and marks to 3 to 1.
func TestBenchHTMLContrast(t *testing.T) {
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes, want light and dark", len(schemes))
	}
	for i, scheme := range schemes {
		color := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): #(\w{6})`).FindAllStringSubmatch(scheme[1], -1) {
			color[m[1]] = luminance(m[2])
		}
		for _, paper := range []string{"paper", "panel"} {
			for text, least := range map[string]float64{
				"ink": 4.5, "soft": 4.5, "accent": 4.5, "good": 4.5, "bad": 4.5, "warn": 4.5, "other": 3,
			} {
				light, dark := max(color[text], color[paper]), min(color[text], color[paper])
				if got := (light + 0.05) / (dark + 0.05); got < least {
					t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, text, paper, got)
				}
			}
		}
	}
}

// luminance is WCAG's relative luminance of a colour such as 1a1d21.
func luminance(hex string) (l float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

// TestBenchHTMLBrowser opens the pages in a browser, as wide as a phone and as a desk's screen, and measures whether
// anything is wider than the page or cut off. With -artifacts the pages and pictures of one are kept.
func TestBenchHTMLBrowser(t *testing.T) {
	measurePages(t, pagesOf(t, pages(), benchPageOf), measure, []int{320, 390, 1280}, "usual")
}

// measure is a page that looks into others: a browser's own window can't be as narrow as a phone.
const measure = `<!DOCTYPE html><meta charset="utf-8"><style>iframe { height: 900px; border: 0 }</style>FRAMES<pre id="result"></pre>
<script>
onload = () => {
  const result = document.getElementById("result");
  const say = text => result.textContent += text + "\n";
  const frames = document.querySelectorAll("iframe");
  for (const frame of frames) {
    const page = frame.contentDocument.documentElement;
    if (page.scrollWidth > frame.clientWidth) say(frame.name + ": the page is " + page.scrollWidth + " wide");
    for (const e of page.querySelectorAll(".label, .bar"))
      if (e.scrollHeight > e.clientHeight + 1) say(frame.name + ": cut off: " + e.textContent);
    for (const e of page.querySelectorAll("p, li, pre, figcaption, dd, .name"))
      if (parseFloat(frame.contentWindow.getComputedStyle(e).fontSize) < 12) say(frame.name + ": too small: " + e.textContent);
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

// runBrowser returns what the browser wrote. It runs without its sandbox, which root may not have, on our own pages only.
func runBrowser(t *testing.T, browser string, args ...string) string {
	t.Helper()
	stdout, _ := browse(t, browser, args...)
	return stdout
}

// measurePages opens pages in a browser at several widths, asks the script whether anything reaches out of them, and takes
// pictures of the page shown. Whatever the browser complains of is an error.
func measurePages(t *testing.T, pages map[string]string, script string, widths []int, shown string) {
	t.Helper()
	browser := findBrowser(t)
	dir := t.ArtifactDir()
	var frames strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(pages[name]), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, width := range widths {
			fmt.Fprintf(&frames, `<iframe name="%s, %d wide" width="%d" srcdoc="%s"></iframe>`, name, width, width, html.EscapeString(pages[name]))
		}
	}
	wrapper := filepath.Join(dir, "measure.html")
	if err := os.WriteFile(wrapper, []byte(strings.Replace(script, "FRAMES", frames.String(), 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	out, said := browse(t, browser, "--virtual-time-budget=10000", "--enable-logging=stderr", "--dump-dom", wrapper)
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
	for _, width := range widths[1:] {
		picture(t, browser, filepath.Join(dir, shown+".html"), width)
	}
}

// pagesOf makes the page of each document.
func pagesOf[D any](t *testing.T, documents map[string]D, page func(*testing.T, D) string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for name, d := range documents {
		pages[name] = page(t, d)
	}
	return pages
}

// browse is runBrowser, and returns also what the browser wrote to stderr.
func browse(t *testing.T, browser string, args ...string) (out, errors string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "unthrottle-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // a helper of the browser may still write to it: that must not fail the test
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--user-data-dir=" + profile,
	}, args...)
	cmd := exec.CommandContext(ctx, browser, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// picture takes a picture of a page and looks whether there is something on it.
func picture(t *testing.T, browser, page string, width int) {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d", strings.TrimSuffix(page, ".html"), width)
	frame := fmt.Sprintf(`<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 } iframe { border: 0 }</style><iframe width="%d" height="2000" srcdoc="%s"></iframe>`,
		width, html.EscapeString(string(content)))
	if err := os.WriteFile(name+".html", []byte(frame), 0o666); err != nil {
		t.Fatal(err)
	}
	runBrowser(t, browser, fmt.Sprintf("--window-size=%d,2000", max(width, 600)), "--screenshot="+name+".png", name+".html")
	file, err := os.Open(name + ".png")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	colors := map[color.Color]bool{}
	for y := range min(img.Bounds().Dy(), 800) {
		for x := range min(img.Bounds().Dx(), width) {
			colors[img.At(x, y)] = true
		}
	}
	if len(colors) < 50 {
		t.Errorf("there are %d colours on %s.png only", len(colors), name)
	}
}
