package plain

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		`a "b" \c: ö 世 🙂`:              `a "b" \c: ö 世 🙂`,
		"\x1b]0;pwn\x07":               `\x1b]0;pwn\a`,
		"a\nb\tc\r":                    `a\nb\tc\r`,
		"\u202efdp.exe\u2066\u200f":    `\u202efdp.exe\u2066\u200f`,
		"bad \xff utf-8":               `bad \xff utf-8`,
		"\u009b2J in eight bits":       `\u009b2J in eight bits`,
		"\u2028 and \ufeff and \u00ad": `\u2028 and \ufeff and \u00ad`,
		"a \"quoted\" one\x00":         `a "quoted" one\x00`,
		"a tag \U000e0041":             `a tag \U000e0041`,
	} {
		got := Line(text)
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if again := Line(got); again != got {
			t.Errorf("%q: done twice it is %s", text, again)
		}
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"one":                   "one",
		"one\r\ntwo\n\tthree\n": "one\n  two\n  \tthree\n",
		"a\nunthrottle: hint: run this\x1b[2J\x08": "a\n  unthrottle: hint: run this\\x1b[2J\\b",
		"over\rwritten": `over\rwritten`,
	} {
		if got := Lines(text, "  "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": "plain ö"}`:        `{"a": "plain ö"}`,
		"{\n\t\"a\": \"\u202e\"}": "{\n\t\"a\": \"\\u202e\"}",
		"\"\x7f\u009b\ufeff\"":    `"\u007f\u009b\ufeff"`,
		"\"\U000e0041\"":          `"\udb40\udc41"`,
		"\"\xff\"":                `"\ufffd"`,
	} {
		if got := string(JSON([]byte(text))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "fib": "fib", "a=b": "a=b", "-1.5e-9": "-1.5e-9", "+3": "+3", "-": "'-",
		"=HYPERLINK(\"http://evil.example\")": "'=HYPERLINK(\"http://evil.example\")",
		"@SUM(1)":                             "'@SUM(1)", "-2+3+cmd|' /C calc'!A0": "'-2+3+cmd|' /C calc'!A0", "+Inf": "'+Inf", "-NaN": "'-NaN",
		"＝1": "'＝1", "\t=1": `\t=1`, "\r=1": `\r=1`, "\n=1": `\n=1`,
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzPlain: for any text, what comes out can be shown, and JSON keeps its data.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{"a", "\x1b[2J\xff", "\u202e=1+1", "a\r\nb\tc", "\U000e0041", `\x1b "`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		if !Printable(line) || Line(line) != line {
			t.Errorf("%q becomes %q", text, line)
		}
		for i, l := range strings.Split(Lines(text, "  "), "\n") {
			if !Printable(strings.ReplaceAll(l, "\t", "")) || i > 0 && l != "" && !strings.HasPrefix(l, "  ") {
				t.Errorf("%q has the line %q", text, l)
			}
		}
		if cell := Cell(text); !Printable(cell) || cell != "" && strings.ContainsRune("=@", first(cell)) {
			t.Errorf("%q is the cell %q", text, cell)
		}
		data, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(data)
		for rest := shown; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
				t.Fatalf("%q is the JSON %q", text, shown)
			}
			rest = rest[size:]
		}
		var before, after map[string]string
		if json.Unmarshal(data, &before) != nil || json.Unmarshal(shown, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q is other data: %s", data, shown)
		}
	})
}
