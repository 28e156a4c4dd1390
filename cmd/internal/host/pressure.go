package host

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// A pressure is how long threads of a group have waited for CPU since it was made.
type pressure struct {
	some, full time.Duration
	known      bool
}

func readPressure(file string) pressure {
	text, err := os.ReadFile(file)
	if err != nil {
		return pressure{}
	}
	return parsePressure(string(text))
}

// parsePressure reads the text of cpu.pressure, in microseconds:
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=157656722
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
//
// It is known only with both lines. See the kernel's psi.rst.
func parsePressure(text string) pressure {
	var p pressure
	found := 0
	for _, line := range strings.Split(text, "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		_, total, ok := strings.Cut(rest, "total=")
		micros, err := strconv.ParseInt(total, 10, 64)
		if !ok || err != nil || micros < 0 || micros > int64(1<<62)/1000 {
			continue
		}
		switch d := time.Duration(micros) * time.Microsecond; kind {
		case "some":
			p.some = d
			found |= 1
		case "full":
			p.full = d
			found |= 2
		}
	}
	p.known = found == 3
	return p
}
