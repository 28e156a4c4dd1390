// Command mutants changes a line of the code at random, and checks whether a test of its package fails: it prints for each mutant whether
// it was killed, and where those are that live. Nothing is written into the tree; the compiler is given the changed file in place of the
// other. With -tree it does so in another checkout, to compare the share of the killed. Root's mutants run as the user nobody, since there
// is no telling what they do: tests that need root are skipped.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	number := flag.Int("n", 500, "how many mutants")
	seed := flag.Uint64("seed", 1, "which")
	tree := flag.String("tree", "..", "the checkout")
	at := flag.Int("j", 2, "how many at a time")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./...", "./cmd/..."}
	}
	if err := run(*tree, patterns, *number, *seed, *at); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A pkg is one that has tests.
type pkg struct {
	Dir, ImportPath string
	Module          struct{ Dir string }
	GoFiles         []string
	TestGoFiles     []string
	XTestGoFiles    []string

	once  sync.Once
	fails error // its tests fail unchanged, as where they need what the user nobody may not read
}

// A mutant is one change.
type mutant struct {
	of       *pkg
	file     string
	line     int
	from, to int // bytes of the file
	was, is  string
	fate     fate
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, m.was, m.is)
}

// A fate is what became of a mutant.
type fate string

const (
	killed fate = "killed"
	lived  fate = "lived"
	unfit  fate = "unfit" // it does not compile, or there are no tests that pass without it
)

func run(tree string, patterns []string, number int, seed uint64, atOnce int) error {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return err
	}
	packages, err := list(tree, patterns)
	if err != nil {
		return err
	}
	var all []*mutant
	for _, p := range packages {
		for _, name := range p.GoFiles {
			found, err := mutants(p, filepath.Join(p.Dir, name))
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%d places in %d packages with tests\n", len(all), len(packages))
	dir, err := os.MkdirTemp("", "unthrottle-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	tried, err := try(dir, all, number, atOnce)
	report(tree, tried)
	return err
}

func list(tree string, patterns []string) (packages []*pkg, err error) {
	c := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,Module,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	c.Dir, c.Stderr = tree, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p)
		}
	}
}

// others are what an operator is changed into.
var others = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.INC: "--", token.DEC: "++",
}

// mutants are the changes of a file: an operator becomes another, a condition its opposite, and a number one more.
func mutants(p *pkg, file string) (all []*mutant, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	add := func(at token.Pos, was, is string) {
		place := set.Position(at)
		all = append(all, &mutant{of: p, file: file, line: place.Line, from: place.Offset, to: place.Offset + len(was), was: was, is: is})
	}
	operator := func(at token.Pos, op token.Token) {
		if is := others[op]; is != "" {
			add(at, op.String(), is)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			operator(n.OpPos, n.Op)
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.OpPos, "!", "")
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(n.Pos(), n.Value, "("+n.Value+"+1)")
			}
		}
		return true
	})
	return all, nil
}

// try tries mutants, in their order, until number of them have been killed or have lived.
func try(dir string, all []*mutant, number, atOnce int) (tried []*mutant, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var lock sync.Mutex // of what is below
	next, open := 0, number
	take := func() *mutant {
		lock.Lock()
		defer lock.Unlock()
		if open == 0 || next == len(all) || ctx.Err() != nil {
			return nil
		}
		open--
		next++
		return all[next-1]
	}
	var workers sync.WaitGroup
	for i := range atOnce {
		workers.Go(func() {
			for m := take(); m != nil; m = take() {
				if err := m.try(ctx, filepath.Join(dir, fmt.Sprint(i))); err != nil {
					cancel(err)
					return
				}
				lock.Lock()
				if tried = append(tried, m); m.fate == unfit {
					open++
				}
				lock.Unlock()
				fmt.Fprintf(os.Stderr, "%d %s %s\n", len(tried), m.fate, m)
			}
		})
	}
	workers.Wait()
	return tried, context.Cause(ctx)
}

// most is how long the tests of a package may take: what takes longer has been killed.
const most = 2 * time.Minute

func (m *mutant) try(ctx context.Context, dir string) error {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "home")
	if err := errors.Join(os.MkdirAll(home, 0o777), os.Chmod(home, 0o777)); err != nil {
		return err
	}
	m.of.once.Do(func() { m.of.fails = m.of.test(ctx, dir, "") })
	if m.fate = unfit; m.of.fails != nil {
		return ctx.Err()
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	text = slices.Concat(text[:m.from], []byte(m.is), text[m.to:])
	instead, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o644), os.WriteFile(overlay, instead, 0o644)); err != nil {
		return err
	}
	switch err := m.of.test(ctx, dir, overlay); {
	case err == nil:
		m.fate = lived
	case !errors.Is(err, errBuild):
		m.fate = killed
	}
	return ctx.Err()
}

var errBuild = errors.New("does not compile")

// test compiles and runs the tests of a package.
func (p *pkg) test(ctx context.Context, dir, overlay string) error {
	program, home := filepath.Join(dir, "test"), filepath.Join(dir, "home")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, ".")
	build.Dir = p.Dir
	if build.Run() != nil {
		return errBuild
	}
	ended, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	test := exec.CommandContext(ended, program, "-test.failfast")
	if os.Geteuid() == 0 {
		test = exec.CommandContext(ended, "setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups"}, test.Args...)...)
	}
	test.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "GOCACHE="+filepath.Join(home, "go"))
	test.Dir, test.WaitDelay = p.Dir, time.Second
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) }
	err := test.Run()
	if test.Process != nil {
		syscall.Kill(-test.Process.Pid, syscall.SIGKILL) // what it has started, and left
	}
	return err
}

// report prints a line for each folder of packages, and what lived.
func report(tree string, tried []*mutant) {
	type count struct{ killed, lived int }
	counts := map[string]*count{"all": {}}
	for _, m := range tried {
		where := room(tree, m.of.Dir)
		if counts[where] == nil {
			counts[where] = new(count)
		}
		for _, c := range []*count{counts[where], counts["all"]} {
			switch m.fate {
			case killed:
				c.killed++
			case lived:
				c.lived++
			}
		}
	}
	fmt.Printf("\n| where | killed | of | share |\n|---|--:|--:|--:|\n")
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := counts[name]
		if n := c.killed + c.lived; n > 0 {
			fmt.Printf("| %s | %d | %d | %.0f %% |\n", name, c.killed, n, 100*float64(c.killed)/float64(n))
		}
	}
	fmt.Println("\nThese lived:")
	slices.SortFunc(tried, func(a, b *mutant) int { return cmp.Compare(a.String(), b.String()) })
	for _, m := range tried {
		if m.fate == lived {
			fmt.Println("  " + strings.TrimPrefix(m.String(), tree+"/"))
		}
	}
}

// room is the wing that a package is in, or its folder.
func room(tree, dir string) string {
	name, err := filepath.Rel(tree, dir)
	if err != nil {
		return dir
	}
	parts := strings.Split(filepath.ToSlash(name), "/")
	if i := slices.Index(parts, "internal"); i >= 0 && i+1 < len(parts) {
		return strings.Join(parts[:i+2], "/")
	}
	return parts[0]
}
