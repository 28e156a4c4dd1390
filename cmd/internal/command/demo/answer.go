package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

func answerText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, text)
}

// refuse answers with the reason why not.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// whole reads a whole number within bounds.
func whole(name, text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a whole number from %d to %d", name, text, least, most)
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%s: %d is not between %d and %d", name, n, least, most)
	}
	return n, nil
}

// duration reads a duration from 0 to most.
func duration(name, text string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a duration such as 5ms", name, text)
	}
	if d < 0 || d > most {
		return 0, fmt.Errorf("%s: %v is not between 0 and %v", name, d, most)
	}
	return d, nil
}

// size reads a number of bytes from 0 to most: 65536, 64k or 1m, which are powers of 1024.
func size(name, text string, most int64) (int64, error) {
	digits, unit := text, int64(1)
	switch lower := strings.ToLower(text); {
	case strings.HasSuffix(lower, "k"):
		digits, unit = text[:len(text)-1], 1<<10
	case strings.HasSuffix(lower, "m"):
		digits, unit = text[:len(text)-1], 1<<20
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number of bytes such as 65536 or 64k", name, text)
	}
	if n > uint64(most/unit) { // before it is multiplied, which could overflow
		return 0, fmt.Errorf("%s: %s is more than %d bytes", name, text, most)
	}
	return int64(n) * unit, nil
}
