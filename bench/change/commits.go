//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A commit is someone else's, with the benchmarks that compare it with the one before.
type commit struct {
	module, hash string
	run          string
	changes      bool // its log says that these get faster; else it is about something else in their package
}

var commits = []commit{
	{"github.com/mattn/go-runewidth", "c442cf7", "RuneWidthAll$|RuneWidth768$", true},
	{"github.com/mattn/go-runewidth", "37796e5", "RuneWidthAllEastAsian|RuneWidth768EastAsian", true},
	{"github.com/mattn/go-runewidth", "0a43bb8", "RuneWidthAll$|RuneWidth768$", true},
	{"github.com/mattn/go-runewidth", "254e529", "String1WidthAll$|String1Width768$", true},
	{"github.com/rivo/uniseg", "b74d4dc", "StepString|WordFunctionString", true},
	{"github.com/rivo/uniseg", "e258aa1", "GraphemesFunctionString", true},
	{"github.com/rivo/uniseg", "2d47d32", "Graphemes", true},
	{"github.com/google/uuid", "d1ba04a", "ParseBadLength", true},
	{"github.com/BurntSushi/toml", "3d4f734", "Key", true},
	{"github.com/BurntSushi/toml", "41f8cc8", "Decode", true},

	{"github.com/BurntSushi/toml", "eb8b998", "Decode", false},
	{"github.com/BurntSushi/toml", "acd403e", "Encode", false},
	{"github.com/BurntSushi/toml", "a517d45", "Decode", false},
	{"github.com/go-chi/chi", "41d1513", "Mux", false},
	{"github.com/go-chi/chi", "b088fe4", "Mux", false},
	{"github.com/rs/zerolog", "2f5b8a9", "LogFields$|Info", false},
	{"github.com/google/uuid", "58b1856", "Parse$|UUID_String", false},
	{"github.com/google/uuid", "1a3d1fe", "Parse$|UUID_String", false},
	{"github.com/mattn/go-runewidth", "07edee4", "RuneWidthAll$", false},
	{"github.com/tidwall/gjson", "c255323", "Valid$", false},
}

// judgeCommits judges each, and prints a row for it.
func (b *bench) judgeCommits(ctx context.Context) error {
	fmt.Printf("--budget %v, neighbour: %s\n\n", b.budget, b.neighbour)
	fmt.Println("| commit | what its log says | benchmarks | unthrottle | time |")
	fmt.Println("|---|---|---|---|---|")
	for _, c := range commits {
		dir := filepath.Join(b.dir, filepath.Base(c.module))
		if _, err := os.Stat(dir); err != nil {
			if _, err := call(ctx, "", "git", "clone", "-q", "https://"+c.module, dir); err != nil {
				return err
			}
		}
		if _, err := call(ctx, dir, "git", "checkout", "-q", "--force", "--detach", c.hash); err != nil {
			return err
		}
		log, err := call(ctx, dir, "git", "log", "-1", "--format=%s")
		if err != nil {
			return err
		}
		begin := time.Now()
		out, err := call(ctx, dir, b.command, "bench", "--base", "HEAD~1", "--gobench", ".", "--run", c.run, "--budget", b.budget.String(), "--json")
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.module, c.hash, err)
		}
		var doc struct{ Verdicts []string }
		if err := json.Unmarshal(out, &doc); err != nil {
			return err
		}
		says := strings.TrimSpace(string(log))
		if !c.changes {
			says += " (not about these)"
		}
		fmt.Printf("| %s %s | %s | %s | %s | %.0f s |\n", strings.TrimPrefix(c.module, "github.com/"), c.hash, says, strings.ReplaceAll(c.run, "|", ", "),
			strings.Join(doc.Verdicts, " "), time.Since(begin).Seconds())
	}
	return nil
}
