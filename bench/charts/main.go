// Command charts says what "kubectl unthrottle lint" finds in charts and manifests that others wrote. Its arguments are clones of public
// repositories; it renders each chart with helm, once with its own values and once with each file of values that the chart's authors test
// it with, lints that and the plain manifests of the repository, and prints a line for each repository and one for each finding, as
// Markdown. With -kube-linter and -kube-score all three read whole clones, for a table of findings, CPU time and memory. A reader has to
// judge whether a finding is right: docs/lint-how-right.md has the answers.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	helm := flag.String("helm", "helm", "helm's program, version 3")
	lint := flag.String("lint", "kubectl-unthrottle", "the program to try")
	keep := flag.String("keep", "", "a directory for what was rendered")
	linter := flag.String("kube-linter", "", "kube-linter's program: lint, it and kube-score read whole clones, for a table of what that takes")
	score := flag.String("kube-score", "", "kube-score's program")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "charts: give it clones: git clone --depth 1 https://github.com/traefik/traefik-helm-chart, …")
		os.Exit(2)
	}
	if (*linter == "") != (*score == "") {
		fmt.Fprintln(os.Stderr, "charts: -kube-linter and -kube-score go together")
		os.Exit(2)
	}
	if *linter != "" {
		if err := (beside{*lint, *linter, *score, *helm}).all(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "charts:", err)
			os.Exit(1)
		}
		return
	}
	r := run{helm: *helm, lint: *lint, keep: *keep}
	if err := r.all(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

type run struct{ helm, lint, keep string }

// A repository is what was found in one.
type repository struct {
	name, commit       string
	charts, rendered   int
	sources, workloads int // sources: renderings, and the plain manifests as one
	findings           []finding
	failed             []string
}

type finding struct {
	Rule, Severity, Summary, Workload, Container string
	Position                                     struct {
		File string
		Line int
	}
	source string // the file, or the chart and its values, and the line of it
}

func (r run) all(clones []string) error {
	var repositories []repository
	for _, clone := range clones {
		found, err := r.clone(clone)
		if err != nil {
			return fmt.Errorf("%s: %w", clone, err)
		}
		repositories = append(repositories, found)
		fmt.Fprintf(os.Stderr, "%s: %d of %d charts, %d workloads, %d findings\n",
			found.name, found.rendered, found.charts, found.workloads, len(found.findings))
		for _, text := range found.failed {
			fmt.Fprintln(os.Stderr, "  not rendered:", text)
		}
	}
	slices.SortFunc(repositories, func(a, b repository) int { return cmp.Compare(a.name, b.name) })
	table(os.Stdout, repositories)
	return nil
}

// clone looks at one repository at its HEAD; its working tree does not count.
func (r run) clone(dir string) (repository, error) {
	found := repository{name: nameOf(dir)}
	commit, err := exec.Command("git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return found, fmt.Errorf("git rev-parse HEAD: %w", err)
	}
	found.commit = strings.TrimSpace(string(commit))
	tree, err := os.MkdirTemp("", "charts")
	if err != nil {
		return found, err
	}
	defer os.RemoveAll(tree)
	if err := extract(dir, tree); err != nil {
		return found, err
	}
	charts, err := chartsIn(tree)
	if err != nil {
		return found, err
	}
	for _, chart := range charts {
		r.chart(&found, tree, chart)
	}
	for _, chart := range charts { // what is left are plain manifests
		if err := os.RemoveAll(filepath.Join(tree, chart)); err != nil {
			return found, err
		}
	}
	if err := os.MkdirAll(tree, 0o755); err != nil { // the whole of it may be a chart
		return found, err
	}
	return found, r.look(&found, "manifests", nil, ".", tree)
}

// asked are values that charts do not render without.
var asked = map[string]string{
	"akuity/kargo charts/kargo":                   "api.adminAccount.passwordHash=x,api.adminAccount.tokenSigningKey=x",
	"aws/karpenter-provider-aws charts/karpenter": "settings.clusterName=x",
}

// chart renders one chart in each of its ways.
func (r run) chart(found *repository, tree, chart string) {
	found.charts++
	dir := filepath.Join(tree, chart)
	if err := (underWay{}).withoutMissing(dir); err != nil {
		found.failed = append(found.failed, chart+": "+err.Error())
		return
	}
	ways := []string{""}
	for _, pattern := range []string{"ci/*values.yaml", "ci/*.yaml", "tests/values/*.yaml", "examples/*/values.yaml"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			if !slices.Contains(ways, file) {
				ways = append(ways, file)
			}
		}
	}
	rendered, complaint := false, ""
	for _, values := range ways {
		args := []string{"template", "example", dir, "--namespace", "example", "--kube-version", "1.36.0"}
		if set := asked[found.name+" "+chart]; set != "" {
			args = append(args, "--set", set)
		}
		if values != "" {
			args = append(args, "--values", values)
		}
		var stderr bytes.Buffer
		cmd := exec.Command(r.helm, args...)
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err != nil {
			complaint = cmp.Or(complaint, errorLine(stderr.String()))
			continue
		}
		rendered = true
		source := chart
		if values != "" {
			source += " with " + strings.TrimPrefix(values, dir+"/")
		}
		if err := r.look(found, source, text, "-", tree); err != nil {
			found.failed = append(found.failed, source+": "+err.Error())
		}
	}
	if rendered {
		found.rendered++
	} else {
		found.failed = append(found.failed, chart+": "+complaint)
	}
}

// look lints a rendering, or a directory.
func (r run) look(found *repository, source string, input []byte, name, dir string) error {
	if r.keep != "" && input != nil {
		file := strings.NewReplacer("/", "_", " ", "_").Replace(found.name + " " + source)
		if err := os.WriteFile(filepath.Join(r.keep, file+".yaml"), input, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command(r.lint, "lint", "--json", name)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var document struct {
		Workloads int
		Findings  []finding
	}
	if parse := json.Unmarshal(text, &document); parse != nil {
		return errors.Join(err, fmt.Errorf("lint: %s", errorLine(stderr.String())))
	}
	found.sources++
	found.workloads += document.Workloads
	for _, f := range document.Findings {
		f.source = source + ", line " + strconv.Itoa(f.Position.Line)
		if input == nil {
			f.source = fmt.Sprintf("%s, line %d", f.Position.File, f.Position.Line)
		}
		found.findings = append(found.findings, f)
	}
	return nil
}

// extract writes the files of HEAD. One that the clone does not have, as in a partial clone, is left out.
func extract(dir, to string) error {
	list, err := exec.Command("git", "-C", dir, "ls-tree", "-r", "-z", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git ls-tree: %w", err)
	}
	var ids bytes.Buffer
	var names []string
	for entry := range strings.SplitSeq(string(list), "\x00") {
		about, name, ok := strings.Cut(entry, "\t")
		if fields := strings.Fields(about); ok && fields[1] == "blob" && fields[0] != "120000" && filepath.IsLocal(name) {
			ids.WriteString(fields[2] + "\n")
			names = append(names, name)
		}
	}
	cmd := exec.Command("git", "-C", dir, "cat-file", "--batch")
	cmd.Stdin = &ids
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(write(bufio.NewReader(out), names, to), cmd.Wait())
}

// write writes the blobs that git cat-file --batch prints.
func write(blobs *bufio.Reader, names []string, to string) error {
	const most = 4 << 20
	for _, name := range names {
		var id, kind string
		var size int64
		line, err := blobs.ReadString('\n')
		if err != nil {
			return err
		}
		if n, _ := fmt.Sscan(line, &id, &kind, &size); n < 3 { // "ID missing"
			continue
		}
		data, err := io.ReadAll(io.LimitReader(blobs, size))
		if err != nil {
			return err
		}
		if _, err := blobs.Discard(1); err != nil {
			return err
		}
		if size > most {
			continue
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

var library = regexp.MustCompile(`(?m)^type:\s*"?library`)

// chartsIn are the directories of charts, save those within another chart and libraries.
func chartsIn(tree string) (charts []string, err error) {
	err = filepath.WalkDir(tree, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(name, "Chart.yaml"))
		if err != nil {
			return nil
		}
		if _, err := os.Stat(filepath.Join(name, "templates")); err == nil && !library.Match(text) {
			rel, _ := filepath.Rel(tree, name)
			charts = append(charts, rel)
		}
		return filepath.SkipDir
	})
	return charts, err
}

// underWay are the charts that are being made whole, each for the sake of the one before it: one that needs itself, or another one that
// needs it, is not brought once more.
type underWay map[string]bool

// withoutMissing removes from a chart's list the charts that it needs and that are not in the repository, and brings in those that are
// elsewhere in it.
func (u underWay) withoutMissing(dir string) error {
	dir = filepath.Clean(dir)
	u[dir] = true
	defer delete(u, dir)
	for _, name := range []string{"Chart.yaml", "requirements.yaml"} {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(u.present(dir, string(text))), 0o644); err != nil {
			return err
		}
		if err := os.RemoveAll(strings.TrimSuffix(file, ".yaml") + ".lock"); err != nil {
			return err
		}
	}
	return nil
}

var (
	entry  = regexp.MustCompile(`(?m)^\s*- `)
	topKey = regexp.MustCompile(`(?m)^[A-Za-z]`)
)

// present is a list of needed charts without those that are not there.
func (u underWay) present(dir, text string) string {
	head, list, ok := strings.Cut("\n"+text, "\ndependencies:")
	if !ok {
		return text
	}
	tail := ""
	if end := topKey.FindStringIndex(list); end != nil {
		list, tail = list[:end[0]], list[end[0]:]
	}
	var kept strings.Builder
	starts := entry.FindAllStringIndex(list, -1)
	for i, at := range starts {
		end := len(list)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		one := list[at[0]:end]
		if name := field(one, "name"); have(dir, name) || u.bring(dir, name, field(one, "repository")) {
			kept.WriteString(one)
		}
	}
	text = strings.TrimPrefix(head, "\n") + "\n"
	if kept.Len() > 0 {
		text += "dependencies:\n" + kept.String() + "\n"
	}
	return text + tail
}

func field(text, name string) string {
	m := regexp.MustCompile(`(?m)(?:^|[-\s])` + name + `:\s*"?'?([^"'\s]+)`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

func have(dir, name string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "charts", name+"*"))
	return len(found) > 0
}

// bring puts a chart of the same repository where helm looks for it. Charts of other repositories are left out.
func (u underWay) bring(dir, name, repository string) bool {
	from, local := strings.CutPrefix(repository, "file://")
	for _, candidate := range []string{filepath.Join(dir, from), filepath.Join(filepath.Dir(dir), name)} {
		if !local && candidate == filepath.Join(dir, from) {
			continue
		}
		if _, err := os.Stat(filepath.Join(candidate, "Chart.yaml")); err != nil {
			continue
		}
		if u[candidate] || strings.HasPrefix(dir, candidate+string(filepath.Separator)) { // copying something into itself has no end
			continue
		}
		if u.withoutMissing(candidate) != nil {
			continue
		}
		return os.CopyFS(filepath.Join(dir, "charts", name), os.DirFS(candidate)) == nil
	}
	return false
}

// nameOf is owner/name, by where the clone is from, or else its folder.
func nameOf(dir string) string {
	out, err := exec.Command("git", "-C", dir, "remote", "get-url", "origin").Output()
	if url := strings.TrimSuffix(strings.TrimSpace(string(out)), ".git"); err == nil && strings.Contains(url, "github.com") {
		return path.Join(path.Base(path.Dir(strings.ReplaceAll(url, ":", "/"))), path.Base(url))
	}
	return filepath.Base(dir)
}

// errorLine is the line of a program's output that says what was wrong.
func errorLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "Error: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

func table(w io.Writer, repositories []repository) {
	var charts, workloads int
	fmt.Fprintf(w, "| repository | commit | charts | workloads | findings |\n|---|---|--:|--:|---|\n")
	for _, r := range repositories {
		charts += r.rendered
		workloads += r.workloads
		fmt.Fprintf(w, "| %s | %s | %d | %d | %s |\n", r.name, r.commit, r.rendered, r.workloads, cmp.Or(rules(r.findings), "none"))
	}
	fmt.Fprintf(w, "\n%d repositories, %d charts, %d workloads.\n\n", len(repositories), charts, workloads)
	fmt.Fprintf(w, "| repository, source | workload, container | finding | right |\n|---|---|---|---|\n")
	for _, r := range repositories {
		told := map[string]bool{}
		for _, f := range r.findings {
			line := fmt.Sprintf("| %s | %s, %s | %s %s: %s |", r.name, f.Workload, cmp.Or(f.Container, "the pod"), f.Rule, f.Severity, f.Summary)
			if !told[line] { // each way of rendering reports the same
				fmt.Fprintf(w, "| %s: %s %s |\n", r.name, f.source, strings.TrimPrefix(line, "| "+r.name+" "))
				told[line] = true
			}
		}
	}
}

// rules are how often each rule found something.
func rules(findings []finding) string {
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.Rule]++
	}
	var parts []string
	for id, n := range counts {
		parts = append(parts, fmt.Sprintf("%s × %d", id, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
