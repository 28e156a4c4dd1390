package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// minLanguage is the oldest release that the programs can be built with.
const minLanguage = "1.18"

// lastPatch are the last releases of each minor version that were known when this was written, for when the list is not
// available. Lists of module proxies have holes, so it is consulted in addition to them, too.
var lastPatch = []string{
	"go1.18.10", "go1.19.13", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.14", "go1.26.11",
}

// mostTries bounds how many toolchains are asked for until one is available.
const mostTries = 3

// Resolve returns the name of a toolchain. A version with all its numbers, "1.21.13" or "go1.21.13", is that one; one
// without the last, "1.21", is the newest available of that minor version, and may be fetched to find out. An empty
// version, or "go", is the go command in PATH.
func Resolve(ctx context.Context, v string) (string, error) {
	if v == "" || v == "go" {
		return localVersion(ctx)
	}
	name := "go" + strings.TrimPrefix(v, "go")
	if !version.IsValid(name) {
		return "", fmt.Errorf("bad Go version %q", v)
	}
	if version.Compare(name, "go"+minLanguage) < 0 {
		return "", fmt.Errorf("%s is too old: the programs need go%s or later", name, minLanguage)
	}
	if name != version.Lang(name) {
		return name, nil
	}
	return newest(ctx, name)
}

// newest returns the newest available toolchain of a minor version such as "go1.21". What the go command's proxy lists
// is asked for first; without a proxy, what is on disk.
func newest(ctx context.Context, lang string) (string, error) {
	if _, err := lookGo(); err != nil {
		return "", err
	}
	disk := onDisk(ctx)
	list, err := listed(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if found := choose(lang, disk); err != nil && len(found) > 0 {
		return found[0], nil
	}
	var last error
	candidates := choose(lang, list, lastPatch)
	for _, name := range candidates[:min(len(candidates), mostTries)] {
		if last = available(ctx, name); last == nil {
			return name, nil
		}
	}
	if found := choose(lang, disk); len(found) > 0 {
		return found[0], nil
	}
	if last == nil && err != nil {
		last = err
	}
	if last == nil {
		last = errors.New("no such release is listed")
	}
	return "", fmt.Errorf("finding a toolchain of %s: %w", lang, last)
}

// choose returns the releases of a minor version among names, the newest first. Release candidates are none.
func choose(lang string, names ...[]string) []string {
	var found []string
	for _, name := range slices.Concat(names...) {
		if version.IsValid(name) && version.Lang(name) == lang && !strings.ContainsAny(name[len("go"):], "abcdefghijklmnopqrstuvwxyz-+ ") {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return version.Compare(b, a) })
	return slices.Compact(found)
}

// listed returns the toolchains for this platform that the go command's proxy has.
func listed(ctx context.Context) ([]string, error) {
	dir, remove, err := ours.TempDir("workload")
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := writeModule(dir, minLanguage); err != nil {
		return nil, err
	}
	out, err := runGo(ctx, dir, append(goEnv(""), "GOFLAGS=-mod=mod"), "list", "-m", "-versions", "golang.org/toolchain")
	if err != nil {
		return nil, err
	}
	return parseListed(out, runtime.GOOS+"-"+runtime.GOARCH), nil
}

// parseListed takes a platform's toolchains from what "go list -m -versions golang.org/toolchain" prints:
//
//	golang.org/toolchain v0.0.1-go1.18.10.linux-amd64 v0.0.1-go1.18.10.windows-386 …
func parseListed(text, platform string) []string {
	var names []string
	for _, field := range strings.Fields(text) {
		name, ok := strings.CutPrefix(field, "v0.0.1-")
		if !ok {
			continue
		}
		if name, ok = strings.CutSuffix(name, "."+platform); ok && version.IsValid(name) {
			names = append(names, name)
		}
	}
	return names
}

// onDisk returns the toolchains that the go command has fetched before, and its own.
func onDisk(ctx context.Context) []string {
	var names []string
	if name, err := localVersion(ctx); err == nil {
		names = append(names, name)
	}
	out, err := runGo(ctx, "", goEnv(""), "env", "GOMODCACHE")
	if err != nil {
		return names
	}
	const prefix = "toolchain@v0.0.1-"
	suffix := "." + runtime.GOOS + "-" + runtime.GOARCH
	found, _ := os.ReadDir(filepath.Join(strings.TrimSpace(out), "golang.org"))
	for _, d := range found {
		name, ok := strings.CutPrefix(strings.TrimSuffix(d.Name(), suffix), prefix)
		if ok && strings.HasSuffix(d.Name(), suffix) {
			names = append(names, name)
		}
	}
	return names
}

// available checks that a toolchain is available, and so fetches it. A go command from before Go 1.21 knows no
// toolchains and answers for itself.
func available(ctx context.Context, name string) error {
	out, err := runGo(ctx, os.TempDir(), goEnv(name), "env", "GOVERSION")
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(out); got != name {
		return fmt.Errorf("the go command is %s and can't run %s", got, name)
	}
	return nil
}

// localVersion returns the version of the go command in PATH, which is not always a release's.
func localVersion(ctx context.Context) (string, error) {
	out, err := runGo(ctx, "", goEnv(""), "env", "GOVERSION")
	return strings.TrimSpace(out), err
}

func lookGo() (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("there is no go command in PATH: %w", err)
	}
	return path, nil
}

// goEnv is the environment, in addition to the present one, in which the go command does the same for everyone. toolchain is
// what Resolve returned; anything but a release's name means the go command itself.
func goEnv(toolchain string) []string {
	if !version.IsValid(toolchain) {
		toolchain = "local"
	}
	return []string{
		"GOTOOLCHAIN=" + toolchain, "GOFLAGS=", "GOWORK=off", "GO111MODULE=", "GOEXPERIMENT=", "CGO_ENABLED=0",
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
}

// runGo runs the go command in dir and returns what it printed on stdout. An error has the last lines of what it said.
func runGo(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	if _, err := lookGo(); err != nil {
		return "", err
	}
	out, err := output(command(ctx, dir, env, "go", args...))
	if failed := new(BuildError); errors.As(err, &failed) {
		return "", fmt.Errorf("go %s: %w%s", strings.Join(args, " "), cmp.Or(ctx.Err(), failed.Err), lastLines(failed.Said))
	}
	return out, err
}

// lastLines returns the end of what a command said, to stand behind an error.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if text = strings.Join(lines[max(0, len(lines)-5):], "\n\t"); text == "" {
		return ""
	}
	return ":\n\t" + text
}
