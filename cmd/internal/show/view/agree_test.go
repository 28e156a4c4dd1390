package view

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// contradictions finds what can't both be so on one screen: sentences that deny each other, and shares that are not those of the figures
// next to them. It knows the words of all verbs, and nothing of documents.
func contradictions(screen string) (found []string) {
	text := strings.Join(strings.Fields(screen), " ")
	for _, pair := range opposites {
		a := pair[0].FindString(text)
		if a == "" {
			continue
		}
		if b := pair[1].FindString(text); b != "" {
			found = append(found, fmt.Sprintf("%q and %q", a, b))
		}
	}
	for _, m := range parts.FindAllStringSubmatch(text, -1) {
		part, whole, share := figure(m[1]), figure(m[2]), figure(m[3])
		if whole > 0 && math.Abs(100*part/whole-share) > unit(m[3])/2+1e-9 {
			found = append(found, fmt.Sprintf("%q: that is %.3g %%", m[0], 100*part/whole))
		}
	}
	if limits := limit.FindAllStringSubmatch(text, -1); len(limits) == 1 {
		for _, m := range allOf.FindAllStringSubmatch(text, -1) {
			if used, of := figure(m[1]), figure(limits[0][1]); used+unit(m[1])/2 < 0.97*of {
				found = append(found, fmt.Sprintf("%q and %q", limits[0][0], m[0]))
			}
		}
	}
	for _, m := range changed.FindAllStringSubmatch(text, -1) {
		from, to, share := figure(m[1]), figure(m[3]), figure(m[6])
		if m[2] != m[4] {
			continue
		}
		if m[5] == "−" {
			share = -share
		}
		rounding := 50 * to / from * (unit(m[1])/from + unit(m[3])/to)
		if rise := 100 * (to/from - 1); math.Abs(rise-share) > unit(m[6])+rounding {
			found = append(found, fmt.Sprintf("%q: that is %.3g %%", m[0], rise))
		}
	}
	return found
}

// opposites are what one screen never says both of.
var opposites = func() (pairs [][2]*regexp.Regexp) {
	for _, p := range [][2]string{
		{`it was no quota`, `a CPU quota stops it|its limit of [\d.]+ CPUs? stops it`},
		{`by the trace 0 %`, `[1-9][\d,]* (requests|answers) with a freeze in them`},
		{`confidence high`, `low confidence|the shares are estimates|this is not certain`},
		{`kernel (throttled|counted) in none of`, `[1-9][\d,]* of [\d,]+ periods were throttled`},
		{`\bnone of [\d,]+ requests failed`, `[1-9][\d,]* of [\d,]+ requests failed`},
		{`^Set [^.]*?: (p99|CPU|time|the SLO)\b`, `No other setting is (likely|shown) to be better`},
		{`^Keep GOMAXPROCS=\d+: no other setting is likely to be better`, `looks best, but the evidence is not sufficient`},
		{`It can't keep up`, `it kept up`},
		{`the limit fits|its limit and its GOMAXPROCS fit`, `too many Ps|too few Ps: `},
		{`no limit: `, `of its limit's CPU`},
		{`^not throttled`, `What is wrong (.* )?(throttled|contended): `},
		{`^not frozen`, `What is wrong (.* )?throttled: `},
		{`A limit is not the cause|not for its limit`, `its limit of [\d.]+ CPUs? stops it`},
		{`^throttled: `, `What is wrong (.* )?contended: `},
		{`none can be seen|it has no CPU limit`, `its limit of [\d.]+ CPUs? stops it`},
		{`it hardly wanted to run`, `used [1-9][\d.]* CPUs`},
		{`freezes none in`, `^\S+ frozen [1-9]`},
		{`no smaller GOMAXPROCS could use all of the limit`, `What is wrong (.* )?too many Ps: `},
		{`the level that sets the limit can't be seen from inside`, `fix: import _ "github.com/unthrottle/unthrottle/auto"|call unthrottle\.Watch`},
		{`on average 0 Ps had work`, `got [0-9.]+ CPUs`},
		{`they hardly had to wait`, `they had to wait [1-9]\d* %`},
		{`hardly any CPU time itself|it is idle now`, `it used (0\.[1-9]|[1-9])|: saturated`},
	} {
		pairs = append(pairs, [2]*regexp.Regexp{regexp.MustCompile(p[0]), regexp.MustCompile(p[1])})
	}
	return pairs
}()

var (
	parts   = regexp.MustCompile(`\b([\d,]+) of ([\d,]+) [a-z ]{0,30}\(([\d.]+) %\)`)
	limit   = regexp.MustCompile(`limit (?:of )?([\d.]+) CPUs?\b`)
	allOf   = regexp.MustCompile(`it used ([\d.]+) CPUs?, all that the limit allows`)
	changed = regexp.MustCompile(`(?:rose|fell) from ([\d,.]+) (\S+) to ([\d,.]+) (\S+) \(([−+])([\d.]+) %`)
)

func figure(text string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// unit is what the last digit of a figure is worth.
func unit(text string) float64 {
	_, decimals, _ := strings.Cut(text, ".")
	return math.Pow10(-len(decimals))
}

// TestAgree: no screen that a test here or a document shows contradicts itself. Those that other tests draw are held by shown.
func TestAgree(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.txt", "../../../../docs/*.md", "../../../../docs/recipes/*.md", "../../../../README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(more), err)
		}
		files = append(files, more...)
	}
	screens := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, screen := range screensOf(file, string(data)) {
			screens++
			for _, c := range contradictions(screen) {
				t.Errorf("%s: %s\n%s", file, c, screen)
			}
		}
	}
	if screens < 100 {
		t.Errorf("only %d screens", screens)
	}
}

// screensOf cuts a golden file at the lines that name a width, and takes a page's indented blocks.
func screensOf(file, text string) (screens []string) {
	if strings.HasSuffix(file, ".txt") {
		return regexp.MustCompile(`(?m)^::: \d+ columns$`).Split(text, -1)
	}
	var block []string
	for _, line := range append(strings.Split(text, "\n"), "end") {
		switch {
		case strings.HasPrefix(line, "    $ ") && len(block) > 0:
			screens, block = append(screens, strings.Join(block, "\n")), nil
		case strings.HasPrefix(line, "    ") || line == "" && len(block) > 0:
			block = append(block, strings.TrimPrefix(line, "    "))
		case len(block) > 0:
			screens, block = append(screens, strings.Join(block, "\n")), nil
		}
	}
	return screens
}

// TestContradictions: what a new user met is found.
func TestContradictions(t *testing.T) {
	for _, bad := range []string{
		"Others had the CPUs: it was no quota.\n\nthrottled: its limit of 1.5 CPUs stops it\n  1 of 31 periods was throttled",
		"that is 3 % of the time; by the trace 0 %\n  656 requests with a freeze in them",
		"throttled (low confidence)\n\n  confidence  high",
		"None of it: none of 80 requests failed\n  13 of 80 requests failed",
		"Keep GOMAXPROCS=2: no other setting is likely to be better.\n  GOMAXPROCS=4 looks best, but the evidence is not sufficient: p99",
		"limit 0.5 CPUs\n it used 0.45 CPUs, all that the limit allows",
		"in 20 of 60 periods (30 %)",
		"p99 fell from 10 ms to 5 ms (−30 %, 95 % interval",
	} {
		if len(contradictions(bad)) == 0 {
			t.Errorf("nothing is found in %q", bad)
		}
	}
	for _, good := range []string{
		"in 20 of 60 periods (33.3 %)", "in 1 of 3 periods (33 %)", "limit 0.5 CPUs\n it used 0.49 CPUs, nearly all that the limit allows",
		"p99 fell from 10 ms to 5 ms (−50 %, 95 % interval", "None of 80 requests failed",
	} {
		if found := contradictions(good); len(found) > 0 {
			t.Errorf("%q: %q", good, found)
		}
	}
}
