package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestRecipes does what the pages of docs/recipes say. In a page,
//
//	<!-- recipe -->              has the block below it run, by bash, in one script with the others; a command that fails ends it
//	<!-- recipe: 3 -->           the same, and the block's exit code must be 3
//	<!-- recipe file: NAME -->   makes a file of the block
//	<!-- recipe prints -->       the lines of the block must be printed, in this order, with any numbers; others may be between them
//
// testdata/recipes/PAGE.sh comes before: functions that replace what a test can't have, such as docker, and check,
// which is called at the end, with the output so far in the file output.
func TestRecipes(t *testing.T) {
	slowtest.Plain(t)
	pages, err := filepath.Glob(checkout + "/docs/recipes/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name == "README" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "unthrottle ps") { // which would find the servers of other pages, too
				t.Parallel()
			}
			cook(t, name, string(text))
		})
	}
}

func cook(t *testing.T, name, text string) {
	dir := t.TempDir()
	address := freeAddress(t)
	script, shown := prepare(t, dir, quick(address).Replace(text))
	if script == "" {
		t.Fatal("nothing in it is run")
	}
	standIns, err := filepath.Abs("testdata/recipes/" + name + ".sh")
	if err != nil {
		t.Fatal(err)
	}
	place(t, "server", filepath.Join(dir, "server"))
	script = fmt.Sprintf(preamble, standIns) + script + "check\n"
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command("bash", "script")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	repository, _ := filepath.Abs(checkout)
	cmd.Env = append(os.Environ(), "RECIPE_ADDRESS="+address, "RECIPE_REPOSITORY="+repository, "GOMAXPROCS=", "GODEBUG=", "GORACE="+noSleep,
		"XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hurry := time.AfterFunc(3*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) })
	err = cmd.Wait()
	hurry.Stop()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left behind
	said, _ := os.ReadFile(output.Name())
	if cmd.ProcessState.ExitCode() == cannot {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") != "" {
			t.Fatal(lastLine(string(said)))
		}
		t.Skip(lastLine(string(said)))
	}
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	} else if line := lacking(string(said), shown); line != "" {
		t.Errorf("the page shows the line %q, which is not printed, or not after those before it\n%s", line, said)
	}
}

// lacking returns the first of lines that a text doesn't have after those before it. Numbers and spaces may differ.
func lacking(text string, lines []string) string {
	rest := strings.Split(text, "\n")
	for _, want := range lines {
		found := slices.IndexFunc(rest, func(line string) bool { return form(line) == form(want) })
		if found < 0 {
			return want
		}
		rest = rest[found+1:]
	}
	return ""
}

// form is a line without what differs from run to run.
func form(line string) string {
	return strings.Join(strings.Fields(number.ReplaceAllString(line, "#")), " ")
}

var number = regexp.MustCompile(`\d[\d.,]*`)

// cannot is the exit code of a recipe that can't be done here; the last line says why.
const cannot = 77

const preamble = `set -uo pipefail
fail() { echo "FAIL: $*"; exit 1; }
cannot() { echo "$*"; exit 77; }
sudo() { "$@"; }
ready() { curl --silent --output /dev/null --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 60 "http://$RECIPE_ADDRESS/healthz"; }
said() { grep -q -e "$1" output || fail "nothing like $1 was printed"; }
check() { :; }
trap 'kill $(jobs -p) 2>/dev/null' EXIT
if [ -e %[1]q ]; then . %[1]q; fi
`

// quick makes the commands of a page right for a test: with a port that is free, times that are short, and an SLO that any
// machine holds.
func quick(address string) *strings.Replacer {
	_, port, _ := net.SplitHostPort(address)
	return strings.NewReplacer(":8080", ":"+port, "--for 10s", "--for 1s", "--for 30s", "--for 1s", "p99=50ms", "p99=30s")
}

// prepare writes the files of a page and returns its script, and what that must print.
func prepare(t *testing.T, dir, text string) (string, []string) {
	t.Helper()
	var script strings.Builder
	var shown []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := recipe.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		block := indented(lines[i+1:])
		if block == "" {
			t.Fatalf("line %d: there is no block", i+1)
		}
		switch {
		case m[1] == " file":
			file := filepath.Join(dir, m[2])
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(block), 0o666); err != nil {
				t.Fatal(err)
			}
		case m[1] == " prints":
			shown = append(shown, strings.Split(strings.TrimSpace(block), "\n")...)
		case m[2] != "":
			fmt.Fprintf(&script, "set +e\n(set -e\n%s)\ncode=$?\n[ $code = %s ] || fail \"line %d: exit code $code\"\n", block, m[2], i+1)
		default:
			fmt.Fprintf(&script, "set -e\n%sset +e\n", block)
		}
	}
	return script.String(), shown
}

// indented returns the block that lines begin with.
func indented(lines []string) string {
	var block strings.Builder
	for _, line := range lines {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok && line != "" {
			break
		}
		block.WriteString(code + "\n")
	}
	return strings.TrimSpace(block.String()) + "\n"
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// place gives one of the commands that TestMain has put into the path a place of its own.
func place(t *testing.T, command, path string) {
	t.Helper()
	found, err := exec.LookPath(command)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(found, path); err == nil {
		return
	}
	data, err := os.ReadFile(found)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o777); err != nil {
		t.Fatal(err)
	}
}
