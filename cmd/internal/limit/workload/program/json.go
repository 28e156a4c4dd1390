package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A document is what is decoded and encoded: some 1.4 MB of JSON at the default size.
type document struct {
	Title   string   `json:"title"`
	Records []record `json:"records"`
}

type record struct {
	ID     int               `json:"id"`
	Name   string            `json:"name"`
	Active bool              `json:"active"`
	Score  float64           `json:"score"`
	Tags   []string          `json:"tags"`
	Labels map[string]string `json:"labels"`
	Points []point           `json:"points"`
}

type point struct {
	X int     `json:"x"`
	Y float64 `json:"y"`
}

// newDocument makes the same document each time.
func newDocument(records int) document {
	d := document{Title: "a document \u00e4 <b>"}
	random := uint32(1)
	number := func(n int) int {
		random = random*1664525 + 1013904223 // Numerical Recipes' generator: the same numbers in every Go release
		return int(random>>8) % n
	}
	words := []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta \"quoted\"", "\u03b7", "a longer word than the others"}
	for i := 0; i < records; i++ {
		r := record{
			ID:     i,
			Name:   fmt.Sprintf("record %d of %s", i, words[number(len(words))]),
			Active: number(2) == 0,
			Score:  float64(number(1000000)) / 1000,
			Labels: map[string]string{"zone": words[number(len(words))], "owner": words[number(len(words))]},
		}
		for t := 0; t < 4; t++ {
			r.Tags = append(r.Tags, words[number(len(words))])
		}
		for p := 0; p < 6; p++ {
			r.Points = append(r.Points, point{number(10000), float64(number(10000)) / 8})
		}
		d.Records = append(d.Records, r)
	}
	return d
}

// runJSON measures a large document being decoded and encoded again. The operations are spread over workers, a goroutine
// for each P, as in golang.org/x/benchmarks.
func runJSON(o options) (Result, error) {
	text, err := json.Marshal(newDocument(o.size))
	if err != nil {
		return Result{}, fmt.Errorf("making the document: %w", err)
	}
	return measure(workers(), o.window, func(int, int64) error {
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("decoding the document: %w", err)
		}
		again, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding the document: %w", err)
		}
		if !bytes.Equal(text, again) {
			return errors.New("the document changed on its way through")
		}
		return nil
	})
}
