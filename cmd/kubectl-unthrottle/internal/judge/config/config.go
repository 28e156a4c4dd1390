// Package config answers: how does a project want its manifests judged? In go the text of its .unthrottle.yaml; out come the paths
// to leave out, how severe the findings of each rule are, and what is known about nodes and programs. The keys are the names of flags,
// where there are such. A key or a value that is not known is an error with its line: a misspelt rule must not be a gate that is
// never shut. It looks for that file. The other one that it reads, and writes, is the baseline: findings that were there before.
package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Name is what the file is called.
const Name = ".unthrottle.yaml"

// A Config is what a file says. Its zero value says nothing.
type Config struct {
	Path    string // "": no file
	Exclude Paths  // from the file's directory
	Levels  lint.Levels
	Nodes   []int
	Go      *procs.Program // nil: it does not say
}

// Find is the file that holds for a directory: in itself, or in one above it, up to the root of its repository, which is "" if it is
// in none. Then only its own counts: anyone may write one into a directory above, such as the one for temporary files. "": none. A
// link is refused: what is wrong in the file is reported, and a link may lead to anything.
func Find(dir, root string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(dir, Name)
		info, err := os.Lstat(path)
		switch {
		case err == nil && !info.Mode().IsRegular():
			return "", fmt.Errorf("%s is no plain file", path)
		case err == nil:
			return path, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		}
		parent := filepath.Dir(dir)
		if root == "" || dir == filepath.FromSlash(root) || parent == dir {
			return "", nil
		}
		dir = parent
	}
}

// largest is more than any such file has.
const largest = 1 << 20

// Read reads a file.
func Read(ctx context.Context, path string) (*Config, error) {
	data, err := input.ReadAll(ctx, path, strings.NewReader(""), largest) // "-" is nothing
	if err != nil {
		return nil, err
	}
	c, err := parse(data, filepath.Dir(path))
	var at *lineError
	switch {
	case errors.As(err, &at):
		return nil, fmt.Errorf("%s:%d: %w", path, at.line, at.err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.Path = path
	return c, nil
}

// A lineError says what is wrong in a line.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func wrong(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Errorf(format, args...)}
}

// keys are what a file may say.
var keys = []string{"exclude", "rules", "node-cpus", "go"}

// parse reads what a file in a directory holds.
func parse(data []byte, dir string) (*Config, error) {
	c := &Config{Levels: lint.Levels{}, Exclude: Paths{base: dir}}
	root, err := document(data)
	if err != nil || root == nil {
		return c, err
	}
	return c, pairs(root, func(key, value *yaml.Node) (err error) {
		switch key.Value {
		case "exclude":
			return list(value, func(n *yaml.Node) error {
				if err := c.Exclude.Add(n.Value); err != nil {
					return wrong(n, "exclude: %w", err)
				}
				return nil
			})
		case "rules":
			return pairs(value, c.level)
		case "node-cpus":
			return list(value, func(n *yaml.Node) error {
				cpus, err := strconv.Atoi(n.Value)
				if err != nil || cpus < 1 {
					return wrong(n, "node-cpus: %q is no number of CPUs", n.Value)
				}
				c.Nodes = append(c.Nodes, cpus)
				return nil
			})
		case "go":
			if value.Kind != yaml.ScalarNode {
				return wrong(value, "go: a version is wanted, such as 1.25")
			}
			if c.Go, err = lint.ParseGo(value.Value); err != nil {
				return wrong(value, "go: %w", err)
			}
			return nil
		}
		return wrong(key, "there is no key %q: there are %s", key.Value, quantity.List(keys))
	})
}

// level takes what is said about a rule.
func (c *Config) level(key, value *yaml.Node) error {
	id := strings.ToUpper(key.Value)
	if !slices.ContainsFunc(lint.Rules(), func(r lint.Rule) bool { return r.ID == id }) {
		return wrong(key, "there is no rule %q", key.Value)
	}
	if _, before := c.Levels[id]; before {
		return wrong(key, "the rule %s stands there twice", id)
	}
	if value.Kind != yaml.ScalarNode {
		return wrong(value, "rules: %s is off, info, warning or critical", id)
	}
	if value.Value == "off" || value.Value == "false" { // which is what YAML 1.1 makes of off
		c.Levels[id] = nil
		return nil
	}
	var severity finding.Severity
	if err := severity.UnmarshalText([]byte(value.Value)); err != nil {
		return wrong(value, "rules: %s is off, info, warning or critical, and not %q", id, value.Value)
	}
	c.Levels[id] = &severity
	return nil
}

// document is the only document of a text; nil: there is nothing in it.
func document(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if recover() != nil { // the library's scanner has panicked on texts that no one writes
			err = errors.New("not YAML")
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	root = first.Content[0]
	if root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// pairs visits the pairs of a map, each key once.
func pairs(n *yaml.Node, visit func(key, value *yaml.Node) error) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return wrong(n, "keys and values are wanted")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			return wrong(key, "a key is a word")
		case seen[key.Value]:
			return wrong(key, "the key %q stands there twice", key.Value)
		}
		seen[key.Value] = true
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

// list visits the scalars of a list, or the single one in its place.
func list(n *yaml.Node, visit func(*yaml.Node) error) error {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return wrong(item, "a list is wanted")
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	return nil
}
