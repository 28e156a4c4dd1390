//go:build !linux

package cgroup

import (
	"errors"
	"io/fs"
	"os"
)

// On other systems there are no cgroups, but saved trees can be read.

func schedAffinity(int) (int, error) { return 0, ErrNotSupported }

func readFile(path string, buf []byte) (data, grown []byte, err error) {
	data, err = os.ReadFile(path)
	return data, buf, err
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return !errors.Is(err, fs.ErrNotExist)
}

func isCgroupDir(string) bool { return true }
