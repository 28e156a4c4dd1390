// Package finding answers: what does a diagnosis say? It holds the words that all diagnoses share: a finding with its
// evidence and its fix. It finds nothing itself.
package finding

import "fmt"

// Severity says how much a finding matters.
type Severity uint8

const (
	Info     Severity = iota // good to know; it costs nothing now
	Warning                  // it costs something
	Critical                 // it costs a lot
)

var names = [...]string{"info", "warning", "critical"}

// String returns the severity in one word.
func (s Severity) String() string { return names[s] }

// MarshalText writes the severity as its word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a severity's word.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range names {
		if name == string(text) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a severity", text)
}

// A Finding is something that a rule found.
type Finding struct {
	Rule     string   `json:"rule"` // its page is docs/rules/RULE.md
	Verdict  string   `json:"verdict"`
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"` // one sentence
	Evidence []string `json:"evidence"`
	Fix      string   `json:"fix"`
}
