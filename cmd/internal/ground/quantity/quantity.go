// Package quantity answers: how is a number written, and which number does a text mean? In go numbers in base units
// (seconds, bytes, CPUs, shares of 1, requests a second), out come texts for people, and the other way round: every flag
// that takes a number is read here, so that one spelling means one thing wherever it is written.
//
// It makes no sentences: what is said about a number is said elsewhere.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Number writes a number with at most three digits after the point.
func Number(v float64) string {
	if v != 0 && math.Abs(v) < 0.001 {
		return minus(strconv.FormatFloat(v, 'g', 2, 64))
	}
	return minus(strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64))
}

// Significant keeps that many digits of a number, so that what is shown is what was used, and can be typed in again.
func Significant(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// Hundredths writes a number with at most two digits after the point.
func Hundredths(v float64) string { return Number(math.Round(v*100) / 100) }

// Three writes at least three digits, and no more after the point than that takes: 5.60, 12.3, 1234.
func Three(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a >= 99.95:
		return minus(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 9.995:
		return minus(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.01:
		return minus(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return minus(strconv.FormatFloat(v, 'g', 3, 64))
}

// minus gives a negative number its proper sign, and none to a zero. An exponent keeps the one it has.
func minus(text string) string {
	switch rest, negative := strings.CutPrefix(text, "-"); {
	case negative && strings.Trim(rest, "0.") == "":
		return rest
	case negative:
		return "−" + rest
	}
	return text
}

// CPUs writes a number of CPUs: 1 CPU, 0.5 CPUs.
func CPUs(v float64) string {
	if v == 1 {
		return "1 CPU"
	}
	return Number(v) + " CPUs"
}

// UsedCPUs writes CPUs that were measured; more than two digits after the point would claim too much precision.
func UsedCPUs(v float64) string { return CPUs(math.Round(v*100) / 100) }

// Share writes a share of 1 as a percentage with at most one digit after the point.
func Share(share float64) string { return Number(math.Round(share*1000)/10) + " %" }

// WholeShare writes a share without digits after the point, for where there is little room. A share above zero is not written as 0 %.
func WholeShare(share float64) string {
	if share > 0 && share < 0.0095 {
		return "<1 %"
	}
	return minus(strconv.FormatFloat(share*100, 'f', 0, 64)) + " %"
}

// RoughShare writes a share with two digits, and no fraction of a larger one, for what is known roughly, such as noise.
func RoughShare(share float64) string {
	if share < 0.0995 {
		return Share(share)
	}
	return WholeShare(share)
}

// Margin writes how far a share may be off: ± 1.2 points.
func Margin(share float64) string { return "± " + Number(math.Round(share*1000)/10) + " points" }

// Part writes a part of a whole as a percentage. A part that is neither nothing nor all is not written as 0 % or 100 %. It is empty if the
// whole is zero.
func Part(n, of int64) string {
	share := float64(n) / float64(of)
	switch {
	case of <= 0:
		return ""
	case n > 0 && share < 0.0001:
		return "<0.01 %"
	case n > 0 && share < 0.001:
		return Hundredths(100*share) + " %"
	case share > 0.999 && n < of:
		return Number(math.Floor(share*1e5)/1e3) + " %"
	}
	return Share(share)
}

// Points writes the difference of two shares: +3 points.
func Points(difference float64) string {
	text := minus(strconv.FormatFloat(math.Round(difference*100), 'f', -1, 64))
	if difference >= 0.005 {
		text = "+" + text
	}
	if text == "+1" || text == "−1" {
		return text + " point"
	}
	return text + " points"
}

// Change writes a ratio as a signed percentage, or as a multiple where that would have four digits: −7.3 %, +12 %, 12.0×.
func Change(ratio float64) string {
	points := 100 * math.Abs(ratio-1)
	if points < 9.95 {
		points = math.Round(points*10) / 10
	} else {
		points = math.Round(points)
	}
	switch {
	case ratio >= 10:
		return Three(ratio) + "×"
	case points == 0:
		return "0 %"
	case ratio > 1:
		return "+" + Number(points) + " %"
	}
	return "−" + Number(points) + " %"
}

// Changes writes an interval of ratios: −66 to −47 %.
func Changes(low, high float64) string {
	from, to := Change(low), Change(high)
	if short, ok := strings.CutSuffix(from, " %"); ok && strings.HasSuffix(to, " %") {
		from = short
	}
	return from + " to " + to
}

// Times writes a multiple with at most three digits: ×1.25, ×12.
func Times(ratio float64) string {
	switch {
	case ratio >= 100:
		return "×" + Count(int64(math.Round(ratio)))
	case ratio >= 10:
		return "×" + Number(math.Round(ratio*10)/10)
	}
	return "×" + Hundredths(ratio)
}

// Seconds writes a time with as many digits as it deserves: 100 ms, 1.23 s.
func Seconds(s float64) string {
	switch a := math.Abs(s); {
	case s == 0:
		return "0 s"
	case a < 1e-6:
		return Number(math.Round(s*1e9)) + " ns"
	case a < 0.001:
		return Number(math.Round(s*1e6)) + " µs"
	case a < 1:
		return Number(math.Round(s*1e4)/10) + " ms"
	case a < 100:
		return Number(math.Round(s*100)/100) + " s"
	}
	return Number(math.Round(s)) + " s"
}

// Brief writes a time with at most three digits: 5.6 ms, 313 ms.
func Brief(s float64) string {
	text, unit, _ := strings.Cut(Latency(s), " ")
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + unit
}

// Duration writes a time as Seconds does.
func Duration(d time.Duration) string { return Seconds(d.Seconds()) }

// Countdown writes a time that passes in whole seconds: 42 s, 3 min 05 s.
func Countdown(d time.Duration) string {
	seconds := int(d.Round(time.Second).Seconds())
	if d < time.Minute {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %02d s", seconds/60, seconds%60)
}

// Latency writes a time that is compared with others, with three digits: 5.60 ms.
func Latency(s float64) string { return Second.Text(s) }

// longest is beyond what anything lasts; it keeps a broken document's numbers readable.
const longest = 1e9

// Lasting writes how long people waited for something: 12 s, 3 min 20 s, 2 h 5 min.
func Lasting(s float64) string {
	s = max(0, min(s, longest))
	switch {
	case s < 10:
		return Seconds(s)
	case s < 99.5:
		return Number(math.Round(s*10)/10) + " s"
	}
	switch d := time.Duration(math.Round(s)) * time.Second; {
	case d < 100*time.Second:
		return Seconds(d.Seconds())
	case d == time.Hour:
		return "1 h"
	case d < 100*time.Minute:
		return twoUnits(d, time.Minute, "min", time.Second, "s")
	default:
		return twoUnits(d.Truncate(time.Minute), time.Hour, "h", time.Minute, "min")
	}
}

// twoUnits writes a time in a unit and the next smaller one, if there is some of it: 3 min 20 s, 3 min.
func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/large)) + " " + largeName
	if rest := int(d % large / small); rest > 0 {
		text += " " + strconv.Itoa(rest) + " " + smallName
	}
	return text
}

// PerSecond writes a rate: 840/s, 12,000/s.
func PerSecond(v float64) string {
	if math.Abs(v) >= 1000 {
		return Count(int64(math.Round(v))) + "/s"
	}
	text := Three(v)
	if strings.Contains(text, ".") && !strings.Contains(text, "e") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "/s"
}

// Bytes writes a size in the units of GOMEMLIMIT: 1.5 GiB.
func Bytes(n int64) string {
	v, i := float64(n), 0
	for math.Abs(v) >= 1024 && i < len(byteUnits)-1 {
		v /= 1024
		i++
	}
	return Number(math.Round(v*10)/10) + " " + byteUnits[i]
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// whole is a number of things.
type whole interface{ ~int | ~int64 }

// Count writes a number of things: 12,000.
func Count[N whole](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	first := 1
	if n < 0 {
		first = 2
	}
	for i := len(text) - 3; i >= first; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return minus(text)
}

// Plural writes a number of things with their name: 1 process, 12,000 processes.
func Plural[N whole](n N, one string) string { return Count(n) + " " + Word(n, one) }

// Word is the name alone, singular or plural, for n things.
func Word[N whole](n N, one string) string {
	switch {
	case n == 1:
		return one
	case strings.HasSuffix(one, "s") || strings.HasSuffix(one, "sh"):
		return one + "es"
	}
	return one + "s"
}

// Words counts the words of a sentence. A number and its unit are two.
func Words(text string) int { return len(strings.Fields(text)) }

// List writes words as a sentence has them: 1, 2 and 4.
func List(words []string) string { return listed(words, " and ") }

// Either writes words to choose one of: 1, 2 or 4.
func Either(words []string) string { return listed(words, " or ") }

func listed(words []string, last string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + last + words[n-1]
	}
	return strings.Join(words, "")
}
