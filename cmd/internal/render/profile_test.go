package render

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// profiles are documents of real profiles, with what is known of their processes made up.
func profiles() map[string]*report.Profile {
	read := func(name string) *cpuprofile.Profile {
		f, err := os.Open("../cpuprofile/testdata/" + name + ".pb.gz")
		if err != nil {
			panic(err)
		}
		defer f.Close()
		p, err := cpuprofile.Read(f)
		if err != nil {
			panic(err)
		}
		return p
	}
	number := func(v float64) *float64 { return &v }
	count := func(v int64) *int64 { return &v }
	few := func(d *report.Profile) *report.Profile { // a golden file need not have all frames
		d.Header = report.Header{Version: 2, Verb: "profile", MadeBy: "unthrottle test", Time: "2026-01-02T03:04:05Z"}
		d.Frames = slices.DeleteFunc(d.Frames, func(f report.ProfileFrame) bool { return f.Depth > 12 || f.CPU < 0.03 })
		return d
	}
	alone := report.NewProfile(report.ProfileFacts{Profile: read("procs192-go121"), Source: "cpu.pb.gz"})
	alone.Command = []string{"unthrottle", "profile", "cpu.pb.gz"}

	live := report.NewProfile(report.ProfileFacts{
		Profile: read("procs192"), Source: "http://localhost:6060/debug/pprof/profile?seconds=6", Saved: "now.pb.gz",
		Base: read("procs1"), BaseSource: "base.pb.gz", Units: 36374, BaseUnits: 68014, PID: 4711, Name: "agent",
	})
	procs, full := 192, true
	live.Procs, live.ProcsFrom = &procs, "live"
	live.Limit = report.ProfileLimit{State: "limited", CPUs: number(1), From: "/sys/fs/cgroup/agent", Share: number(1.03), ShareBy: "kernel", Saturated: &full}
	live.Process = &report.ProfileProcess{PID: 4711, Name: "agent", CPUs: number(1.03), Periods: count(61), ThrottledPeriods: count(60), ThrottledShare: number(60. / 61)}
	live.Demand = &report.ProfileDemand{Ratio: 91.9, Over: "profile", Wanted: number(94.6), Got: number(1.03), Covered: number(5.8)}
	live.Command = []string{"unthrottle", "profile", "localhost:6060", "--base", "base.pb.gz"}

	healthy := report.NewProfile(report.ProfileFacts{Profile: read("procs1"), Source: "cpu.pb.gz", LimitGiven: 1})
	empty := report.NewProfile(report.ProfileFacts{Profile: &cpuprofile.Profile{Classes: make([]cpuprofile.Use, len(cpuprofile.Classes())), Root: &cpuprofile.Frame{}}, Source: "-"})
	return map[string]*report.Profile{"alone": few(alone), "live": few(live), "healthy": few(healthy), "empty": few(empty)}
}

func profileTextOf(t *testing.T, d *report.Profile, style Style) string {
	t.Helper()
	var b strings.Builder
	if err := ProfileText(&b, d, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func profilePageOf(t *testing.T, d *report.Profile) string {
	t.Helper()
	var b strings.Builder
	if err := ProfileHTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestProfileText(t *testing.T) {
	for name, d := range profiles() {
		golden(t, "profile-"+name, profileTextOf(t, d, Style{Width: 80}))
		if name == "live" {
			golden(t, "profile-"+name+".color", profileTextOf(t, d, Style{Width: 100, Color: true}))
			golden(t, "profile-"+name+".any", profileTextOf(t, d, Style{}))
		}
	}
}

// TestProfileTextFits holds that no line of words is wider than the screen. Commands are never broken.
func TestProfileTextFits(t *testing.T) {
	for name, d := range profiles() {
		for _, width := range []int{60, 80, 100} {
			for line := range strings.Lines(profileTextOf(t, d, Style{Width: width})) {
				if n := visible(strings.TrimSuffix(line, "\n")); n > width && !strings.HasPrefix(line, "  go tool") && !strings.HasPrefix(line, "  unthrottle") {
					t.Errorf("%s: a line has %d columns of %d: %s", name, n, width, line)
				}
			}
		}
	}
}

func TestProfileHTML(t *testing.T) {
	for name, d := range profiles() {
		golden(t, "profile-"+name+".html", profilePageOf(t, d))
	}
}

// hostileProfile has texts from outside in every place that has any.
func hostileProfile() *report.Profile {
	d := profiles()["live"]
	d.Command, d.Source, d.Saved, d.Program, d.MadeBy = []string{hostile}, hostile, hostile, hostile, hostile
	d.Limit.From, d.Process.Name, d.Base.Source, d.Base.Program = hostile, hostile, hostile, hostile
	d.Why, d.Warnings = []string{hostile}, []string{hostile}
	for i := range d.Classes {
		d.Classes[i].Name, d.Classes[i].About, d.Classes[i].Top = hostile, hostile, []report.ProfileFunction{{Name: hostile, CPU: 1}}
	}
	for i := range d.Frames {
		d.Frames[i].Function, d.Frames[i].Class = hostile, hostile
	}
	return d
}

func TestProfileHTMLPages(t *testing.T) {
	all := profiles()
	all["hostile"] = hostileProfile()
	for name, d := range all {
		t.Run(name, func(t *testing.T) {
			page := profilePageOf(t, d)
			wellFormed(t, page)
			ours := "<script>" + profileJS + "</script>"
			if !strings.Contains(page, ours) {
				t.Error("the page's script is not as it was written")
			}
			shown := strings.NewReplacer(ours, "", "http://localhost:6060/debug/pprof/profile", "").Replace(page)
			shown = profileTitles.ReplaceAllString(shown, "")
			if found := odd.FindString(shown); found != "" {
				t.Errorf("there is %q in the page", found)
			}
			loadsNothing(t, shown)
			lines := slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return !strings.HasPrefix(line, `{"version"`) })
			if len(lines) != 1 {
				t.Fatalf("%d lines of the page begin as a document does", len(lines))
			}
			var inside report.Profile
			if err := json.Unmarshal([]byte(lines[0]), &inside); err != nil {
				t.Fatal(err)
			}
			var got, want strings.Builder
			report.WriteJSON(&got, inside)
			report.WriteJSON(&want, d)
			if got.String() != want.String() {
				t.Error("the document in the page is not the one that it was made of")
			}
		})
	}
}

// profileTitles have names of functions such as parseHTTP, with a colon behind them.
var profileTitles = regexp.MustCompile(` title="[^"]*"`)

func TestProfileIsSafe(t *testing.T) {
	d := hostileProfile()
	for line := range strings.Lines(profileTextOf(t, d, Style{})) {
		if line = strings.TrimSuffix(line, "\n"); printable(line) != line {
			t.Errorf("the text is not safe: %q", line)
		}
	}
	if d.Warnings[0] != hostile || d.Frames[0].Function != hostile {
		t.Error("the document was changed")
	}
}

// TestProfileOdd renders documents that no profile makes, but a file may hold.
func TestProfileOdd(t *testing.T) {
	negative := profiles()["live"]
	for i := range negative.Frames {
		negative.Frames[i].Depth, negative.Frames[i].CPU = 5-i, -1
	}
	for i := range negative.Classes {
		negative.Classes[i].CPU, negative.Classes[i].Share, *negative.Excess.Share = -1, -3, -7
	}
	huge := profiles()["live"]
	huge.CPU, *huge.Seconds, huge.Demand.Ratio, *huge.Base.PerUnit, huge.Samples = 1e300, 1e300, 1e300, 1e300, math.MaxInt64
	deep := profiles()["live"]
	deep.Frames = nil
	for i := range 200 {
		deep.Frames = append(deep.Frames, report.ProfileFrame{Depth: i + 1, Function: "f", Class: "program", CPU: 1})
	}
	jump := profiles()["live"]
	jump.Frames = []report.ProfileFrame{{Depth: 90, Function: "a", CPU: 9}, {Depth: -1, Function: "b", CPU: 9}, {Depth: math.MaxInt, CPU: 1e300}}
	for name, d := range map[string]*report.Profile{
		"nothing": {}, "negative": negative, "huge": huge, "deep": deep, "jump": jump,
		"parts": {Base: &report.ProfileBase{}, Demand: &report.ProfileDemand{}, Process: &report.ProfileProcess{}, CPU: 1, Frames: make([]report.ProfileFrame, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			page := profilePageOf(t, d)
			wellFormed(t, page)
			for _, text := range []string{page, profileTextOf(t, d, Style{Width: 20}), profileTextOf(t, d, Style{Width: 300})} {
				if found := odd.FindString(text); found != "" {
					t.Errorf("there is %q in %s", found, text)
				}
			}
		})
	}
	if err := ProfileHTML(io.Discard, &report.Profile{CPU: math.Inf(1)}); err == nil {
		t.Error("a document that can't be JSON made a page all the same")
	}
}

// TestProfileContrast holds the colours of the classes, which names are written on, to what WCAG calls AA.
func TestProfileContrast(t *testing.T) {
	inks := regexp.MustCompile(`--ink: #(\w{6})`).FindAllStringSubmatch(pageCSS, -1)
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(profileHTML, -1)
	if len(schemes) != 2 || len(inks) != 2 {
		t.Fatalf("%d and %d schemes, want light and dark", len(schemes), len(inks))
	}
	for i, scheme := range schemes {
		ink := luminance(inks[i][1])
		colors := regexp.MustCompile(`--([\w-]+): #(\w{6})`).FindAllStringSubmatch(scheme[1], -1)
		if want := len(cpuprofile.Classes()); len(colors) != want {
			t.Errorf("scheme %d has %d colours, want %d", i, len(colors), want)
		}
		for _, m := range colors {
			color := luminance(m[2])
			if got := (max(color, ink) + 0.05) / (min(color, ink) + 0.05); got < 4.5 {
				t.Errorf("scheme %d: %s has a contrast of %.2f", i, m[1], got)
			}
		}
	}
	for _, c := range cpuprofile.Classes() {
		if !strings.Contains(profileHTML, ".c-"+c.Name+" {") {
			t.Errorf("the page has no colour for %s", c.Name)
		}
	}
}

// TestProfileHTMLBrowser measures the pages as TestBenchHTMLBrowser does, and uses the script: a click makes a frame as
// wide as the graph, and what is searched for is summed up.
func TestProfileHTMLBrowser(t *testing.T) {
	all := profiles()
	all["hostile"] = hostileProfile()
	try := strings.Replace(measure, "  say(\"measured", profileTry+"  say(\"measured", 1)
	measurePages(t, pagesOf(t, all, profilePageOf), try, []int{320, 390, 1280}, "live")
}

const profileTry = `  for (const frame of frames) {
    const page = frame.contentDocument, flame = page.getElementById("flame");
    if (!flame) continue;
    const [input, button] = page.querySelectorAll("#tools > *"), second = flame.children[Math.min(3, flame.children.length - 1)];
    const before = flame.innerHTML;
    second.click();
    if (second.style.width !== "100%" || button.hidden) say(frame.name + ": a click does not zoom: " + second.outerHTML);
    if (flame.children[0].style.width !== "100%") say(frame.name + ": the root is " + flame.children[0].style.width);
    button.click();
    if (Math.abs(parseFloat(second.style.width) - 100 * second.clientWidth / flame.clientWidth) > 5) say(frame.name + ": it does not zoom back");
    input.value = "JSON";
    input.dispatchEvent(new Event("input"));
    if (!frame.name.startsWith("hostile") && !/^[1-9][0-9.]* % of/.test(page.querySelector("#tools span").textContent)) say(frame.name + ": found " + page.querySelector("#tools span").textContent);
  }
`
