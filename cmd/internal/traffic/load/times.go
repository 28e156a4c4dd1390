package load

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Recorded times are bounded: in bytes of their text, in how many there are, and in how far they are apart.
const (
	mostTimesText = 64 << 20
	mostTimes     = 2_000_000
	longestTimes  = 24 * time.Hour
)

// clf is how a web server's common log format writes a time.
const clf = "02/Jan/2006:15:04:05 -0700"

// ReadTimes reads when requests once arrived: one time a line, as seconds (of an epoch, or from any beginning), in RFC 3339, or as an
// access log has it, with or without brackets or quotes; empty lines and comments are left out. They come out in order, from the first
// one on. Where all are whole seconds, which many logs have, each is moved to somewhere in its second, by the seed. sum is that of the
// text.
func ReadTimes(r io.Reader, seed uint64) (times []time.Duration, sum string, err error) {
	limited := &io.LimitedReader{R: r, N: mostTimesText + 1}
	hash := sha256.New()
	lines := bufio.NewScanner(io.TeeReader(limited, hash))
	var all []float64
	whole := true
	for n := 1; lines.Scan(); n++ {
		text := strings.Trim(strings.TrimSpace(lines.Text()), `"[]`)
		if text == "" || text[0] == '#' {
			continue
		}
		seconds, err := parseTime(text)
		if err != nil {
			return nil, "", fmt.Errorf("line %d: %w", n, err)
		}
		if len(all) == mostTimes {
			return nil, "", fmt.Errorf("there are more than %d times", mostTimes)
		}
		whole = whole && seconds == math.Floor(seconds)
		all = append(all, seconds)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, "", errors.New("a line is too long for a time")
	case err != nil:
		return nil, "", err
	case limited.N <= 0:
		return nil, "", fmt.Errorf("the file has more than %d MB", mostTimesText>>20)
	case len(all) < 2:
		return nil, "", errors.New("there are fewer than two times: one a line, such as 1700000000.25, 2026-11-26T12:00:00.25Z or 26/Nov/2026:12:00:00 +0000")
	}
	if whole {
		random := rand.New(rand.NewPCG(seed, arrivalStream))
		for i := range all {
			all[i] += random.Float64()
		}
	}
	slices.Sort(all)
	if all[len(all)-1]-all[0] > longestTimes.Seconds() {
		return nil, "", fmt.Errorf("the times are more than %v apart", longestTimes)
	}
	if all[len(all)-1] == all[0] {
		return nil, "", errors.New("all times are the same, which is not a load: --burst sends many at once")
	}
	times = make([]time.Duration, 0, len(all))
	for _, at := range all {
		times = append(times, time.Duration((at-all[0])*float64(time.Second)))
	}
	return times, hex.EncodeToString(hash.Sum(nil)), nil
}

// parseTime reads a time, in seconds of an epoch.
func parseTime(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 1e11 {
		return v, nil
	}
	for _, form := range []string{time.RFC3339Nano, clf} {
		if at, err := time.Parse(form, text); err == nil && at.Year() > 1900 && at.Year() < 3000 {
			return float64(at.Unix()) + float64(at.Nanosecond())/1e9, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a time, such as 1700000000.25, 2026-11-26T12:00:00.25Z or 26/Nov/2026:12:00:00 +0000", text)
}
