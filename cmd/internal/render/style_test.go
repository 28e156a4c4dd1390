package render

import (
	"flag"
	"testing"
)

var update = flag.Bool("update", false, "write what was rendered into the golden files")

func ptr[T any](v T) *T { return &v }

func TestNumbers(t *testing.T) {
	tests := []struct{ got, want string }{
		{number(0), "0"},
		{number(1.5), "1.5"},
		{number(0.43478), "0.435"},
		{number(2), "2"},
		{number(0.0001), "0.0001"},
		{cpus(1), "1 CPU"},
		{cpus(0.5), "0.5 CPUs"},
		{cpus(16), "16 CPUs"},
		{millis(150000), "150 ms"},
		{millis(1), "0.001 ms"},
		{seconds(0), "0 s"},
		{seconds(0.0000015), "2 µs"},
		{seconds(0.0123), "12.3 ms"},
		{seconds(1.5), "1.5 s"},
		{seconds(1234.5), "1235 s"},
		{percent(1.0 / 3), "33.3 %"},
		{percent(1), "100 %"},
		{percent(0.0004), "0 %"},
		{bytes(0), "0 B"},
		{bytes(1023), "1023 B"},
		{bytes(1 << 20), "1 MiB"},
		{bytes(300 << 20), "300 MiB"},
		{bytes(1536 << 20), "1.5 GiB"},
		{plural(1, "period"), "1 period"},
		{plural(0, "period"), "0 periods"},
		{plural(25, "period"), "25 periods"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestPad(t *testing.T) {
	if got := pad("└ é", 5) + "|" + padLeft("é", 3) + "|" + pad("long", 2); got != "└ é  |  é|long" {
		t.Errorf("got %q", got)
	}
}

func TestPaint(t *testing.T) {
	if got := (Style{}).bad("x"); got != "x" {
		t.Errorf("without colour %q", got)
	}
	if got := (Style{Color: true}).bad("x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colour %q", got)
	}
	if got := (Style{Color: true}).bad(""); got != "" {
		t.Errorf("nothing painted: %q", got)
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		width, indent int
		text, want    string
	}{
		{0, 4, "any length goes", "any length goes"},
		{30, 4, "one two three four five six seven", "one two three four five\n    six seven"},
		{30, 20, "no room to speak of is left here", "no room to speak of is left here"},
		{24, 2, "averyveryverylongwordindeed that can't be broken", "averyveryverylongwordindeed\n  that can't be broken"},
		{26, 4, "\x1b[1mbold\x1b[0m words take no room for codes", "\x1b[1mbold\x1b[0m words take no\n    room for codes"},
	}
	for _, tt := range tests {
		if got := (Style{Width: tt.width}).wrap(tt.text, tt.indent); got != tt.want {
			t.Errorf("wrap(%q) at %d: got %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}
