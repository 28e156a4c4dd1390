package lab

import "strings"

// A Pair is a name and its value: what stands for {NAME} in a program's command line, or else a variable of its environment.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "": the variable is not set
}

// String writes WORKERS=2.
func (p Pair) String() string {
	if p.Value == "" {
		return p.Name + " unset"
	}
	return p.Name + "=" + p.Value
}

// Pairs are some, each with a line end behind it, so that settings can be compared.
type Pairs string

// NewPairs joins pairs, which have no line ends in them.
func NewPairs(pairs []Pair) Pairs {
	var text strings.Builder
	for _, p := range pairs {
		text.WriteString(p.Name + "=" + p.Value + "\n")
	}
	return Pairs(text.String())
}

// All are the pairs.
func (p Pairs) All() (pairs []Pair) {
	for line := range strings.Lines(string(p)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		pairs = append(pairs, Pair{name, value})
	}
	return pairs
}

// Fill puts the values where a command line has {NAME}. Those that it does not name are variables.
func (p Pairs) Fill(args []string) (filled []string, variables []Pair) {
	var in []string
	for _, pair := range p.All() {
		if place := "{" + pair.Name + "}"; strings.Contains(strings.Join(args, "\n"), place) {
			in = append(in, place, pair.Value)
		} else {
			variables = append(variables, pair)
		}
	}
	values := strings.NewReplacer(in...)
	for _, arg := range args {
		filled = append(filled, values.Replace(arg))
	}
	return filled, variables
}
