package vmtest

import (
	"reflect"
	"strings"
	"testing"
)

const goodSerial = "SeaBIOS\r\n" + `vmtest: begin
=== RUN   TestOne
    one_test.go:7: hello
--- PASS: TestOne (0.01s)
=== RUN   TestTwo
=== RUN   TestTwo/sub
    two_test.go:9: no such file here
--- SKIP: TestTwo (0.00s)
    --- SKIP: TestTwo/sub (0.00s)
=== RUN   TestThree
    three_test.go:3: bad
--- FAIL: TestThree (0.00s)
FAIL

vmtest: end, exit code 1
[    9.9] reboot: Power down
`

func TestParseResult(t *testing.T) {
	for _, crlf := range []bool{false, true} {
		serial := goodSerial
		if crlf {
			serial = strings.ReplaceAll(serial, "\n", "\r\n")
		}
		got, err := parseResult(serial)
		if err != nil {
			t.Fatal(err)
		}
		want := []Test{
			{Name: "TestOne", Status: Pass, Output: "    one_test.go:7: hello\n"},
			{Name: "TestTwo", Status: Skip, Output: "=== RUN   TestTwo/sub\n" +
				"    two_test.go:9: no such file here\n    --- SKIP: TestTwo/sub (0.00s)\n"},
			{Name: "TestThree", Status: Fail, Output: "    three_test.go:3: bad\n"},
		}
		if !reflect.DeepEqual(got.Tests, want) {
			t.Errorf("crlf %v: tests are\n%+v\nwant\n%+v", crlf, got.Tests, want)
		}
		if got.ExitCode != 1 {
			t.Errorf("crlf %v: exit code %d, want 1", crlf, got.ExitCode)
		}
	}
}

func TestParseResultBroken(t *testing.T) {
	for _, c := range []struct{ name, serial, want string }{
		{"empty", "", "no beginning"},
		{"firmware only", "SeaBIOS\n", "no beginning"},
		{"cut off", "vmtest: begin\n=== RUN   TestOne\n", "cut off: no line"},
		{"bad code", "vmtest: begin\n\nvmtest: end, exit code x\n", `bad exit code "x"`},
	} {
		_, err := parseResult(c.serial)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", c.name, err, c.want)
		}
	}
}

// A test binary that dies in the middle of a test must not look like success.
func TestParseTestsUnfinished(t *testing.T) {
	got := ParseTests("=== RUN   TestOne\npanic: no\n")
	want := []Test{{Name: "TestOne", Status: Fail, Output: "panic: no\n\n"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tests are %+v, want %+v", got, want)
	}
}

func TestResultErr(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		want   string // "" for success
	}{
		{"passed", Result{Tests: []Test{{Status: Pass}, {Status: Skip}}}, ""},
		{"nothing ran", Result{}, "no guest test ran"},
		{"all skipped", Result{Tests: []Test{{Status: Skip}}}, "all 1 guest tests skipped"},
		{"one failed", Result{ExitCode: 1, Tests: []Test{{Status: Pass}, {Status: Fail}}}, "1 of 2 guest tests failed"},
		{"bad exit code", Result{ExitCode: 2, Tests: []Test{{Status: Pass}}}, "exit code 2"},
	} {
		err := c.result.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}
