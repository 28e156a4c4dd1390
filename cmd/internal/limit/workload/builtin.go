package workload

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"embed"
	"encoding/hex"
	"fmt"
	"go/version"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

// The files are named one by one, for a pattern would take the tests along. A test holds the list.
//
//go:embed program/agent.go program/chain.go program/fib.go program/garbage.go program/http.go program/json.go
//go:embed program/meter.go program/powser.go program/program.go program/readfile.go program/rusage_other.go
//go:embed program/rusage_unix.go program/sieve.go program/spread.go
var source embed.FS

const mainSource = `package main

import (
	"os"

	"unthrottle-workload/program"
)

func main() { os.Exit(program.Main(os.Args[1:], os.Stdout, os.Stderr)) }
`

// Build builds the programs with a toolchain that Resolve named, and returns the path of the executable file in
// cacheDir, where it stays for the next time. Its go line is the toolchain's own, so that it gets the GOMAXPROCS default
// of that release.
func Build(ctx context.Context, toolchain, cacheDir string) (string, error) {
	path, err := buildBuiltin(ctx, toolchain, cacheDir)
	if err != nil {
		return "", fmt.Errorf("building the workloads with %s: %w", toolchain, err)
	}
	return path, nil
}

func buildBuiltin(ctx context.Context, toolchain, cacheDir string) (string, error) {
	language, err := languageOf(toolchain)
	if err != nil {
		return "", err
	}
	cacheDir, err = filepath.Abs(cacheDir)
	if err != nil {
		return "", err
	}
	sum, err := sourceSum()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return "", err
	}
	if err := ours.Alone(cacheDir); err != nil { // its contents are run
		return "", err
	}
	path := filepath.Join(cacheDir, fileName(toolchain, sum))
	if isOurs(path) {
		return path, nil
	}
	ours.Sweep(cacheDir)
	dir, remove, err := ours.TempDirIn(cacheDir, "build")
	if err != nil {
		return "", err
	}
	defer remove()
	if err := writeSource(dir, language); err != nil {
		return "", err
	}
	built := filepath.Join(dir, "workload.exe") // a name that every system can start, and no package has
	if _, err := runGo(ctx, dir, append(goEnv(toolchain), BuildCache(filepath.Join(dir, "gocache"))...), "build", "-trimpath", "-buildvcs=false", "-o", built, "."); err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(built)
	if err != nil {
		return "", err
	}
	if info.GoVersion != toolchain { // from before Go 1.21, which knows no toolchains
		return "", fmt.Errorf("the go command is %s and can't run another", info.GoVersion)
	}
	if err := os.Chmod(built, 0o700); err != nil { // regardless of the umask
		return "", err
	}
	// Another process may have been faster. Its file is the same, and a program that runs keeps the file it was started from.
	return path, os.Rename(built, path)
}

// isOurs reports whether there is a program that no one else can have written. In a directory of ours it can't be replaced by another.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return ours.Private(f) == nil
}

var minorVersion = regexp.MustCompile(`\bgo(1\.[0-9]+)`)

// languageOf returns the go line for a toolchain: "1.21" for "go1.21.13", and for "devel go1.21-1234abc".
func languageOf(toolchain string) (string, error) {
	m := minorVersion.FindStringSubmatch(toolchain)
	if m == nil {
		return "", fmt.Errorf("bad toolchain %q", toolchain)
	}
	if version.Compare("go"+m[1], "go"+minLanguage) < 0 {
		return "", fmt.Errorf("the programs need go%s or later", minLanguage)
	}
	return m[1], nil
}

// fileName is the name of a built program. The version of a toolchain that is not a release may have any characters.
func fileName(toolchain, sum string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r) {
			return r
		}
		return '_'
	}
	name := "workload-" + strings.Map(clean, toolchain) + "-" + sum
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// sourceSum is a hash of all that is built.
func sourceSum() (string, error) {
	h := sha256.New()
	h.Write([]byte(mainSource))
	err := eachSource(func(name string, text []byte) error {
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// writeSource writes the programs as a module of its own.
func writeSource(dir, language string) error {
	if err := writeModule(dir, language); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(mainSource), 0o666); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "program"), 0o777); err != nil {
		return err
	}
	return eachSource(func(name string, text []byte) error {
		return os.WriteFile(filepath.Join(dir, "program", name), text, 0o666)
	})
}

func eachSource(do func(name string, text []byte) error) error {
	files, err := fs.ReadDir(source, "program")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := source.ReadFile("program/" + f.Name())
		if err != nil {
			return err
		}
		if err := do(f.Name(), text); err != nil {
			return err
		}
	}
	return nil
}
