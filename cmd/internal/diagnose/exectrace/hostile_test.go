package exectrace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// mostMemory is what reading any trace may take, resident: two generations that are read at once, and what is kept of all.
const mostMemory = 1 << 30

// TestAmplifiers reads each in a process of its own: what is left out is reported, and the memory is bounded.
func TestAmplifiers(t *testing.T) {
	slowtest.Plain(t)
	if name := os.Getenv("UNTHROTTLE_AMPLIFIER"); name != "" {
		amplified(t, name)
		return
	}
	for _, a := range amplifiers {
		t.Run(a.name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestAmplifiers$", "-test.v")
			child.Env = append(os.Environ(), "UNTHROTTLE_AMPLIFIER="+a.name)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out[:min(len(out), 2000)])
			}
			if peak := regexp.MustCompile(`peak: (\d+) kB`).FindSubmatch(out); peak != nil {
				kB, _ := strconv.Atoi(string(peak[1]))
				t.Logf("%d MiB", kB>>10)
				if kB<<10 > mostMemory {
					t.Errorf("it took %d MiB", kB>>10)
				}
			}
		})
	}
}

// amplified reads a trace in this process.
func amplified(t *testing.T, name string) {
	limitMemory(t, 2*mostMemory) // so that a failure can't take the machine down
	for _, a := range amplifiers {
		if a.name != name {
			continue
		}
		got, err := Read(context.Background(), a.trace(a.generations, a.n), Options{})
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = strings.Join(got.Warnings, "\n")
		}
		if !strings.Contains(said, a.says) || a.says == "" && said != "" {
			t.Errorf("%q does not say %q", said, a.says)
		}
		if name == "GOMAXPROCS" && (got == nil || len(got.Procs) != mostSettings || got.Changes != a.generations*a.n-mostSettings || got.Procs[mostSettings-1].Procs != 2) {
			t.Errorf("of the changes of GOMAXPROCS are left: %+v", got)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	if peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); peak != nil {
		t.Logf("peak: %s kB", peak[1])
	}
}

// TestManyWaiting: how many steps the moments of the longest silences take does not grow with goroutines times silences.
func TestManyWaiting(t *testing.T) {
	slowtest.Plain(t)
	n := newNames()
	s, err := newSplitter(silent(300_000, 3_000))
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(n)
	decodeAll(context.Background(), s.generation, n, func(events []event) {
		for _, e := range events {
			p.take(e)
		}
	}, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if p.runnable != 300_000 || len(p.silences) < 2_990 {
		t.Fatalf("%d goroutines wait, %d silences", p.runnable, len(p.silences))
	}
	if p.steps > mostSteps || p.steps < mostSteps/2 {
		t.Errorf("%d steps", p.steps)
	}
	if p.unseen == 0 || len(p.moments) != keptMoments {
		t.Errorf("%d moments, %d too many", len(p.moments), p.unseen)
	}
	got, err := Read(context.Background(), silent(300_000, 3_000), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Longest) != longest || got.Longest[0].Waiting != 300_000 {
		t.Errorf("the longest: %+v", got.Longest)
	}
	if said := strings.Join(got.Warnings, "\n"); !strings.Contains(said, "who was there is not known of 26") {
		t.Errorf("it says %q", said)
	}
	// A program of an ordinary size is looked at in all of them.
	if got, err = Read(context.Background(), silent(300, 30_000), Options{}); err != nil || len(got.Warnings) > 0 || len(got.Longest[0].Runnable) != keptGoroutines {
		t.Errorf("%v, %q: %+v", err, got.Warnings, got.Longest[0])
	}
	for i, g := range got.Longest[0].Runnable {
		if g.ID != int64(i+1) {
			t.Errorf("number %d of those that waited longest is %d", i, g.ID)
		}
	}
}

// TestInterrupted: reading ends when its context does, though the trace does not.
func TestInterrupted(t *testing.T) {
	for name, trace := range map[string]func() io.Reader{
		"events": func() io.Reader {
			return forged(func(f *forge) {
				for f.gen < 1<<20 { // until it is no longer read
					f.generation(func() {
						f.computing(1)
						f.many(1, 1_000_000, nil, func(b []byte, i int) []byte { return varints(append(b, procsEvent), 1, 2, 0) })
					})
				}
			})
		},
		"endless generation": func() io.Reader { return endless(math.MaxInt) },
		// Each event looks at all other threads.
		"threads that wait": func() io.Reader {
			return forged(func(f *forge) {
				f.generation(func() {
					for i := range uint64(40_000) {
						f.batch(i+2, varints([]byte{10}, 1, 3, 9)) // the start of a P that is not known
					}
					f.computing(1)
					f.time = 100
					f.many(1, 5_000_000, nil, func(b []byte, i int) []byte { return varints(append(b, procsEvent), 1, 2, 0) })
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(context.Background())
			in := trace()
			time.AfterFunc(200*time.Millisecond, end)
			done := make(chan error, 1)
			go func() {
				_, err := Read(ctx, contextReader{ctx, in}, Options{})
				done <- err
			}()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it does not end")
			}
		})
	}
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// FuzzAmplifiers: some of anything, several times, is read or refused, and never panics.
func FuzzAmplifiers(f *testing.F) {
	for i := range amplifiers {
		f.Add(byte(i), byte(1), uint16(100), uint32(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, which, generations byte, n uint16, at uint32, flip byte) {
		a := amplifiers[int(which)%len(amplifiers)]
		trace := a.trace(int(generations%4)+1, int(n))
		data, err := io.ReadAll(io.LimitReader(trace, 24<<20)) // some would have 200 MB, and stacks have their bound in 12
		if err != nil {
			t.Fatal(err)
		}
		if pipe, ok := trace.(io.Closer); ok {
			pipe.Close()
		}
		data[int(at)%len(data)] ^= flip
		got, err := Read(context.Background(), bytes.NewReader(data), Options{})
		if err == nil && (got.Frozen < 0 || got.Frozen > 1.01) {
			t.Errorf("frozen for %v of the time", got.Frozen)
		}
	})
}
