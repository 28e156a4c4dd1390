package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

var (
	// A call stands at the start of a command, in a block, in a span of code or in a build's file.
	call = regexp.MustCompile("(?:^ {4,}(?:- )?(?:[a-z]+: )?|`|\\| |\\$ )kubectl[ -]unthrottle( [^`]*)")
	// It ends where a pipe, a redirection or a comment begins.
	callEnd = regexp.MustCompile(`\s(?:[|>&;]|#).*$|"$`)
	// A synopsis names what may be given: VERB, [FLAGS].
	synopsis = regexp.MustCompile(`^\[?[A-Z]+`)
)

// TestDocs holds the documents to the command: each verb and flag in them exists, and takes its value.
func TestDocs(t *testing.T) {
	checked := 0
	for _, dir := range []string{"../../*.md", "../../docs", "../../bench", "../../deploy"} {
		for _, file := range markdown(t, dir) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(data), "\n") {
				for _, m := range call.FindAllStringSubmatch(line, -1) {
					var args []string
					for _, arg := range strings.Fields(callEnd.ReplaceAllString(m[1], "")) {
						if !synopsis.MatchString(arg) {
							args = append(args, strings.Trim(arg, `'"`))
						}
					}
					checked++
					if err := cli.Check(args); err != nil {
						t.Errorf("%s:%d: %s: %v", file, i+1, m[0], err)
					}
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d calls were found", checked)
	}
}

// TestDocsOutput holds what docs/fix.md shows to what is printed for the manifests of fix's script.
func TestDocsOutput(t *testing.T) {
	page, err := os.ReadFile("../../docs/fix.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("testdata/script/fix.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, f := range script.Files {
		if strings.HasSuffix(f.Name, ".yaml") && !strings.Contains(f.Name, "/") {
			if err := os.WriteFile(f.Name, f.Data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	checked := 0
	for _, block := range regexp.MustCompile(`(?m)^    \$ kubectl unthrottle (.*)\n((?:    .*\n|\n)+)`).FindAllStringSubmatch(string(page), -1) {
		var stdout, stderr bytes.Buffer
		code := cli.Main(t.Context(), strings.Fields(block[1]), os.Getenv, nil, &stdout, &stderr)
		want := strings.TrimRight(regexp.MustCompile(`(?m)^    `).ReplaceAllString(block[2], ""), "\n") + "\n"
		if got := stdout.String(); code != 0 || got != want {
			t.Errorf("%s: exit code %d, %s\n%s\ndocs/fix.md shows\n%s", block[1], code, &stderr, got, want)
		}
		checked++
	}
	if checked < 2 {
		t.Errorf("only %d outputs were found", checked)
	}
}

func markdown(t *testing.T, from string) (files []string) {
	t.Helper()
	if strings.HasSuffix(from, "*.md") {
		files, err := filepath.Glob(from)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
