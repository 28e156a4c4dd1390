//go:build !linux

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// On other systems there are no cgroups, but saved trees can be read.

func schedAffinity(int) int { return runtime.NumCPU() }

func readFile(path string, _ *[]byte, _ bool) ([]byte, error) { return os.ReadFile(path) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !isMissing(err)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
