package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func TestCopy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no scripts")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho it runs\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var inodes []os.FileInfo
	for range 2 {
		path, remove, err := Copy(file, dir)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(path).Output()
		if err != nil || string(out) != "it runs\n" {
			t.Errorf("%q, %v", out, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		inodes = append(inodes, info)
		defer remove()
	}
	if os.SameFile(inodes[0], inodes[1]) {
		t.Error("both are one file")
	}
	for _, missing := range [][2]string{{filepath.Join(dir, "nosuch"), dir}, {file, filepath.Join(dir, "nosuch")}, {dir, dir}} {
		if path, _, err := Copy(missing[0], missing[1]); err == nil {
			t.Errorf("%v: %s", missing, path)
		}
	}
	path, remove, err := Copy(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	if remove(); err == nil {
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	}
}

// TestCopiesStart: copies that are made while others are started can be started. A process that is being started has all open files until
// it has become another program, and a file that is open for writing can't be started.
func TestCopiesStart(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				file, remove, err := Copy(program, dir)
				if err != nil {
					t.Error(err)
					return
				}
				if err := exec.Command(file).Run(); err != nil {
					t.Error(err)
				}
				remove()
			}
		})
	}
	all.Wait()
}
