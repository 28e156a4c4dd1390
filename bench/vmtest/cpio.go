package vmtest

import (
	"fmt"
	"io"
	"path"
)

// A cpioWriter writes an archive in the "newc" format, the one that the kernel
// unpacks at boot (Documentation/driver-api/early-userspace/buffer-format.rst).
// Every entry is
//
//	070701                       (1) magic
//	0000000100008180…            (2) 13 numbers of 8 hexadecimal digits: ino,
//	                                 mode, nlink, uid, gid, mtime, filesize,
//	                                 devmajor, devminor, rdevmajor, rdevminor,
//	                                 namesize, check
//	init\0                       (3) the name, ended by a zero byte
//	…                            (4) the content
//
// with zero bytes after (3) and (4) up to a multiple of four.
//
// The kernel makes no folders on its own: dir has to come before what is in it.
// The methods file, program and symlink see to that.
type cpioWriter struct {
	w    io.Writer
	ino  int
	dirs map[string]bool
	err  error
}

// File types as in a mode of stat(2).
const (
	modeDir  = 0o040000
	modeChar = 0o020000
	modeFile = 0o100000
	modeLink = 0o120000
)

func (c *cpioWriter) dir(name string) {
	if c.dirs[name] {
		return
	}
	c.parents(name)
	if c.dirs == nil {
		c.dirs = map[string]bool{}
	}
	c.dirs[name] = true
	c.entry(name, modeDir|0o755, 0, 0, nil)
}

func (c *cpioWriter) char(name string, major, minor int) {
	c.entry(name, modeChar|0o600, major, minor, nil)
}

func (c *cpioWriter) program(name string, content []byte) {
	c.file(name, 0o755, content)
}

func (c *cpioWriter) file(name string, permissions int, content []byte) {
	c.parents(name)
	c.entry(name, modeFile|permissions, 0, 0, content)
}

func (c *cpioWriter) symlink(name, target string) {
	c.parents(name)
	c.entry(name, modeLink|0o777, 0, 0, []byte(target))
}

func (c *cpioWriter) parents(name string) {
	if dir := path.Dir(name); dir != "." {
		c.dir(dir)
	}
}

// close writes the end mark. It does not close the underlying writer.
func (c *cpioWriter) close() error {
	c.ino = -1 // the end mark has number 0
	c.entry("TRAILER!!!", 0, 0, 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode, rdevMajor, rdevMinor int, content []byte) {
	c.ino++
	header := "070701"
	for _, n := range []int{
		c.ino, mode, 1, 0, 0, 0, len(content), 0, 0, rdevMajor, rdevMinor, len(name) + 1, 0,
	} {
		header += fmt.Sprintf("%08X", n)
	}
	c.padded([]byte(header + name + "\x00"))
	c.padded(content)
}

func (c *cpioWriter) padded(b []byte) {
	c.write(b)
	c.write(make([]byte, (4-len(b)%4)%4))
}

func (c *cpioWriter) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
