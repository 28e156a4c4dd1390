package workload

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Copy makes a copy of a program's file, and returns what removes it. Where in memory a file's pages lie affects the program's speed by
// some percent, and stays the same for as long as the file is in the page cache: of six copies of one benchmark one was slower than the
// others by 4 %, in each of its runs. With a copy of its own for each run that is noise, and not a difference between builds.
func Copy(file, dir string) (path string, remove func(), err error) {
	from, err := os.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer from.Close()
	at, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(at) }
	path = filepath.Join(at, filepath.Base(file))
	// A process that is started meanwhile would have the file open for writing too, until it is another program: a file that is written to
	// can't be started.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// Warm reads a program's file. Its pages count for the group that reads them first: so they are ours, for every run, and not the first
// run's alone. A failure isn't an error here: the run says what is wrong with the file.
func Warm(program string) {
	const most = 4 << 30
	file, err := exec.LookPath(program)
	if err != nil {
		return
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return
	}
	if f, err := os.Open(file); err == nil {
		io.CopyN(io.Discard, f, most)
		f.Close()
	}
}
