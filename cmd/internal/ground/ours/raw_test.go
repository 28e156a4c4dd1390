package ours

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// raw are calls that make, rename or change files by name. O_CREAT is what makes an Open such a call.
var raw = map[string][]string{
	"os": {
		"Mkdir", "MkdirAll", "MkdirTemp", "TempDir", "Create", "CreateTemp", "OpenFile", "WriteFile", "Rename", "Chmod", "Chown", "Lchown", "Chtimes",
		"Symlink", "Link", "Truncate", "UserCacheDir", "CopyFS", "O_CREATE",
	},
	"unix": {
		"Mkdir", "Mkdirat", "Creat", "O_CREAT", "Rename", "Renameat", "Renameat2", "Chmod", "Fchmodat", "Chown", "Lchown", "Fchownat", "Symlink",
		"Symlinkat", "Link", "Linkat", "Mknod", "Mknodat", "Mkfifo", "Mkfifoat", "Truncate",
	},
}

// exceptions are the files outside of this package that have such calls, and why they may.
var exceptions = map[string]string{
	"internal/process/hostile/trees.go":                  "a part of the tests: it makes what must not harm anybody",
	"internal/process/hostile/programs_linux.go":         "the same",
	"internal/process/hostile/trees_linux.go":            "the same",
	"internal/diagnose/heartbeat/start.go":               "a file of a cgroup, which root alone can put there",
	"internal/study/lab/journal.go":                      "new files only, where the user wants them; old ones are looked at when they are open",
	"internal/limit/runner/group_linux.go":               "cgroups, and their files",
	"internal/study/trial/lock_unix.go":                  "in a directory of this package, and looked at when it is open",
	"internal/command/verb/output.go":                    "a new file, in a directory that is open",
	"internal/limit/workload/builds.go":                  "in a directory that is one bench's alone",
	"internal/limit/workload/copy.go":                    "in a directory that is one bench's alone",
	"internal/limit/workload/builtin.go":                 "in a directory that this package has looked at",
	"internal/limit/workload/gocmd.go":                   "in a directory that is one bench's alone, and go's own cache, if nobody else may change it",
	"internal/limit/workload/toolchain.go":               "go is asked for its version there, which no file that lies there changes",
	"internal/limit/workload/workload.go":                "in a directory that is one bench's alone",
	"internal/limit/workload/program/readfile.go":        "a fresh file: the program imports nothing of ours, for any Go is to build it",
	"kubectl-unthrottle/internal/cli/tune.go":            "a new file only, where the user wants it",
	"kubectl-unthrottle/internal/facts/binary/blobs.go":  "a fresh file, which has no name any more",
	"kubectl-unthrottle/internal/facts/manifest/find.go": "it opens for reading only",
}

// TestRawCalls: what is made where others may write too is made by this package.
func TestRawCalls(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("../../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			switch e.Name() {
			case "testdata", "bench", "clustertest", "ours":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		name, err := filepath.Rel("../../..", path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, ok := call.X.(*ast.Ident)
			if !ok {
				return true
			}
			calls := raw[from.Name]
			if from.Name == "syscall" {
				calls = raw["unix"]
			}
			if slices.Contains(calls, call.Sel.Name) {
				seen[name] = true
				if _, may := exceptions[name]; !may {
					t.Errorf("%s: %s.%s: package ours does this where others may write", set.Position(call.Pos()), from.Name, call.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range exceptions {
		if !seen[name] {
			t.Errorf("%s has no such call any more: it is no exception", name)
		}
	}
}
