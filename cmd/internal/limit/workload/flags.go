package workload

import (
	"errors"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// ParseBuildFlags reads what a build should have: flags of go build, whose hyphen may be left out, and variables such as GOAMD64=v3, with
// spaces between them. One that has spaces itself is quoted, as in GOFLAGS.
func ParseBuildFlags(text string) (flags, env []string, err error) {
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return flags, env, nil
		}
		word := text
		if quote := text[0]; quote == '\'' || quote == '"' {
			end := strings.IndexByte(text[1:], quote)
			if end < 0 {
				return nil, nil, errors.New("a quotation mark has no other")
			}
			word, text = text[1:1+end], text[end+2:]
		} else if end := strings.IndexAny(text, " \t"); end >= 0 {
			word, text = text[:end], text[end:]
		} else {
			text = ""
		}
		if variable.MatchString(word) {
			env = append(env, word)
		} else {
			flags = append(flags, "-"+strings.TrimPrefix(word, "-"))
		}
	}
}
