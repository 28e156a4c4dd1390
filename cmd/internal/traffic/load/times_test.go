package load

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadTimes(t *testing.T) {
	ms := func(n ...int) (all []time.Duration) {
		for _, v := range n {
			all = append(all, time.Duration(v)*time.Millisecond)
		}
		return all
	}
	for _, c := range []struct {
		name, text string
		want       []time.Duration
		err        string
	}{
		{"seconds", "0.5\n1.25\n1.25\n", ms(0, 750, 750), ""},
		{"of an epoch, out of order", "1700000001.5\n1700000000.25\n", ms(0, 1250), ""},
		{"RFC 3339", "2026-11-26T12:00:00.25Z\n\n# later\n2026-11-26T13:00:01+01:00\n", ms(0, 750), ""},
		{"an access log's, in brackets", "[26/Nov/2026:12:00:00.5 +0000]\n", nil, "fewer than two"},
		{"quotes", "\"0.5\"\n\"1\"\n", ms(0, 500), ""},
		{"no newline at the end", "0.5\n1", ms(0, 500), ""},
		{"nothing", "", nil, "fewer than two times"},
		{"one", "0.5\n", nil, "fewer than two times"},
		{"all at once", "0.5\n0.5\n", nil, "all times are the same"},
		{"something else", "0.5\nGET /\n", nil, `line 2: "GET /" is not a time`},
		{"before all epochs", "-1\n2\n", nil, `line 1: "-1" is not a time`},
		{"no number", "NaN\n2\n", nil, "line 1"},
		{"days apart", "0.5\n100000\n", nil, "more than 24h0m0s apart"},
		{"a long line", strings.Repeat("1", 70000), nil, "too long"},
	} {
		got, sum, err := ReadTimes(strings.NewReader(c.text), 1)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if !slices.EqualFunc(got, c.want, func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond }) || !strings.Contains(text, c.err) || (err == nil) != (c.err == "") || (sum == "") != (err != nil) {
			t.Errorf("%s: %v, %q, %s; want %v, %q", c.name, got, sum, text, c.want, c.err)
		}
	}
}

// TestReadTimesWhole: a log of whole seconds does not send all of a second's requests at its beginning.
func TestReadTimesWhole(t *testing.T) {
	var b strings.Builder
	for i := range 20 {
		for range 100 {
			fmt.Fprintf(&b, "[26/Nov/2026:12:00:%02d +0100]\n", i)
		}
	}
	got, _, err := ReadTimes(strings.NewReader(b.String()), 1)
	if err != nil || len(got) != 2000 || !slices.IsSorted(got) {
		t.Fatal(len(got), err)
	}
	if n := len(slices.Compact(slices.Clone(got))); n < 1990 {
		t.Errorf("%d different times", n)
	}
	half := 0
	for _, at := range got {
		if (at+time.Millisecond)%time.Second < time.Second/2 {
			half++
		}
	}
	if half < 850 || half > 1150 {
		t.Errorf("%d in the first half of a second", half)
	}
	again, _, _ := ReadTimes(strings.NewReader(b.String()), 1)
	other, _, _ := ReadTimes(strings.NewReader(b.String()), 2)
	if !slices.Equal(got, again) || slices.Equal(got, other) {
		t.Error("the seed does not say where they are")
	}
}

func FuzzReadTimes(f *testing.F) {
	f.Add([]byte("0.5\n1.25\n"))
	f.Add([]byte("[26/Nov/2026:12:00:00 +0000]\n2026-11-26T12:00:00Z\n# c\n\n"))
	f.Add([]byte("1e10\n1e300\nInf\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		times, sum, err := ReadTimes(bytes.NewReader(text), 1)
		if err != nil {
			return
		}
		if len(times) < 2 || times[0] != 0 || !slices.IsSorted(times) || times[len(times)-1] > longestTimes || len(sum) != 64 {
			t.Errorf("%d times, the last %v", len(times), times[len(times)-1])
		}
	})
}
