// Package docs answers: what do these pages say, where there is nothing but the command? unthrottle help prints them. It isn't part of the
// library.
package docs

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.md rules/*.md
var pages embed.FS

// Names are what Page knows, in the order of their files; a rule's page comes before another of its name.
func Names() (names []string) {
	for _, pattern := range []string{"rules/*.md", "*.md"} {
		files, _ := fs.Glob(pages, pattern)
		for _, file := range files {
			if name := strings.TrimSuffix(path.Base(file), ".md"); name != "README" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Page is the page of a name: too-many-ps, docs/rules/too-many-ps.md as in links, or K004 as in findings. What only the maintainers need is
// left out.
func Page(name string) (text string, ok bool) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md")
	if len(name) == 4 && name[0] == 'K' {
		name = strings.ToLower(name)
	}
	for _, file := range []string{"rules/" + name + ".md", name + ".md"} {
		if data, err := pages.ReadFile(file); err == nil {
			return withoutComments(string(data)), true
		}
	}
	return "", false
}

// withoutComments leaves out the lines that say where a sample is from.
func withoutComments(text string) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if !strings.HasPrefix(line, "<!--") {
			b.WriteString(line)
		}
	}
	return b.String()
}
