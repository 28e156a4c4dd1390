package unthrottle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// showing are the packages between a document and a screen. They take no sentence apart, judge nothing and compute no
// statistic: sentences are made in report, and so are judgements.
var showing = []string{"view", "render"}

// cutting are the functions by which a text is taken apart or searched.
var cutting = map[string]bool{
	"Replace": true, "ReplaceAll": true, "NewReplacer": true, "Cut": true, "CutPrefix": true, "CutSuffix": true, "TrimPrefix": true, "TrimSuffix": true,
	"Contains": true, "ContainsAny": true, "ContainsRune": true, "HasPrefix": true, "HasSuffix": true, "Index": true, "IndexByte": true,
	"LastIndex": true, "LastIndexByte": true, "Split": true, "SplitN": true, "Fields": true, "Count": true, "EqualFold": true,
}

// mayCut are the places where that is done to someone else's text, or to lines of a layout, and which text that is.
var mayCut = map[string]string{
	"view/ps.go: TrimPrefix":          "go1.26.8 is a name of the Go project's",
	"view/explain.go: TrimPrefix":     "the same",
	"view/explain.go: LastIndexByte":  "the directory of a cgroup",
	"render/screen.go: Split":         "lines that were wrapped here",
	"render/style.go: Split":          "words, to wrap them",
	"render/table.go: Split":          "lines that were wrapped here",
	"render/table.go: ReplaceAll":     "the same, to indent them",
	"render/html.go: ReplaceAll":      "the space between a number and its unit",
	"render/html.go: Split":           "words of a command, none of which is broken after its dashes",
	"render/style.go: LastIndexByte":  "the last word of a name that is cut",
	"render/markdown.go: NewReplacer": "what would be markup",
	"render/markdown.go: Contains":    "lines to be copied, to fence them",
	"view/view.go: Cut":               "the name of a Go function",
	"view/view.go: LastIndexByte":     "the same",
}

// statistics are packages that nothing shown needs.
var statistics = []string{"math", "sort", "github.com/unthrottle/unthrottle/cmd/internal/study/sample"}

func TestShowing(t *testing.T) {
	used := map[string]bool{}
	for _, pkg := range showing {
		files, err := filepath.Glob(filepath.Join("cmd", "internal", "show", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pkg, err, len(files))
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			short := pkg + "/" + filepath.Base(name)
			for _, spec := range file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				for _, no := range statistics {
					if path == no {
						t.Errorf("%s imports %s: what is computed belongs to report", short, path)
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "strings" && cutting[n.Sel.Name] {
						key := short + ": " + n.Sel.Name
						if mayCut[key] == "" {
							t.Errorf("%s: strings.%s: a sentence is made in report, and not taken apart", fset.Position(n.Pos()), n.Sel.Name)
						}
						used[key] = true
					}
				case *ast.BinaryExpr:
					if threshold(n) {
						t.Errorf("%s: a threshold is a judgement, which belongs to report or rule", fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
	for key := range mayCut {
		if !used[key] {
			t.Errorf("%s is allowed and not used", key)
		}
	}
}

// threshold reports whether a comparison is with a fraction.
func threshold(n *ast.BinaryExpr) bool {
	switch n.Op {
	case token.LSS, token.GTR, token.LEQ, token.GEQ:
	default:
		return false
	}
	for _, side := range []ast.Expr{n.X, n.Y} {
		if lit, ok := side.(*ast.BasicLit); ok && lit.Kind == token.FLOAT {
			return true
		}
	}
	return false
}
