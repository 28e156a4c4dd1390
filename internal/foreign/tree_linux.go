package foreign

import (
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A Tree is the files below a root. It keeps some directories open, so that many files below one of them cost little more than the files
// themselves. It is not safe for concurrent use.
type Tree struct {
	root   string // "" is "/"
	hand   bool   // walk by hand
	known  bool   // whether it is live is known
	live   bool   // it is a running system's, not saved files
	opened []directory
}

// A directory that is open, by the path that led to it.
type directory struct {
	path  string
	fd    int
	group bool // it is a cgroup
}

// mostOpened is how many directories a tree keeps open: two roots, and those of the controllers cpu, cpuacct, cpuset and memory.
const mostOpened = 6

// Open returns the tree below root, "" being "/". It fails later, when a file is read.
func Open(root string) *Tree { return &Tree{root: strings.TrimRight(root, "/"), hand: !hasOpenat2()} }

// Close closes what is open. The tree may be used again.
func (t *Tree) Close() {
	for _, d := range t.opened {
		syscall.Close(d.fd)
	}
	t.opened = nil
}

// Read reads a whole file, of no more than most bytes.
func (t *Tree) Read(path string, most int) ([]byte, error) { return t.read(path, most, false) }

// ReadRecord is Read for a file of one record.
func (t *Tree) ReadRecord(path string, most int) ([]byte, error) { return t.read(path, most, true) }

func (t *Tree) read(path string, most int, record bool) ([]byte, error) {
	if t.root == "" && isKernels(path) {
		fd, err := openat(atCWD, path, toRead)
		if err != nil {
			return nil, fail("open", t.root+path, err)
		}
		return readAll(fd, t.root+path, most, record)
	}
	f, err := t.Look(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.mode&syscall.S_IFMT == syscall.S_IFREG && f.ID.size > int64(most) { // the kernel's own files say 0
		return nil, fail("read", t.root+path, tooLong(most))
	}
	fd, err := f.open()
	if err != nil {
		return nil, fail("open", t.root+path, err)
	}
	return readAll(fd, t.root+path, most, record)
}

// File opens a file to be read in pieces. What is read of it needs a bound, see [Bounded].
func (t *Tree) File(path string) (*os.File, error) {
	if t.root == "" && isKernels(path) {
		fd, err := openat(atCWD, path, toRead)
		if err != nil {
			return nil, fail("open", t.root+path, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	f, err := t.Look(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Open()
}

// Mount keeps the directory open where cgroups are mounted. [Tree.ReadGroup] is quick below it.
func (t *Tree) Mount(point string) error {
	if d := t.find(point); d != nil && d.group {
		return nil
	}
	_, err := t.mount(point)
	return fail("open", t.root+point, err)
}

func (t *Tree) mount(point string) (*directory, error) {
	base, rest, err := t.base(point)
	if err != nil {
		return nil, err
	}
	fd, err := t.resolve(base, rest, oPath|oDirectory)
	if err != nil {
		return nil, err
	}
	if err := t.check(fd); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return t.keep(directory{point, fd, true}), nil
}

// check says that a file is on a file system for cgroups. Saved files are on any.
//
// Those of LXCFS are not: it is a FUSE, which answers when its owner likes, and its tree of cgroups was never listed with the type of one.
// gVisor gives its cgroups the number of Linux's.
func (t *Tree) check(fd int) error {
	if !t.isLive() {
		return nil
	}
	switch fileSystem(fd) {
	case cgroupV1, cgroupV2:
		return nil
	}
	return ErrNotGroup
}

// ReadGroup reads a file of a cgroup.
func (t *Tree) ReadGroup(path string, most int) ([]byte, error) {
	quick := t.isLive() && !t.hand
	d := t.group(path)
	if d == nil && quick {
		var err error
		if d, err = t.mount(path[:max(0, strings.LastIndexByte(path, '/'))]); err != nil {
			return nil, fail("open", t.root+path, err)
		}
	}
	if quick {
		// What is on the same mount as a cgroup is a file of a cgroup: opening it does nothing, and nothing on the way is a link.
		rest, _ := below(path, d.path)
		fd, err := openat2(d.fd, rest, toRead, resolveBeneath|resolveNoXdev|resolveNoSymlinks)
		if err == nil {
			return readAll(fd, t.root+path, most, true)
		}
		if err != syscall.EXDEV && err != syscall.ELOOP {
			return nil, fail("open", t.root+path, err)
		}
	}
	f, err := t.Look(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := t.check(f.fd); err != nil {
		return nil, fail("open", t.root+path, err)
	}
	fd, err := f.open()
	if err != nil {
		return nil, fail("open", t.root+path, err)
	}
	return readAll(fd, t.root+path, most, true)
}

// Stat says what is at a path, without opening it. For the kernel's links in /proc that is what they lead to.
func (t *Tree) Stat(path string) (ID, error) {
	if process, _ := split(path); t.root == "" && process == "" && strings.HasPrefix(path, "/proc/") {
		st, err := stat(atCWD, path)
		return st.ID, fail("stat", t.root+path, err)
	}
	f, err := t.Look(path)
	if err != nil {
		return ID{}, err
	}
	defer f.Close()
	return f.ID, nil
}

// Look looks at a file without opening it.
func (t *Tree) Look(path string) (*File, error) {
	fd, err := t.look(path, oPath)
	if err != nil {
		return nil, fail("open", t.root+path, err)
	}
	st, err := stat(fd, "")
	if err != nil {
		syscall.Close(fd)
		return nil, fail("stat", t.root+path, err)
	}
	return &File{ID: st.ID, Device: st.dev, mode: st.mode, mount: st.mount, fd: fd, path: t.root + path, root: t.root, process: processOf(path)}, nil
}

// look opens a path as something that can be looked at only.
func (t *Tree) look(path string, flags int) (int, error) {
	if d := t.group(path); d != nil && !t.hand {
		rest, _ := below(path, d.path)
		if rest == "" {
			rest = "."
		}
		if fd, err := openat2(d.fd, rest, flags, resolveBeneath|resolveNoXdev|resolveNoSymlinks); err != syscall.EXDEV && err != syscall.ELOOP {
			return fd, err
		}
	}
	if process, _ := split(path); process == "" && strings.HasPrefix(path, "/proc/") && !strings.Contains(path+"/", "/../") {
		if t.root == "" {
			return openat(atCWD, path, flags)
		}
		// The last name may be a link of the kernel's, such as exe, which leads elsewhere by intent.
		i := strings.LastIndexByte(path, '/')
		dir, rest, err := t.base(path[:i])
		if err != nil {
			return -1, err
		}
		parent, err := t.resolve(dir, rest, oPath|oDirectory)
		if err != nil {
			return -1, err
		}
		defer syscall.Close(parent)
		if fileSystem(parent) == procfs {
			return openat(parent, path[i+1:], flags)
		}
	}
	base, rest, err := t.base(path)
	if err != nil {
		return -1, err
	}
	return t.resolve(base, rest, flags)
}

// base is the directory that a path begins at, and the rest of it.
func (t *Tree) base(path string) (fd int, rest string, err error) {
	process, rest := split(path)
	if d := t.find(process); d != nil {
		return d.fd, rest, nil
	}
	if process == "" {
		top := t.root
		if top == "" {
			top = "/"
		}
		fd, err = openat(atCWD, top, oPath|oDirectory)
	} else {
		fd, err = t.openRoot(process)
	}
	if err != nil {
		return -1, "", err
	}
	return t.keep(directory{process, fd, false}).fd, rest, nil
}

// openRoot opens the root of a process, "/proc/7/root". That is a link of the kernel's on a running system, and a directory among
// saved files.
func (t *Tree) openRoot(process string) (int, error) {
	if t.root == "" {
		return openat(atCWD, process, oPath|oDirectory)
	}
	top, _, err := t.base("")
	if err != nil {
		return -1, err
	}
	dir, err := t.resolve(top, strings.TrimSuffix(process, "/root"), oPath|oDirectory)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(dir)
	if fileSystem(dir) == procfs {
		return openat(dir, "root", oPath|oDirectory)
	}
	return t.resolve(top, process, oPath|oDirectory)
}

// isLive reports whether the tree is that of a running system.
func (t *Tree) isLive() bool {
	if !t.known {
		t.known, t.live = true, t.root == ""
		if top, _, err := t.base(""); !t.live && err == nil {
			if fd, err := t.resolve(top, "proc", oPath|oDirectory); err == nil {
				t.live = fileSystem(fd) == procfs
				syscall.Close(fd)
			}
		}
	}
	return t.live
}

func (t *Tree) find(path string) *directory {
	for i := range t.opened {
		if t.opened[i].path == path {
			return &t.opened[i]
		}
	}
	return nil
}

// group is the open cgroup that a path leads below, the deepest if there are several.
func (t *Tree) group(path string) (deepest *directory) {
	for i := range t.opened {
		d := &t.opened[i]
		if _, ok := below(path, d.path); ok && d.group && (deepest == nil || len(d.path) > len(deepest.path)) {
			deepest = d
		}
	}
	return deepest
}

func (t *Tree) keep(d directory) *directory {
	if len(t.opened) == mostOpened {
		syscall.Close(t.opened[0].fd)
		t.opened = append(t.opened[:0], t.opened[1:]...)
	}
	t.opened = append(t.opened, d)
	return &t.opened[len(t.opened)-1]
}

// Names are the names in a directory, in no order, of which there may be no more than most.
func (t *Tree) Names(path string, most int) ([]string, error) {
	fd, err := t.openDir(path)
	if err != nil {
		return nil, fail("open", t.root+path, err)
	}
	return names(fd, t.root+path, most)
}

func (t *Tree) openDir(path string) (int, error) {
	if t.root == "" && isKernels(path) {
		return openat(atCWD, path, toRead|oDirectory)
	}
	fd, err := t.look(path, oPath|oDirectory)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(fd)
	return openat(fd, ".", toRead|oDirectory)
}

func names(fd int, path string, most int) ([]string, error) {
	d := os.NewFile(uintptr(fd), path)
	defer d.Close()
	var all []string
	for {
		some, err := d.Readdirnames(1024)
		if all = append(all, some...); len(all) > most {
			return nil, fail("read", path, tooMany(most))
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Link is what a link says. It is not followed.
func (t *Tree) Link(path string) (string, error) {
	if process, _ := split(path); t.root == "" && (process == "" || process == path) && strings.HasPrefix(path, "/proc/") {
		return os.Readlink(path)
	}
	i := strings.LastIndexByte(path, '/')
	dir, err := t.look(path[:max(i, 0)], oPath|oDirectory)
	if err != nil {
		return "", fail("readlink", t.root+path, err)
	}
	defer syscall.Close(dir)
	text, err := readlinkat(dir, path[i+1:])
	return text, fail("readlink", t.root+path, err)
}

// Find looks for a directory below the cgroup at a path, depth directories deep. It looks at no more than most of them, and returns the
// names on the way; nil: it isn't there.
func (t *Tree) Find(wanted ID, path string, depth, most int) ([]string, error) {
	if err := t.Mount(path); err != nil {
		return nil, err
	}
	fd, err := t.look(path, oPath|oDirectory)
	if err != nil {
		return nil, fail("open", t.root+path, err)
	}
	defer syscall.Close(fd)
	left := most
	way, err := t.findBelow(wanted, fd, path, depth, &left)
	if left < 0 {
		err = fail("search", t.root+path, tooMany(most))
	}
	return way, err
}

func (t *Tree) findBelow(wanted ID, dir int, path string, depth int, left *int) ([]string, error) {
	if depth == 0 {
		var st syscall.Stat_t
		if err := syscall.Fstat(dir, &st); err != nil {
			return nil, err
		}
		if found := newID(&st); found.dev == wanted.dev && found.ino == wanted.ino {
			return []string{}, nil
		}
		return nil, nil
	}
	list, err := openat(dir, ".", toRead|oDirectory)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(list), path)
	defer f.Close()
	for {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if *left--; *left < 0 {
				return nil, nil
			}
			child, err := t.step(dir, e.Name())
			if err != nil {
				continue // it is gone, or something else is mounted there
			}
			way, err := t.findBelow(wanted, child, path, depth-1, left)
			syscall.Close(child)
			if way != nil {
				return append([]string{e.Name()}, way...), nil
			}
			if err != nil || *left < 0 {
				return nil, err
			}
		}
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// step goes from a cgroup to one that is in it.
func (t *Tree) step(dir int, name string) (int, error) {
	if !t.hand {
		return openat2(dir, name, oPath|oDirectory, resolveBeneath|resolveNoXdev|resolveNoSymlinks)
	}
	fd, err := openat(dir, name, oPath|oDirectory|oNoFollow)
	if err != nil {
		return -1, err
	}
	if err := t.check(fd); err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// An ID says which file it was, and that it is still the same.
type ID struct {
	dev, ino uint64
	size     int64
	changed  [2]int64 // seconds, and nanoseconds
}

// Size is that of the file.
func (id ID) Size() int64 { return id.size }

func newID(s *syscall.Stat_t) ID {
	return ID{dev: uint64(s.Dev), ino: s.Ino, size: s.Size, changed: [2]int64{int64(s.Ctim.Sec), int64(s.Ctim.Nsec)}}
}

// A File was looked at. It can be opened if it is a regular one.
type File struct {
	ID     ID
	Device uint64 // that it is on, by stat
	mode   uint32
	mount  uint64
	fd     int
	path   string

	root, process string // whose file it is, see processOf
}

// Inode is the file's number on its file system.
func (f *File) Inode() uint64 { return f.ID.ino }

// Close lets go of it. What was opened stays open.
func (f *File) Close() error { return syscall.Close(f.fd) }

// Open opens it.
func (f *File) Open() (*os.File, error) {
	fd, err := f.open()
	if err != nil {
		return nil, fail("open", f.path, err)
	}
	return os.NewFile(uintptr(fd), f.path), nil
}

// open opens the very file that was looked at, by its descriptor. It doesn't wait for a process with a lease on the file.
func (f *File) open() (int, error) {
	switch f.mode & syscall.S_IFMT {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		return -1, syscall.EISDIR
	default:
		return -1, ErrNotRegular
	}
	if err := f.answers(); err != nil {
		return -1, err
	}
	fd, err := openat(atCWD, "/proc/self/fd/"+strconv.Itoa(f.fd), toRead)
	if err == syscall.ENOENT || err == syscall.ENOTDIR {
		return -1, errNoProc
	}
	if err != nil {
		return -1, err
	}
	if st, err := stat(fd, ""); err != nil || st.dev != f.ID.dev || st.ino != f.ID.ino { // /proc is not the kernel's
		syscall.Close(fd)
		return -1, errNoProc
	}
	return fd, nil
}

// fail names the file in an error. A nil error stays nil.
func fail(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*fs.PathError); ok {
		return err
	}
	return &fs.PathError{Op: doing, Path: path, Err: err}
}

// readAll reads an open file and closes it.
func readAll(fd int, path string, most int, record bool) ([]byte, error) {
	defer syscall.Close(fd)
	for data := make([]byte, 0, 512); ; {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := data[len(data):cap(data)]
		if len(data)+len(room) > most+1 {
			room = room[:most+1-len(data)] // one more shows whether it ends here
		}
		n, err := retry(func() (int, error) { return syscall.Read(fd, room) })
		if err != nil {
			return nil, fail("read", path, err)
		}
		if data = data[:len(data)+n]; len(data) > most {
			return nil, fail("read", path, tooLong(most))
		}
		if n == 0 || record && n < len(room) {
			return data, nil
		}
	}
}
