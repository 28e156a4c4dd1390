package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// beside runs lint and two other linters over whole clones, each as its users would: lint and kube-linter render charts themselves;
// kube-score gets what helm renders, and plain manifests.
type beside struct{ lint, linter, score, helm string }

// A cost is what a linter said of a clone, and what that took.
type cost struct {
	findings, workloads int
	unread              int // what it says that it could not read, or had to be left out to get an answer
	failed              string
	cpu                 time.Duration
	memory              int64 // bytes
}

func (c *cost) add(d cost) {
	c.findings, c.workloads, c.unread = c.findings+d.findings, c.workloads+d.workloads, c.unread+d.unread
	c.cpu, c.memory = c.cpu+d.cpu, max(c.memory, d.memory)
	c.failed = cmp.Or(c.failed, d.failed)
}

func (b beside) all(clones []string) error {
	tools := []string{"lint", "kube-linter", "kube-score"}
	type row struct {
		name  string
		costs []cost
	}
	var rows []row
	for _, clone := range clones {
		name := nameOf(clone)
		commit, err := exec.Command("git", "-C", clone, "rev-parse", "--short=12", "HEAD").Output()
		if err != nil {
			return fmt.Errorf("%s: git rev-parse HEAD: %w", clone, err)
		}
		costs, err := b.clone(clone)
		if err != nil {
			return fmt.Errorf("%s: %w", clone, err)
		}
		rows = append(rows, row{name + "@" + strings.TrimSpace(string(commit)), costs})
		for i, c := range costs {
			fmt.Fprintf(os.Stderr, "%s: %s: %d findings, %d not read, %v, %d MB %s\n", name, tools[i], c.findings, c.unread, c.cpu.Round(time.Millisecond), c.memory>>20, c.failed)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.name, b.name) })
	fmt.Println("| repository | workloads | lint: findings, not read | | kube-linter: findings | | kube-score: findings, refused | |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	total := row{name: fmt.Sprintf("all %d; of memory the most", len(rows)), costs: make([]cost, len(tools))}
	for _, r := range rows {
		for i, c := range r.costs {
			total.costs[i].add(c)
		}
	}
	for _, r := range append(rows, total) {
		l, k, s := r.costs[0], r.costs[1], r.costs[2]
		fmt.Printf("| %s | %d | %d, %d | %s | %d | %s | %d, %d | %s |\n", r.name, l.workloads, l.findings, l.unread, l, k.findings, k, s.findings, s.unread, s)
	}
	return nil
}

// String is what it took.
func (c cost) String() string {
	return fmt.Sprintf("%.1f s, %d MB", c.cpu.Seconds(), c.memory/1_000_000)
}

func (b beside) clone(clone string) ([]cost, error) {
	tree, err := os.MkdirTemp("", "charts")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tree)
	if err := extract(clone, tree); err != nil {
		return nil, err
	}
	ours, err := b.ours(tree)
	if err != nil {
		return nil, err
	}
	linter, err := b.kubeLinter(tree)
	if err != nil {
		return nil, err
	}
	score, err := b.kubeScore(tree)
	return []cost{ours, linter, score}, err
}

// spend runs a program in a directory and says what it took. That it found something isn't an error.
func spend(dir, program string, args ...string) (stdout, stderr []byte, c cost, err error) {
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return nil, nil, c, err
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.memory = use.Maxrss << 10
	}
	return out.Bytes(), errs.Bytes(), c, nil
}

func (b beside) ours(tree string) (cost, error) {
	out, errs, c, err := spend(tree, b.lint, "lint", "--json", ".")
	if err != nil {
		return c, err
	}
	var document struct {
		Workloads int
		Findings  []finding
		Problems  []struct{ Severity string }
	}
	if err := json.Unmarshal(out, &document); err != nil {
		return c, fmt.Errorf("lint: %s", errorLine(string(errs)))
	}
	c.workloads, c.findings = document.Workloads, len(document.Findings)
	for _, p := range document.Problems {
		if p.Severity == "error" {
			c.unread++
		}
	}
	for _, f := range document.Findings {
		fmt.Fprintf(os.Stderr, "  %s %s: %s:%d %s, %s: %s\n", f.Rule, f.Severity, f.Position.File, f.Position.Line, f.Workload, f.Container, f.Summary)
	}
	return c, nil
}

// kubeLinter says nothing about what it does not read.
func (b beside) kubeLinter(tree string) (cost, error) {
	out, errs, c, err := spend(tree, b.linter, "lint", "--format", "json", ".")
	if err != nil {
		return c, err
	}
	var document struct{ Reports []json.RawMessage }
	if json.Unmarshal(out, &document) != nil {
		c.failed = errorLine(string(errs))
	}
	c.findings = len(document.Reports)
	return c, nil
}

var object = regexp.MustCompile(`(?ms)^apiVersion:.*^kind:|^kind:.*^apiVersion:`)

// manifests are files that hold objects and are not in charts.
func manifests(tree string, charts []string) (files []string, err error) {
	err = filepath.WalkDir(tree, func(name string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(tree, name)
		switch ext := filepath.Ext(name); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(charts, rel):
			return filepath.SkipDir
		case entry.IsDir() || ext != ".yaml" && ext != ".yml":
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil && object.Match(text) {
			files = append(files, rel)
		}
		return err
	})
	return files, err
}

func (b beside) kubeScore(tree string) (c cost, err error) {
	charts, err := chartsIn(tree)
	if err != nil {
		return c, err
	}
	files, err := manifests(tree, charts)
	if err != nil {
		return c, err
	}
	rendered, err := os.MkdirTemp("", "rendered")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(rendered)
	for i, chart := range charts {
		out, _, helm, err := spend(tree, b.helm, "template", "example", chart, "--kube-version", "1.36.0")
		if err != nil {
			return c, err
		}
		c.cpu, c.memory = c.cpu+helm.cpu, max(c.memory, helm.memory)
		if len(bytes.TrimSpace(out)) == 0 {
			c.unread++
			continue
		}
		file := filepath.Join(rendered, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, out, 0o600); err != nil {
			return c, err
		}
		files = append(files, file)
	}
	scored, err := b.scored(tree, files)
	c.add(scored)
	return c, err
}

// scored has files scored. kube-score gives up at one that it can't read, and does not name it: then halves are tried, and only what
// gives an answer counts.
func (b beside) scored(tree string, files []string) (cost, error) {
	if len(files) == 0 {
		return cost{}, nil
	}
	out, _, c, err := spend(tree, b.score, append([]string{"score", "--output-format", "json"}, files...)...)
	if err != nil {
		return c, err
	}
	var objects []struct {
		Checks []struct {
			Grade   int
			Skipped bool
		}
	}
	switch err := json.Unmarshal(out, &objects); {
	case err != nil && len(files) == 1:
		return cost{unread: 1}, nil
	case err != nil:
		first, err := b.scored(tree, files[:len(files)/2])
		if err != nil {
			return first, err
		}
		second, err := b.scored(tree, files[len(files)/2:])
		first.add(second)
		return first, err
	}
	for _, o := range objects {
		for _, check := range o.Checks {
			if !check.Skipped && check.Grade < 7 { // from 7 on it is almost right
				c.findings++
			}
		}
	}
	return c, nil
}
