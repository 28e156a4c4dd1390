package quantity

import (
	"math"
	"strconv"
	"strings"
)

// A Unit says how values of one kind are written, in columns and at the ticks of an axis. Its zero value writes bare
// numbers.
type Unit struct {
	kind kind
	one  float64 // of the values, in base units; 0 is 1
}

type kind int

const (
	bare kind = iota
	ofTime
	ofBytes
	ofHundred // per cent
	ofRate
	ofCPUs
	ofRatio
)

// The units in which this project counts.
var (
	Bare    = Unit{}
	Second  = Unit{kind: ofTime}
	Byte    = Unit{kind: ofBytes}
	Percent = Unit{kind: ofHundred}           // of 100
	Of1     = Unit{kind: ofHundred, one: 100} // a share
	Rate    = Unit{kind: ofRate}              // a second
	CPU     = Unit{kind: ofCPUs}              // a number of CPUs
	Ratio   = Unit{kind: ofRatio}             // written as a change
	nano    = Unit{kind: ofTime, one: 1e-9}   //
	milli   = Unit{kind: ofTime, one: 1e-3}   //
)

// UnitOf returns the unit of a metric by its name in Go's benchmark format, such as ns/op, cpu-sec or req/s. What a benchmark
// reports itself may have any name, and is a bare number.
func UnitOf(metric string) Unit {
	unit, _, _ := strings.Cut(metric, "/")
	has := func(suffix string) bool { return unit == suffix || strings.HasSuffix(unit, "-"+suffix) }
	switch {
	case has("ns"):
		return nano
	case has("sec") || metric == "cpu-s" || strings.HasPrefix(metric, "cpu-s/"):
		return Second
	case has("ms"):
		return milli
	case has("bytes"):
		return Byte
	case has("%"):
		return Percent
	case strings.HasSuffix(metric, "/s"):
		return Rate
	}
	return Bare
}

// Text writes a value in the unit that is best to read, with three digits: 27100 ns are 27.1 µs.
func (u Unit) Text(v float64) string {
	v *= u.factor()
	switch u.kind {
	case ofBytes:
		return Bytes(int64(v))
	case ofHundred:
		return Three(v) + " %"
	case ofCPUs:
		return CPUs(v)
	case ofRatio:
		return Change(v)
	case ofTime, ofRate:
		one, name := u.prefixed(v)
		return strings.TrimSpace(Three(v/one) + " " + name)
	}
	return Three(v)
}

func (u Unit) factor() float64 {
	if u.one == 0 {
		return 1
	}
	return u.one
}

// Scale is the unit in which Text would write a value: its size and its name. All ticks of an axis are written in one.
func (u Unit) Scale(v float64) (one float64, name string) {
	v *= u.factor()
	one = 1
	switch u.kind {
	case ofTime, ofRate:
		one, name = u.prefixed(v)
	case ofBytes:
		i := 0
		for math.Abs(v)/one >= 1024 && i < len(byteUnits)-1 {
			one *= 1024
			i++
		}
		name = byteUnits[i]
	case ofHundred:
		name = "%"
	case ofCPUs:
		name = "CPUs"
	}
	return one / u.factor(), name
}

var prefixes = []string{"n", "µ", "m", "", "k", "M", "G", "T"}

// prefixed chooses the prefix with which a value has one to three digits before the point. Times have no large ones: 12,000 s
// are not 12 ks.
func (u Unit) prefixed(v float64) (one float64, name string) {
	i, last, first, word := 3, len(prefixes)-1, 3, ""
	if u.kind == ofTime {
		last, first, word = 3, 0, "s"
	}
	one = 1
	if v == 0 {
		return one, word
	}
	for math.Abs(v)/one >= 999.5 && i < last {
		one *= 1000
		i++
	}
	for math.Abs(v)/one < 0.9995 && i > first {
		one /= 1000
		i--
	}
	return one, prefixes[i] + word
}

// Tick writes a value at an axis whose ticks are a step apart, in a unit from Scale, with as many digits as
// distinguish it from the next.
func Tick(v, step, one float64, name string) string {
	if v == 0 {
		return "0"
	}
	if step == 0 {
		return strings.TrimSpace(minus(strconv.FormatFloat(v/one, 'g', 6, 64)) + " " + name)
	}
	digits := max(0, int(math.Ceil(-math.Log10(step/one)-1e-9)))
	return strings.TrimSpace(minus(strconv.FormatFloat(v/one, 'f', digits, 64)) + " " + name)
}

// units are the words that belong to the number before them.
var units = map[string]bool{
	"%": true, "ns": true, "µs": true, "ms": true, "s": true, "min": true, "h": true, "B": true, "KiB": true, "MiB": true, "GiB": true,
	"TiB": true, "kB": true, "MB": true, "GB": true, "CPU": true, "CPUs": true, "point": true, "points": true, "k": true, "M": true, "G": true, "P": true, "Ps": true,
}

// ahead are the words that belong to the number after them.
var ahead = map[string]bool{"→": true, "≤": true, "≥": true, "<": true, ">": true, "R": true, "Go": true, "PID": true, "pid": true}

// Glued reports whether two words must stay on one line because one of them is a number and the other says what it counts.
func Glued(left, right string) bool {
	if left == "" || right == "" {
		return false
	}
	if ahead[strings.TrimLeft(left, "(")] {
		return right[0] >= '0' && right[0] <= '9'
	}
	last := left[len(left)-1]
	return last >= '0' && last <= '9' && units[strings.TrimRight(right, ",.;:)!?")]
}
