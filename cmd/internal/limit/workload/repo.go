package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A Repo is a git repository, seen from a directory in it. It is only read.
type Repo struct {
	top   string // of its working tree
	below string // the directory, as seen from there
}

// FindRepo finds the repository that a directory is in.
func FindRepo(ctx context.Context, dir string) (*Repo, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, hint.With(errors.New("there is no git command in PATH"), "install git, or build both programs and compare them: -- ./old --- ./new")
	}
	out, err := (&Repo{top: dir}).git(ctx, nil, "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil {
		return nil, err
	}
	top, below, _ := strings.Cut(strings.TrimSuffix(out, "\n"), "\n")
	if top == "" {
		return nil, errors.New("this git repository has no working tree")
	}
	return &Repo{top, filepath.FromSlash(below)}, nil
}

// Commit finds the commit that a name stands for. A branch may be known as the remote's alone, as in the clones that CI systems
// make. A name that ends with three dots is the commit at which HEAD left that branch.
func (r *Repo) Commit(ctx context.Context, name string) (hash string, err error) {
	name, fork := strings.CutSuffix(name, "...")
	for _, known := range []string{name, "origin/" + name} {
		out, failed := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", known+"^{commit}")
		if hash = strings.TrimSpace(out); failed == nil && hash != "" {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case hash == "":
		return "", r.missing(ctx, fmt.Errorf("git knows no commit %s", name))
	case !fork:
		return hash, nil
	}
	out, err := r.git(ctx, nil, "merge-base", "HEAD", hash)
	if err != nil {
		return "", r.missing(ctx, fmt.Errorf("git finds no commit at which HEAD left %s", name))
	}
	return strings.TrimSpace(out), nil
}

// missing says what helps where a commit is not there.
func (r *Repo) missing(ctx context.Context, err error) error {
	if out, _ := r.git(ctx, nil, "rev-parse", "--is-shallow-repository"); strings.TrimSpace(out) == "true" {
		return hint.With(err, "this clone has its last commits only: git fetch --unshallow, or fetch-depth: 0 where a CI system makes it")
	}
	return hint.With(err, "git branch --all and git tag list the names; a commit's hash will do, too")
}

// Beyond is how many commits a commit has that HEAD has not.
func (r *Repo) Beyond(ctx context.Context, hash string) int {
	out, err := r.git(ctx, nil, "rev-list", "--count", "HEAD.."+hash)
	if err != nil {
		return 0
	}
	n := 0
	fmt.Sscan(out, &n)
	return n
}

// Export writes the files of a commit into a new directory, and returns where in it the repository's own directory is. It uses an index of
// its own, next to that directory: the working tree, the index and the list of worktrees stay unchanged, whatever happens.
func (r *Repo) Export(ctx context.Context, hash, into string) (dir string, err error) {
	index := []string{"GIT_INDEX_FILE=" + into + ".index"}
	if _, err := r.git(ctx, index, "read-tree", hash); err != nil {
		return "", err
	}
	if _, err := r.git(ctx, index, "checkout-index", "--all", "--prefix="+filepath.ToSlash(into)+"/"); err != nil {
		return "", err
	}
	dir = filepath.Join(into, r.below)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("at that commit there is no directory %s", filepath.ToSlash(r.below))
	}
	return dir, nil
}

// git calls git in the working tree.
func (r *Repo) git(ctx context.Context, env []string, args ...string) (string, error) {
	return output(command(ctx, r.top, env, "git", args...))
}

// command is one that ends on its own when it is interrupted: git and go clean up what they have begun.
func command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output is what a command says on stdout. Its error has the other.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := run(cmd)
	if err != nil {
		return "", &BuildError{Args: cmd.Args, Err: err, Said: string(bytes.TrimSpace(stderr.Bytes()))}
	}
	return string(out), nil
}

// BuildError is the error of a command that failed, with what it said.
type BuildError struct {
	Args []string
	Err  error
	Said string
}

// Error has all of it.
func (f *BuildError) Error() string {
	text := fmt.Sprintf("%s: %v", strings.Join(f.Args, " "), f.Err)
	if f.Said != "" {
		text += ": " + f.Said
	}
	return text
}

// Unwrap is why it failed.
func (f *BuildError) Unwrap() error { return f.Err }
