package unthrottle

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// phrases are ways to say something that sound translated, and how one would say it.
var phrases = []struct {
	said  *regexp.Regexp
	write string
	code  bool // also in comments
}{
	{regexp.MustCompile(`(?i)\banew\b`), "again", true},
	{regexp.MustCompile(`(?i)\bshall\b`), "will, is to, must", true},
	{regexp.MustCompile(`(?i)\btakes? (it |them )?back\b`), "undoes, suppresses", true},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) told\b`), "is reported, shows, says", true},
	{regexp.MustCompile(`(?i)\bsomebody\b`), "someone; better: another user, the user", true},
	{regexp.MustCompile(`(?i)[a-qs-z,;:.] nobody\b`), "no one; better: not … any", true}, // "the user nobody" is one
	{regexp.MustCompile(`(?i)\bby whatever\b`), "however", false},
	{regexp.MustCompile(`(?i)\bnobody (that|who)\b`), "no one who; better: not … anyone", false},
	{regexp.MustCompile(`(?i)\bthat there is none of\b`), "that is missing", false},
	{regexp.MustCompile(`(?i)\bworth while\b`), "ignored, too small to matter", true},
	{regexp.MustCompile(`(?i)\b(by what counts|left the race|no fault by itself|told beside|with how sure)\b`), "by a relevant amount, was dropped, not an error in itself, reported, with a confidence interval", true},
	{regexp.MustCompile(`(?i)\b(have|has) not (the|a|an|any)\b`), "doesn't have the", true},
	{regexp.MustCompile(`(?i)\b(asked for was|which is not shown|more seldom|such a one)\b`), "expected, but that is not proven, rarer, one like that", false},
	{regexp.MustCompile(`(?i)\blet go of what\b`), "decide by what can be measured", false},
	{regexp.MustCompile(`(?i)\b(it|this|that|what answers there|input) is no ([a-km-z]|l[a-np-z])`), "is not a", false},
}

// TestPhrases holds documents, help, errors and screens to plain English, and comments to some of it.
func TestPhrases(t *testing.T) {
	judge := func(at, text string, code bool) {
		for _, p := range phrases {
			if found := p.said.FindString(text); found != "" && (!code || p.code) {
				t.Errorf("%s: %q: better %s", at, found, p.write)
			}
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".md") || path == "CHANGELOG.md":
			return nil
		}
		data, err := os.ReadFile(path)
		for i, line := range strings.Split(string(data), "\n") {
			if !strings.HasPrefix(line, "    ") { // what is printed is looked at where it is made
				judge(path+":"+strconv.Itoa(i+1), line, false)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	skip := func(_, name string) bool { return name == "testdata" || name == "tools" }
	eachSource(t, skip, func(path string, files *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			judge(files.Position(group.Pos()).String(), group.Text(), true)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !strings.HasSuffix(path, "_test.go") {
				judge(files.Position(text.Pos()).String(), text.Value, false)
			}
			return true
		})
	})
}
