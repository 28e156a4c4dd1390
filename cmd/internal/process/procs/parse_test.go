package procs

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for _, test := range []struct{ stat, want string }{
		{"42 (server) S 1 42 42 0", "server"},
		{"42 (a b) S 1", "a b"},
		{"42 () S 1", ""},
		{"42 (tmux: server) S 1", "tmux: server"},
		{"42 ((sd-pam)) S 1", "(sd-pam)"},
		{"42 (a) S 1 (b) S 1", "a) S 1 (b"}, // made to mislead: the last bracket counts
		{"42 (line\nbreak) S 1\n", "line\nbreak"},
		{"42 ())))) S 1", "))))"},
		{"42 (\xff\x01) S 1", "\xff\x01"},
		{"42 (open S 1", ""},
		{"42 close) S 1", ""},
		{"42 )( S 1", ""},
		{"", ""},
		{"()", ""},
	} {
		if got := name([]byte(test.stat)); got != test.want {
			t.Errorf("name(%q) = %q, want %q", test.stat, got, test.want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("42 (server) S 1 2 3")
	f.Add("42 (a) S (b\n) S 1")
	f.Add(")(")
	f.Fuzz(func(t *testing.T, s string) {
		name([]byte(s))
		// Any name of a process comes back, since what follows it holds no bracket.
		if got := name([]byte("42 (" + s + ") S 1 42 42 0 -1 4194560\n")); got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	})
}

func TestSplitNUL(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"\x00", nil},
		{"a\x00", []string{"a"}},
		{"a", []string{"a"}}, // a process may have written over its own
		{"a\x00b c\x00", []string{"a", "b c"}},
		{"a\x00\x00", []string{"a", ""}}, // an empty last argument
		{"\x00a\x00", []string{"", "a"}},
		{"a\x00b\nc", []string{"a", "b\nc"}},
	} {
		if got := command(test.text); !reflect.DeepEqual(got, test.want) {
			t.Errorf("splitNUL(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func FuzzSplitNUL(f *testing.F) {
	f.Add([]byte("prog\x00-x\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parts := command(string(text))
		for _, s := range parts {
			if strings.Contains(s, "\x00") {
				t.Errorf("a NUL in %q", s)
			}
		}
		if joined := strings.Join(parts, "\x00"); len(text) <= maxArgument && len(parts) > 0 && len(parts) <= maxWords && joined != string(bytes.TrimSuffix(text, []byte{0})) {
			t.Errorf("%q became %q", text, parts)
		}
	})
}

func TestParseEnviron(t *testing.T) {
	for _, test := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"GOGC=1\x00GODEBUG=2\x00", map[string]string{"GOGC": "1", "GODEBUG": "2"}},
		{"GOGC=1\x00GOGC=2\x00", map[string]string{"GOGC": "1"}}, // as os.Getenv and the runtime take it
		{"GOGC=\x00GOGC=2\x00", map[string]string{"GOGC": ""}},
		{"GOGC\x00GODEBUG=2\x00", map[string]string{"GODEBUG": "2"}},
		{"GODEBUG=b=c\x00", map[string]string{"GODEBUG": "b=c"}},
		{"=x\x00", map[string]string{}},
		{"GOGC=1\nGOMAXPROCS=9\x00", map[string]string{"GOGC": "1\nGOMAXPROCS=9"}},
		{"GOMAXPROCS=4", map[string]string{"GOMAXPROCS": "4"}},
		{"\x00\x00GOGC=1\x00\x00", map[string]string{"GOGC": "1"}},
		{"UNTHROTTLE=off\x00UNTHROTTLE_MIN=1\x00GOMEMLIMIT=1GiB\x00", map[string]string{"UNTHROTTLE": "off", "UNTHROTTLE_MIN": "1", "GOMEMLIMIT": "1GiB"}},
		{"PATH=/bin\x00GO_TOKEN=secret\x00GOOGLE_KEY=secret\x00", map[string]string{}}, // what is no one's business is not kept
	} {
		if got := environ(test.text); !maps.Equal(got, test.want) {
			t.Errorf("parseEnviron(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func FuzzParseEnviron(f *testing.F) {
	f.Add([]byte("GOMAXPROCS=2\x00GODEBUG=containermaxprocs=0\x00"))
	f.Add([]byte("A=1\x00A=2\x00=\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		env := environ(string(text))
		if env == nil {
			t.Error("nil means that it can't be read")
		}
		for name, value := range env {
			start := name + "=" + strings.TrimSuffix(value, more)
			if name == "GODEBUG" && strings.HasSuffix(value, more) {
				start = name + "=" // some settings of a long one
			}
			if !concerns(name) || strings.ContainsAny(name, "=\x00") || len(value) > maxValue+len(more) || !bytes.Contains(text, []byte(start)) {
				t.Errorf("%q=%q from %q", name, value, text)
			}
		}
	})
}

func TestParseGODEBUG(t *testing.T) {
	for _, test := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"containermaxprocs=0", map[string]string{"containermaxprocs": "0"}},
		{"containermaxprocs=0,updatemaxprocs=0", map[string]string{"containermaxprocs": "0", "updatemaxprocs": "0"}},
		{"a=1,a=2", map[string]string{"a": "2"}},
		{"a,b=,=c,,", map[string]string{"b": "", "": "c"}},
		{"a=b=c", map[string]string{"a": "b=c"}},
		{" a=1", map[string]string{" a": "1"}}, // the runtime does not trim either
	} {
		if got := ParseGODEBUG(test.text); !maps.Equal(got, test.want) {
			t.Errorf("ParseGODEBUG(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func FuzzParseGODEBUG(f *testing.F) {
	f.Add("containermaxprocs=0,updatemaxprocs=0")
	f.Add("a=1,a=2,,b,=")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range ParseGODEBUG(text) {
			if strings.ContainsAny(name, ",=") || strings.Contains(value, ",") || !strings.Contains(text, name+"="+value) {
				t.Errorf("%q=%q from %q", name, value, text)
			}
		}
	})
}

func TestMinor(t *testing.T) {
	for _, test := range []struct {
		version string
		want    int
	}{
		{"go1.26.8", 26},
		{"go1.21", 21},
		{"go1.4", 4},
		{"go1.27rc1", 27},
		{"go1.26.8 X:nocoverageredesign", 26},
		{"go1.25.3-custom", 25},
		{"devel go1.28-2f0c9a1 Thu Jan 1 00:00:00 2026 +0000", 28},
		{"devel +2f0c9a1", 0},
		{"go2.1", 0},
		{"go1.", 0},
		{"go1.x", 0},
		{"go1.99999999999999999999", 0},
		{"unknown", 0},
		{"", 0},
	} {
		if got := (&Program{GoVersion: test.version}).Minor(); got != test.want {
			t.Errorf("Minor of %q = %d, want %d", test.version, got, test.want)
		}
	}
}

func FuzzProgramVersion(f *testing.F) {
	f.Add("go1.26.8", "containermaxprocs=0,tlssha1=1", "containermaxprocs=1")
	f.Add("devel go1.28-abc", "panicnil=1", "x")
	f.Fuzz(func(t *testing.T, version, defaults, godebug string) {
		p := &Program{GoVersion: version, Defaults: ParseGODEBUG(defaults)}
		minor := p.Minor()
		if minor < 0 {
			t.Errorf("Minor of %q = %d", version, minor)
		}
		if line := p.GoLine(); (line == "") != (minor < 21) {
			t.Errorf("%q with %q: go line %q", version, defaults, line)
		}
		if s := p.Setting("containermaxprocs", map[string]string{"GODEBUG": godebug}); s.On && minor < 25 {
			t.Errorf("%q: %+v", version, s)
		}
	})
}

// The defaults that a build writes down are checked with real builds in TestBuilds.
func TestGoLine(t *testing.T) {
	const (
		d24 = "containermaxprocs=0,tlssha1=1,updatemaxprocs=0"
		d23 = d24 + ",randseednop=0,rsa1024min=0"
		d20 = d23 + ",winsymlink=0,httpservecontentkeepheaders=1,httplaxcontentlength=1,httpmuxgo121=1,panicnil=1"
	)
	for _, test := range []struct{ version, defaults, want string }{
		{"go1.26.8", "", "1.26 or later"},
		{"go1.26.8", "urlstrictcolons=0,cryptocustomrand=1", "1.25"},
		{"go1.26.8", d24 + ",urlstrictcolons=0,cryptocustomrand=1", "1.24"},
		{"go1.26.8", d23, "1.23"},
		{"go1.26.8", d20, "1.20 or older"},
		{"go1.25.14", "", "1.25 or later"},
		{"go1.25.14", d24, "1.24"},
		{"go1.24.13", "", "1.24 or later"},
		{"go1.21.13", "panicnil=1", "1.20 or older"},
		{"go1.20.14", "panicnil=1", ""},
		{"unknown", "", ""},
		{"go1.26.8", "containermaxprocs=0", "1.26 or later"},                  // a go:debug line
		{"go1.26.8", "containermaxprocs=0,updatemaxprocs=0", "1.26 or later"}, // two of them
		{"go1.26.8", "asynctimerchan=1", "1.26 or later"},
	} {
		p := &Program{GoVersion: test.version, Defaults: ParseGODEBUG(test.defaults)}
		if got := p.GoLine(); got != test.want {
			t.Errorf("%s with %q: go line %q, want %q", test.version, test.defaults, got, test.want)
		}
	}
}

func TestSetting(t *testing.T) {
	for _, test := range []struct {
		version, built, godebug string
		want                    Setting
	}{
		{"go1.26.8", "", "", Setting{On: true}},
		{"go1.25.0", "", "", Setting{On: true}},
		{"go1.24.13", "", "", Setting{}},
		{"go1.24.13", "", "containermaxprocs=1", Setting{Env: "1"}}, // that version has no such thing
		{"unknown", "", "", Setting{}},
		{"go1.26.8", "containermaxprocs=0", "", Setting{Built: "0"}},
		{"go1.26.8", "containermaxprocs=1", "", Setting{Built: "1", On: true}},
		{"go1.26.8", "containermaxprocs=0", "containermaxprocs=1", Setting{Built: "0", Env: "1", On: true}},
		{"go1.26.8", "", "containermaxprocs=0", Setting{Env: "0"}},
		{"go1.26.8", "", "containermaxprocs=0,containermaxprocs=1", Setting{Env: "1", On: true}},
		{"go1.26.8", "", "containermaxprocs=-1", Setting{Env: "-1"}},
		{"go1.26.8", "", "containermaxprocs=2", Setting{Env: "2", On: true}},
		{"go1.26.8", "", "containermaxprocs=off", Setting{Env: "off", On: true}}, // no number: passed over
		{"go1.26.8", "containermaxprocs=0", "containermaxprocs=on", Setting{Built: "0", Env: "on"}},
		{"go1.26.8", "containermaxprocs=0", "containermaxprocs=", Setting{Built: "0"}},
		{"go1.26.8", "", "updatemaxprocs=0", Setting{On: true}},
	} {
		p := &Program{GoVersion: test.version, Defaults: ParseGODEBUG(test.built)}
		if got := p.Setting("containermaxprocs", map[string]string{"GODEBUG": test.godebug}); got != test.want {
			t.Errorf("%s built with %q, started with %q: %+v, want %+v", test.version, test.built, test.godebug, got, test.want)
		}
	}
	if s := (&Program{GoVersion: "go1.26.8"}).Setting("updatemaxprocs", nil); !s.On {
		t.Errorf("without an environment: %+v", s)
	}
}

func TestLinkString(t *testing.T) {
	for link, want := range map[Link]string{NotLinked: "no", Required: "required only", Linked: "linked", Imported: "blank import"} {
		if got := link.String(); got != want {
			t.Errorf("%d: %q, want %q", link, got, want)
		}
	}
}

func TestDir(t *testing.T) {
	for _, test := range []struct {
		root string
		pid  int
		want string
	}{
		{"", 0, "/proc/self"}, {"", 7, "/proc/7"}, {"/", 7, "/proc/7"}, {"/x/", 0, "/x/proc/self"}, {"/x", 7, "/x/proc/7"},
	} {
		if got := Dir(test.root, test.pid); got != test.want {
			t.Errorf("Dir(%q, %d) = %q, want %q", test.root, test.pid, got, test.want)
		}
	}
}

// TestSetGoLine: what a report says of a go line is enough to judge the program as its file would be.
func TestSetGoLine(t *testing.T) {
	for version := 20; version <= 28; version++ {
		for line := 18; line <= version; line++ {
			p := Program{GoVersion: fmt.Sprintf("go1.%d.1", version), Defaults: map[string]string{}}
			for _, c := range changes {
				if line < c.minor && c.minor <= version {
					for _, s := range c.settings {
						p.Defaults[s] = "0"
					}
				}
			}
			q := Program{GoVersion: p.GoVersion}
			if q.SetGoLine(p.GoLine()); q.GoLine() != p.GoLine() {
				t.Errorf("Go 1.%d, go line 1.%d: %q, want %q", version, line, q.GoLine(), p.GoLine())
			}
			for _, name := range []string{"containermaxprocs", "updatemaxprocs"} {
				if on := q.Setting(name, nil).On; on != (version >= 25 && line >= 25) {
					t.Errorf("Go 1.%d, go line 1.%d: %s is on: %v", version, line, name, on)
				}
			}
		}
	}
	for _, odd := range []string{"", "new", "1.", "1.x or older"} {
		p := Program{GoVersion: "go1.26"}
		if p.SetGoLine(odd); len(p.Defaults) != 0 {
			t.Errorf("%q: %v", odd, p.Defaults)
		}
	}
}

func TestParseLink(t *testing.T) {
	for l := NotLinked; l <= Imported; l++ {
		if got := ParseLink(l.String()); got != l {
			t.Errorf("%s: %s", l, got)
		}
	}
	if ParseLink("perhaps") != NotLinked || ParseLink("") != NotLinked {
		t.Error("other words are no link")
	}
}

func command(text string) []string {
	words, _ := splitCommand(strings.NewReader(text))
	return words
}

func environ(text string) map[string]string {
	env, _ := parseEnviron(strings.NewReader(text))
	return env
}

// What is kept of a command and an environment is bounded, and says so.
func TestWordsBounds(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got := command("prog\x00-flag=" + long + "\x00last\x00")
	if len(got) != 3 || got[1] != "-flag="+long[:maxArgument-6]+"…" || got[2] != "last" {
		t.Errorf("%d words, the second of %d bytes", len(got), len(got[1]))
	}
	if got := command(strings.Repeat("a\x00", 5000)); len(got) != maxWords+1 || got[maxWords] != "…" {
		t.Errorf("%d words", len(got))
	}
	if got := command(strings.Repeat(long[:1<<16]+"\x00", 50)); len(got) != maxCommand/maxArgument+1 || got[len(got)-1] != more || len(strings.Join(got, "")) > maxCommand+maxWords {
		t.Errorf("%d words", len(got))
	}
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "UNTHROTTLE_%d=%s\x00", i, long[:200])
	}
	text.WriteString("UNTHROTTLE_" + long + "=1\x00")
	if env := environ(text.String()); len(env) != maxEnv {
		t.Errorf("%d variables", len(env))
	}
	debug := strings.Repeat("madvdontneed=1,", 50)
	env := environ("GODEBUG=" + debug + "containermaxprocs=0\x00GOGC=" + long + "\x00GOMAXPROCS=4\x00")
	if env["GODEBUG"] != "containermaxprocs=0,…" || env["GOGC"] != long[:maxValue]+"…" || env["GOMAXPROCS"] != "4" {
		t.Errorf("environment %q", env)
	}
	if env, err := parseEnviron(endlessly('\x00')); env != nil || err == nil || err.Error() != "more than 8 MiB" {
		t.Errorf("an environment without an end: %v, %v", env, err)
	}
	if words, err := splitCommand(endlessly('x')); len(words) != 1 || words[0] != more || err == nil {
		t.Errorf("a command without an end: %d words, %v", len(words), err)
	}
}

type endlessly byte

func (b endlessly) Read(buf []byte) (int, error) {
	for i := range buf {
		buf[i] = byte(b)
	}
	return len(buf), nil
}
