package config

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Paths are patterns of files and directories. As in .gitignore, a pattern without a slash is a name at any depth, any other is a path
// from the base, ** stands for any number of directories, and all below a directory that matches does too.
type Paths struct {
	base     string // a directory; "": the current one
	patterns [][]string
}

// Add adds a pattern.
func (p *Paths) Add(pattern string) error {
	text := strings.TrimSuffix(filepath.ToSlash(pattern), "/")
	anchored := strings.Contains(text, "/")
	text = strings.TrimPrefix(path.Clean(text), "/")
	switch {
	case text == "." || text == "":
		return fmt.Errorf("%q matches nothing", pattern)
	case p.base != "" && (text == ".." || strings.HasPrefix(text, "../")):
		return fmt.Errorf("%q leads out of the directory that it is for", pattern)
	}
	parts := strings.Split(text, "/")
	for _, part := range parts {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("%q is no pattern: %w", pattern, err)
		}
	}
	if !anchored {
		parts = append([]string{"**"}, parts...)
	}
	p.patterns = append(p.patterns, parts)
	return nil
}

// Has says whether a file or a directory, or one that it is in, matches a pattern. What is outside of the base does not, but patterns
// of the command line hold for a name as given there, too.
func (p Paths) Has(name string) bool {
	if len(p.patterns) == 0 {
		return false
	}
	var names []string
	if p.base == "" {
		names = append(names, filepath.Clean(name))
	}
	base, err1 := filepath.Abs(p.base)
	file, err2 := filepath.Abs(name)
	if err1 == nil && err2 == nil {
		if rest, err := filepath.Rel(base, file); err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
			names = append(names, rest)
		}
	}
	for _, name := range names {
		parts := strings.Split(strings.TrimPrefix(filepath.ToSlash(name), "/"), "/")
		if name != "." && slices.ContainsFunc(p.patterns, func(pattern []string) bool { return begins(pattern, parts) }) {
			return true
		}
	}
	return false
}

// begins says whether a pattern matches a path or the beginning of it. at[i] is whether the pattern up to i matches what was looked at.
func begins(pattern, parts []string) bool {
	at := make([]bool, len(pattern)+1)
	at[0] = true
	skip := func() { // ** may stand for nothing
		for i, part := range pattern {
			if part == "**" && at[i] {
				at[i+1] = true
			}
		}
	}
	skip()
	for _, part := range parts {
		next := make([]bool, len(at))
		for i, want := range pattern {
			if !at[i] {
				continue
			}
			if want == "**" {
				next[i] = true
			} else if ok, _ := path.Match(want, part); ok {
				next[i+1] = true
			}
		}
		at = next
		skip()
		if at[len(pattern)] {
			return true
		}
	}
	return false
}
