package procs

import (
	"io/fs"
	"syscall"
)

// ReadFile reads a whole file of /proc or of a cgroup, which are small. It asks the kernel directly: package os would register each file with
// its poller, which costs more than to read it.
func ReadFile(path string) ([]byte, error) { return readFile(path, false) }

// ReadRecord is ReadFile for a file of one record, such as those of cgroups and most of a process's: it ends where the kernel gives less than
// there is room for.
func ReadRecord(path string) ([]byte, error) { return readFile(path, true) }

func readFile(path string, record bool) ([]byte, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	for data := make([]byte, 0, 512); ; {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := retry(func() (int, error) { return syscall.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		data = data[:len(data)+n]
		if n == 0 || record && len(data) < cap(data) {
			return data, nil
		}
	}
}

func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}
