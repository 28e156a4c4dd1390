//go:build !linux

package cgroup

import (
	"errors"
	"io/fs"
	"runtime"
)

// On other systems there are no cgroups, but saved trees can be read.

func schedAffinity(int) int { return runtime.NumCPU() }

func readFile(string, *[]byte, int) ([]byte, error) { return nil, ErrNotSupported }

func exists(string) bool { return false }

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
