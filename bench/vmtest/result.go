package vmtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Result is what one boot found.
type Result struct {
	ExitCode int    // of the guest's test binary
	Output   string // what it wrote, whole
	Tests    []Test // in the order in which they ended
}

// Status says how a test ended.
type Status string

const (
	Pass Status = "PASS"
	Skip Status = "SKIP"
	Fail Status = "FAIL"
)

// A Test is one top-level test with the output of its subtests.
type Test struct {
	Name   string
	Status Status
	Output string
}

// Err says why the run as a whole failed, or nil. A run in which nothing ran has
// failed: a wrong pattern or a wrong environment would look like success.
func (r Result) Err() error {
	count := map[Status]int{}
	for _, t := range r.Tests {
		count[t.Status]++
	}
	switch {
	case len(r.Tests) == 0:
		return fmt.Errorf("no guest test ran (exit code %d)", r.ExitCode)
	case count[Fail] > 0 || r.ExitCode != 0:
		return fmt.Errorf("%d of %d guest tests failed (exit code %d)", count[Fail], len(r.Tests), r.ExitCode)
	case count[Pass] == 0:
		return fmt.Errorf("all %d guest tests skipped", len(r.Tests))
	}
	return nil
}

// The lines that guestinit writes around the output of the test binary. The exit
// code follows EndMark.
const (
	BeginMark = "vmtest: begin"
	EndMark   = "vmtest: end, exit code "
)

// parseResult reads everything that the guest wrote to its first serial port.
// Before the first mark there may be output of the firmware.
func parseResult(serial string) (Result, error) {
	serial = strings.ReplaceAll(serial, "\r\n", "\n") // the terminal layer adds \r
	_, rest, ok := strings.Cut(serial, BeginMark+"\n")
	if !ok {
		return Result{}, fmt.Errorf("reading the guest's output: no beginning: no line %q", BeginMark)
	}
	i := strings.LastIndex(rest, "\n"+EndMark)
	if i < 0 {
		return Result{Output: rest, Tests: ParseTests(rest)},
			fmt.Errorf("reading the guest's output: cut off: no line %q", EndMark)
	}
	output, end := rest[:i+1], rest[i+1+len(EndMark):]
	line, _, _ := strings.Cut(end, "\n")
	code, err := strconv.Atoi(line)
	if err != nil {
		return Result{Output: output}, fmt.Errorf("reading the guest's output: bad exit code %q", line)
	}
	return Result{ExitCode: code, Output: output, Tests: ParseTests(output)}, nil
}

// The lines of `go test -v` about top-level tests; those about subtests name a
// parent or are indented.
var (
	runLine  = regexp.MustCompile(`^=== RUN   ([^/]+)$`)
	doneLine = regexp.MustCompile(`^--- (PASS|SKIP|FAIL): (\S+) \(`)
)

// ParseTests splits the output of a test binary's -test.v into top-level tests.
// The guest's tests run one after the other, so lines belong to the test that
// began last. A test that began and did not end counts as failed.
func ParseTests(output string) []Test {
	var tests []Test
	open := false
	for _, line := range strings.Split(output, "\n") {
		if m := runLine.FindStringSubmatch(line); m != nil {
			tests = append(tests, Test{Name: m[1], Status: Fail})
			open = true
			continue
		}
		if len(tests) == 0 {
			continue
		}
		last := &tests[len(tests)-1]
		m := doneLine.FindStringSubmatch(line)
		switch {
		case m != nil && m[2] == last.Name:
			last.Status = Status(m[1])
			open = false
		case open || strings.HasPrefix(line, " "): // a done line's details follow it
			last.Output += line + "\n"
		}
	}
	return tests
}
