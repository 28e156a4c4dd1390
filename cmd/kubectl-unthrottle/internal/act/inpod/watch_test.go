package inpod

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// counted is an explanation after a number of periods of a limit of half a CPU.
func counted(periods, throttled int64, held float64, change ...func(*report.Explain)) *report.Explain {
	d := &report.Explain{
		Subject: report.Subject{PID: 12, Name: "api"}, Affinity: report.Affinity{CPUs: 2},
		Limit: report.Limit{
			State: "limited", CPUs: new(0.5), From: "/pod/app", Path: "/pod/app",
			Levels: []report.Level{{Dir: "/pod/app", Quota: 0.05, Period: 0.1}},
		},
	}
	d.Throttling.Owner = report.Counters{Dir: "/pod/app", Known: true}
	d.Throttling.Owner.Periods, d.Throttling.Owner.ThrottledPeriods, d.Throttling.Owner.ThrottledSeconds = periods, throttled, held
	for _, c := range change {
		c(d)
	}
	return d
}

// watched is a watch of explanations that come a tenth of a second after each other, starting with the first.
func watched(ctx context.Context, length time.Duration, answers ...any) (*watching, []string, error) {
	var said []string
	w := &watching{length: length, every: 100 * time.Millisecond, silence: time.Second, say: func(text string) { said = append(said, text) }}
	w.explain = func(context.Context) (*report.Explain, error) {
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if err, ok := next.(error); ok {
			return nil, err
		}
		return next.(*report.Explain), nil
	}
	err := w.run(ctx)
	return w, said, err
}

var (
	gone      = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "12")
	errSilent = errors.New("it does not answer")
)

func TestWatching(t *testing.T) {
	raised := func(d *report.Explain) { d.Limit.CPUs = new(2.0) }
	elsewhere := func(d *report.Explain) { d.Limit.From, d.Throttling.Owner.Dir = "/pod", "/pod" }
	unknown := counted(0, 0, 0, func(d *report.Explain) { d.Throttling.Owner.Known = false })
	for name, c := range map[string]struct {
		answers []any
		cause   string
		answer  string
		says    string // a part of what is warned of, or how it ended
	}{
		"throttled":     {[]any{counted(100, 50, 9), counted(102, 52, 9.1)}, "throttled", "in 2 of 2 periods, frozen at least ", ""},
		"hardly":        {[]any{counted(100, 50, 9), counted(101, 50, 9)}, "none", "in none of 1 period", ""},
		"nothing wants": {[]any{counted(100, 50, 9), counted(100, 50, 9)}, "none", "it hardly wanted to run: the kernel counted no period", ""},
		"not counted": {[]any{
			counted(0, 0, 0, func(d *report.Explain) { d.Throttling.Owner.Known = false }),
			counted(0, 0, 0, func(d *report.Explain) { d.Throttling.Owner.Known = false }),
		}, "unsure", "the kernel counts nothing here that would tell", ""},
		"raised":        {[]any{counted(100, 50, 9), counted(102, 52, 9.1, raised)}, "throttled", "in 2 of 2 periods", "the limit was changed meanwhile"},
		"another owner": {[]any{counted(100, 50, 9), counted(3, 1, 0.1, elsewhere), counted(5, 2, 0.2, elsewhere)}, "throttled", "in 1 of 2 periods", "the limit was changed meanwhile"},
		"it ends":       {[]any{counted(100, 50, 9), counted(102, 52, 9.1), gone}, "throttled", "in 2 of 2 periods", "its agent does not know its program any more"},
		"a pause":       {[]any{counted(100, 50, 9), errSilent, errSilent, errSilent, counted(102, 52, 9.1)}, "throttled", "in 2 of 2 periods", ""},
		"for half the time": {
			[]any{counted(100, 50, 9), counted(102, 52, 9.1), unknown, counted(104, 54, 9.2), gone},
			"throttled", "in 2 of 2 periods", "s more it is not known",
		},
		"another container": {[]any{counted(100, 50, 9), counted(102, 52, 9.1), counted(104, 54, 9.2, func(d *report.Explain) { d.Throttling.Own.Dir = "/other" })}, "throttled", "in 2 of 2 periods", "its program has ended"},
		"silence":           {[]any{counted(100, 50, 9), counted(102, 52, 9.1), errSilent}, "throttled", "in 2 of 2 periods", "its agent does not answer any more"},
	} {
		length := 50 * time.Millisecond
		if len(c.answers) > 2 && name != "a pause" {
			length = time.Minute
			if name == "another owner" {
				c.answers = append(c.answers, gone)
			}
		}
		w, _, err := watched(t.Context(), length, c.answers...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := w.document(nil)
		told := strings.Join(append(d.Warnings, d.Ended), "; ")
		if d.Cause != c.cause || !strings.HasPrefix(d.Answer(), c.answer) || !strings.Contains(told, c.says) {
			t.Errorf("%s: %s, %q, %q", name, d.Cause, d.Answer(), told)
		}
		if d.FrozenShare != nil || d.FreezeCount != nil || d.Heartbeat != nil || len(d.Freezes) > 0 {
			t.Errorf("%s: it tells of freezes: %+v", name, d)
		}
		if (d.Blind() != nil) != (c.cause == "unsure") {
			t.Errorf("%s: %v", name, d.Blind())
		}
	}
}

// TestWatchingOthers: about a container that does nothing while others use up the limit that it shares, watch says what explain says.
func TestWatchingOthers(t *testing.T) {
	used := func(seconds float64) func(*report.Explain) {
		return func(d *report.Explain) { d.Throttling.Own = report.Counters{Dir: "/pod/app", CPU: &seconds} }
	}
	for name, c := range map[string]struct {
		first, last *report.Explain
		want        string
	}{
		"idle":    {counted(100, 50, 9, used(3)), counted(103, 53, 9.1, used(3.0001)), "others use up the limit of 0.5 CPUs that it shares"},
		"busy":    {counted(100, 50, 9, used(3)), counted(103, 53, 9.1, used(3.05)), "its limit of 0.5 CPUs stops it"},
		"unknown": {counted(100, 50, 9), counted(103, 53, 9.1), "its limit of 0.5 CPUs stops it"},
	} {
		w, _, err := watched(t.Context(), 50*time.Millisecond, c.first, c.last)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := w.document(nil); len(d.Findings) != 1 || d.Findings[0].Summary != c.want {
			t.Errorf("%s: %+v, want %s", name, d.Findings, c.want)
		}
	}
}

// TestImpossible: what can't be is not an answer.
func TestImpossible(t *testing.T) {
	for name, next := range map[string]*report.Explain{
		"backwards":           counted(99, 50, 9),
		"fewer throttled":     counted(102, 49, 9),
		"time runs backwards": counted(102, 52, 8),
		"more than there are": counted(102, 60, 9.1),
		"ages":                counted(102, 52, 1e9),
		"millions":            counted(100_000_000, 52, 9),
		"infinity":            counted(102, 52, math.Inf(1)),
		"CPU time goes back":  counted(102, 52, 9.1, func(d *report.Explain) { d.Throttling.Own.CPU = new(1.0) }),
		"no number":           counted(102, 52, math.NaN()),
		"another process":     counted(102, 52, 9.1, func(d *report.Explain) { d.Subject.PID = 13 }),
	} {
		if _, _, err := watched(t.Context(), time.Second, counted(100, 50, 9, func(d *report.Explain) { d.Throttling.Own.CPU = new(2.0) }), next); !errors.Is(err, errRunning) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, answers := range map[string][]any{"it is gone": {gone}, "gone at once": {counted(1, 0, 0), gone}, "silent": {counted(1, 0, 0), errSilent}} {
		if w, _, err := watched(t.Context(), time.Second, answers...); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestStopped keeps what was seen before Ctrl-C.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	w := &watching{length: time.Hour, say: func(string) {}}
	w.explain = func(context.Context) (*report.Explain, error) {
		if seen++; seen == 3 {
			cancel()
			return nil, ctx.Err()
		}
		return counted(int64(100*seen), int64(50*seen), float64(seen)), nil
	}
	if err := w.run(ctx); err != nil || !w.stopped || w.sum.Periods != 100 {
		t.Errorf("%v, %+v", err, w)
	}
	w.now.Warnings = []string{"its pod mutes throttled: that is not looked for"} // as an explanation has it
	if d := w.document([]string{"throttled"}); !d.Stopped || len(d.Findings) > 0 || !strings.Contains(strings.Join(d.Warnings, ""), "its pod mutes throttled") {
		t.Errorf("%+v", d)
	}
}
