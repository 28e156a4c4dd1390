package tune

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/internal/size"
)

// This file has what the user varies besides GOMAXPROCS and GOGC, or in place of them, and what a setting is called.

// A Knob is something of a program that may have one of several values, the current one first; see lab.Pair.
type Knob struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// MostVaried are the combinations of all values that may be tried.
const MostVaried = 32

const longestValue = 1000 // bytes

var knobName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)

// ParseKnob reads NAME=VALUE,VALUE. A variable without a value is not set.
func ParseKnob(text string) (k Knob, err error) {
	name, values, ok := strings.Cut(text, "=")
	if k = (Knob{name, strings.Split(values, ",")}); !ok {
		return k, errors.New("no values")
	}
	return k, k.check()
}

func (k Knob) check() error {
	if !knobName.MatchString(k.Name) {
		return fmt.Errorf("%.100q is neither the name of a variable nor of a place {NAME} in the command line", k.Name)
	}
	if len(k.Values) < 2 {
		return fmt.Errorf("%s has one value: the first is what it has now, and others are compared with it", k.Name)
	}
	seen := map[string]bool{}
	for _, v := range k.Values {
		if len(v) > longestValue || strings.ContainsAny(v, "\n\x00") {
			return fmt.Errorf("%s has a value of several lines, or of more than %d bytes", k.Name, longestValue)
		}
		if seen[v] {
			return fmt.Errorf("%s has the value %q twice", k.Name, v)
		}
		seen[v] = true
	}
	return nil
}

// CheckVary refuses what can't be varied.
func (p Plan) CheckVary() error {
	names := map[string]bool{"GOMAXPROCS": true, "GOGC": true}
	for _, k := range p.Vary {
		if err := k.check(); err != nil {
			return err
		}
		if names[k.Name] {
			return fmt.Errorf("%s is varied twice, or by a flag of its own", k.Name)
		}
		names[k.Name] = true
		if p.combinations() > MostVaried {
			return fmt.Errorf("these values make more than %d combinations", MostVaried)
		}
	}
	if len(p.Vary) > 0 && (p.Kind == GoBenchKind || p.AsksLimit()) {
		return errors.New("what is varied is of a program under one limit")
	}
	return nil
}

// HeapFloor is the variable that package auto/heapfloor reads.
const HeapFloor = "UNTHROTTLE_HEAP_FLOOR"

// floor is one that is worth trying.
const floor = "32MiB"

// TryFloor has the heap floor tried of a program that links it and leaves it off, in place of a GOGC: it does the same for a small heap,
// and leaves a larger one alone. It is not, where the user has said what to try, or where its memory limit, if there is one, leaves no room.
func (p *Plan) TryFloor(memory int64) {
	room := memory == 0 || float64(size.Parse(floor)+beside) <= mostFull*float64(memory)
	if p.Kind != GoBenchKind && !p.AsksLimit() && len(p.Vary)+len(p.GOGC) == 0 && !p.NoGOGC && room {
		p.Vary, p.Floor = []Knob{{HeapFloor, []string{"", floor}}}, true
	}
}

// combinations are those of all values.
func (p Plan) combinations() int {
	n := 1
	for _, k := range p.Vary {
		n = min(n*len(k.Values), MostVaried+1)
	}
	return n
}

// ByProcs reports whether GOMAXPROCS is varied: it is unless only something else is.
func (p Plan) ByProcs() bool { return len(p.Vary) == 0 || p.Floor || len(p.Procs) > 0 || p.All }

// ByGo reports whether anything is varied that means something to Go programs alone.
func (p Plan) ByGo() bool { return p.ByProcs() || len(p.GOGC) > 0 }

// Varied are the values of a combination: 0 is the current one, and the last name's values change fastest.
func (p Plan) Varied(n int) []lab.Pair {
	pairs := make([]lab.Pair, len(p.Vary))
	for i := len(p.Vary) - 1; i >= 0; i-- {
		k := p.Vary[i]
		pairs[i] = lab.Pair{Name: k.Name, Value: k.Values[n%len(k.Values)]}
		n /= len(k.Values)
	}
	return pairs
}

// Setting is what one is called: GOMAXPROCS=2 with GOGC=800, or WORKERS=4.
func (p Plan) Setting(c search.Candidate) string {
	if p.ByProcs() {
		return "GOMAXPROCS=" + p.Short(c)
	}
	return p.Short(c)
}

// Short is the same where it is known that it is about GOMAXPROCS: 2 with GOGC=800.
func (p Plan) Short(c search.Candidate) string {
	var also []string
	if c.GOGC != 0 {
		also = append(also, "GOGC="+strconv.Itoa(c.GOGC))
	}
	if c.Vary != 0 || !p.ByProcs() {
		for i, pair := range p.Varied(c.Vary) {
			if !p.ByProcs() || pair != p.Varied(0)[i] {
				also = append(also, pair.String())
			}
		}
	}
	switch {
	case !p.ByProcs():
		return quantity.List(also)
	case len(also) > 0:
		return strconv.Itoa(c.Procs) + " with " + quantity.List(also)
	}
	return strconv.Itoa(c.Procs)
}
