package procs

import (
	"strconv"
	"strings"
)

// Built is a program of which only what it was built with is known, as another system reports it: the version of Go, "go1.26.2", and the go
// line, "1.24", as GoLine says it. A go line that is not known is taken for one as new as the version.
func Built(version, line string) *Program {
	p := &Program{GoVersion: version}
	digits, older, ok := strings.Cut(strings.TrimPrefix(line, "1."), " ")
	minor, err := strconv.Atoi(digits)
	if err != nil || ok && older != "or older" {
		return p
	}
	for _, c := range changes {
		if c.minor <= minor || c.minor > p.Minor() {
			continue
		}
		for _, name := range c.settings {
			if p.Defaults == nil {
				p.Defaults = map[string]string{}
			}
			p.Defaults[name] = "0"
		}
	}
	return p
}
