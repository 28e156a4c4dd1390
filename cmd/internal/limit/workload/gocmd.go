package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
)

const nullDevice = os.DevNull

// goCommand returns the command of a workload that is the go command itself.
func (w Workload) goCommand(o Options) (Command, error) {
	if o.Dir == "" {
		return Command{}, fmt.Errorf("workload %s: no directory for its build cache", w.Name)
	}
	dir, err := filepath.Abs(o.Dir) // the go command refuses a cache with a relative name
	if err != nil {
		return Command{}, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	path, err := lookGo()
	if err != nil {
		return Command{}, err
	}
	return Command{
		Args: append([]string{path}, w.goArg...),
		Env:  append(goEnv(o.Go), "GOCACHE="+filepath.Join(dir, "gocache")),
		Dir:  filepath.Join(dir, "gowork"),
	}, nil
}

// prepareGo makes the directories, sees that the toolchain is there, and fills the build cache.
func (w Workload) prepareGo(ctx context.Context, o Options) error {
	c, err := w.goCommand(o)
	if err != nil {
		return err
	}
	if err := writeModule(c.Dir, minLanguage); err != nil {
		return fmt.Errorf("preparing workload %s: %w", w.Name, err)
	}
	args := []string{"version"}
	if w.warm {
		args = w.goArg
	}
	if _, err := runGo(ctx, c.Dir, c.Env, args...); err != nil {
		return fmt.Errorf("preparing workload %s: %w", w.Name, err)
	}
	return nil
}

// writeModule makes dir a module of its own, so that no go.mod above it has a say.
func writeModule(dir, language string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module unthrottle-workload\n\ngo "+language+"\n"), 0o666)
}

// BuildCache is the variable that go needs of a user who has no home, or whose cache others may write to: then what is built, and
// run, is not taken from there. It keeps what it builds in a cache of ours, else in a directory that is the caller's alone.
func BuildCache(alone string) []string {
	if os.Getenv("GOCACHE") != "" {
		return nil
	}
	if base, err := os.UserCacheDir(); err == nil && ours.Keeps(filepath.Join(base, "go-build")) == nil {
		return nil
	}
	dir, err := ours.Cache("go-build")
	if err != nil {
		dir = alone
	}
	return []string{"GOCACHE=" + dir}
}
