package config

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
)

// baselineVersion is the number of the file's format.
const baselineVersion = 1

// A BaselineFinding is one that a project lives with for now, so that a build fails for new ones alone. It is known again by its rule, file,
// workload, container and variable, and not by its line: lines move.
type BaselineFinding struct {
	Rule      string `json:"rule"`
	File      string `json:"file,omitempty"` // with slashes, from the directory of the baseline's file; "" for a live object
	Workload  string `json:"workload"`
	Container string `json:"container,omitempty"`
	Variable  string `json:"variable,omitempty"`
}

type file struct {
	Version  int               `json:"version"`
	Findings []BaselineFinding `json:"findings"`
}

// largestBaseline is more than any project has: some hundred thousand findings.
const largestBaseline = 64 << 20

// ReadBaseline reads a file.
func ReadBaseline(ctx context.Context, path string) ([]BaselineFinding, error) {
	data, err := input.ReadAll(ctx, path, strings.NewReader(""), largestBaseline) // "-" is nothing
	if err != nil {
		return nil, err
	}
	findings, err := ParseBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return findings, nil
}

// ParseBaseline reads what a file holds.
func ParseBaseline(data []byte) ([]BaselineFinding, error) {
	var version struct{ Version *int }
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, broken(data, err)
	}
	switch {
	case version.Version == nil:
		return nil, errors.New("not a baseline: no version")
	case *version.Version > baselineVersion:
		return nil, fmt.Errorf("version %d, and this command reads versions up to %d: a newer one wrote it", *version.Version, baselineVersion)
	case *version.Version < 1:
		return nil, fmt.Errorf("not a baseline: there is no version %d", *version.Version)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, broken(data, err)
	}
	for i, one := range f.Findings {
		if one.Rule == "" || one.Workload == "" {
			return nil, fmt.Errorf("not a baseline: finding %d has no rule or no workload", i+1)
		}
	}
	return f.Findings, nil
}

// broken says where the text isn't JSON.
func broken(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")), err)
	}
	return err
}

// WriteBaseline writes a file's text, sorted, one finding a line, so that what changes in it is easy to see.
func WriteBaseline(w io.Writer, findings []BaselineFinding) error {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b BaselineFinding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Container, b.Container),
			cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Rule, b.Rule))
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"version\": %d,\n  \"findings\": [", baselineVersion)
	for i, f := range sorted {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		var one bytes.Buffer
		e := json.NewEncoder(&one)
		e.SetEscapeHTML(false)
		if err := e.Encode(f); err != nil {
			return err
		}
		b.Write(bytes.TrimRight(one.Bytes(), "\n"))
	}
	if len(sorted) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("]\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// CompareBaseline compares what was found with what is in a file: known says of each finding whether it is there, and gone is what is
// there and was not found. One entry excuses one finding.
func CompareBaseline(found, standing []BaselineFinding) (known []bool, gone []BaselineFinding) {
	left := map[BaselineFinding]int{}
	for _, f := range standing {
		left[f]++
	}
	known = make([]bool, len(found))
	for i, f := range found {
		if left[f] > 0 {
			left[f]--
			known[i] = true
		}
	}
	for _, f := range standing {
		if left[f] > 0 {
			left[f]--
			gone = append(gone, f)
		}
	}
	return known, gone
}
