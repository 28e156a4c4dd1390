package golive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Files remembers what was read of programs' files, so that many processes of one program cost little more than one. The
// zero value remembers nothing yet. Several may open processes at a time.
type Files struct{ memo procs.Memo[read] }

// A read is what came of reading a file.
type read struct {
	code *code // never changed once it is remembered
	err  error // why it isn't there: ErrNotGo, or that the file is odd
}

// Forget drops the files that were not read since it was called last.
func (files *Files) Forget() { files.memo.Forget() }

// Keep remembers the file of a process that was opened before as if it were read again.
func (files *Files) Keep(p *Process) { files.memo.Keep(p.file, read{code: p.code}) }

// A Process is a running Go program. It is not safe for concurrent use.
type Process struct {
	pid     int
	files   *Files // nil once it is open
	file    procs.FileID
	code    *code
	mem     *os.File // of the program that ran at Open: after an exec it reads nothing
	noVM    bool     // process_vm_readv is of no use: refused, or the pid is another system's
	runtime *reader
}

// Open finds the Go runtime in the process pid below root ("" is "/"), 0 meaning the calling process. Errors are
// ErrNotGo, ErrExited, those of missing rights (fs.ErrPermission), and others where the runtime can't be found.
func Open(root string, pid int) (*Process, error) { return new(Files).Open(root, pid) }

// Open is Open for one of many processes. It may wait for the kernel for ever.
func (files *Files) Open(root string, pid int) (*Process, error) {
	dir := procs.Dir("", pid)
	t := foreign.Open(root)
	defer t.Close()
	p := &Process{pid: pid, files: files, noVM: strings.Trim(root, "/") != ""}
	if pid == 0 {
		p.pid = os.Getpid()
	}
	err := p.open(t, dir)
	p.files = nil
	if err != nil {
		err = p.explain(t, dir, err)
		p.Close()
		return nil, fmt.Errorf("reading GOMAXPROCS of process %d: %w", pid, err)
	}
	return p, nil
}

func (p *Process) open(t *foreign.Tree, dir string) error {
	var err error
	if p.mem, err = t.File(dir + "/mem"); err != nil {
		return err
	}
	f, err := t.File(dir + "/maps")
	if err != nil {
		return err
	}
	maps, err := parseMaps(foreign.Bounded(f, foreign.Mappings))
	f.Close()
	if err != nil {
		return err
	}
	program, err := t.Look(dir + "/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	inode := program.Inode()
	path, _ := t.Link(dir + "/exe")
	var own []mapping
	for _, m := range maps {
		if m.path == path || m.inode == inode {
			own = append(own, m)
		}
	}
	if err = p.attach(program, own); !errors.Is(err, ErrNotGo) {
		return err
	}
	return p.openLibrary(t, dir, maps, inode)
}

// openLibrary looks for a Go library in a program of another language.
func (p *Process) openLibrary(t *foreign.Tree, dir string, maps []mapping, program uint64) error {
	const maxLibraries = 1024
	result, tried := ErrNotGo, map[uint64]bool{program: true}
	end := time.Now().Add(patience)
	for _, m := range maps {
		if time.Now().After(end) {
			break
		}
		if !m.exec || tried[m.inode] || len(tried) > maxLibraries {
			continue
		}
		tried[m.inode] = true
		f, err := openMapped(t, dir, m)
		if err != nil {
			continue
		}
		var own []mapping
		for _, x := range maps {
			if x.inode == m.inode && x.path == m.path {
				own = append(own, x)
			}
		}
		err = p.attach(f, own)
		f.Close()
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrNotGo) {
			result = err
		}
	}
	return result
}

// openMapped looks at a mapped file: by the mapping, or, where that takes more rights than there are, by its path as the process sees it.
// Another file may be there by now, or a link that leads to one, or a device: it is looked at before it is opened.
func openMapped(t *foreign.Tree, dir string, m mapping) (*foreign.File, error) {
	f, err := t.Look(fmt.Sprintf("%s/map_files/%x-%x", dir, m.start, m.end))
	if err == nil {
		if f.Inode() == m.inode {
			return f, nil
		}
		f.Close()
	}
	if f, err = t.Look(dir + "/root" + m.path); err != nil {
		return nil, err
	}
	// What has no device of its own, as btrfs and overlayfs, has another number there than in the list of mappings.
	if f.Inode() == m.inode && (unix.Major(f.Device) == 0 || unix.Major(f.Device) == m.major && unix.Minor(f.Device) == m.minor) {
		return f, nil
	}
	f.Close()
	return nil, fs.ErrNotExist
}

// attach finds the runtime of one file in memory.
func (p *Process) attach(file *foreign.File, maps []mapping) error {
	f, err := file.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	known, err := readFile(p.files, file.ID, f)
	if err != nil {
		return err
	}
	c := known.on(f)
	bias, ok := c.m.bias(maps, uint64(os.Getpagesize()))
	if !ok {
		return errors.New("its program is not among its mappings")
	}
	if p.runtime, err = newReader(c, p, bias); err != nil {
		return err
	}
	p.file, p.code = file.ID, known
	if c.learned(known) {
		c.m, c.tab.m = known.m, known.m
		p.code = c
		p.files.memo.Keep(file.ID, read{code: c})
	}
	p.runtime.m = known.m // it no longer reads the file
	return nil
}

// readFile reads a file, or remembers it. If err is ErrNotGo, it is not a Go program.
func readFile(files *Files, id procs.FileID, f *os.File) (*code, error) {
	found, ok := files.memo.Get(id)
	if !ok {
		found = readNew(f, id)
		files.memo.Keep(id, found)
	}
	return found.code, found.err
}

// readNew reads a file. What runs and is not an ELF file is not a Go program.
func readNew(f *os.File, id procs.FileID) read {
	m, err := readImage(f, id.Size())
	if err == nil {
		var c *code
		if c, err = readCode(m); err == nil {
			return read{code: c.on(nil)} // the file will be closed
		}
	}
	if !errors.Is(err, executable.ErrOdd) {
		err = ErrNotGo
	}
	return read{err: err}
}

// explain turns the error of a process that is gone into ErrExited, and that of a kernel thread into ErrNotGo.
func (p *Process) explain(t *foreign.Tree, dir string, err error) error {
	if errors.Is(err, syscall.ESRCH) || p.gone() {
		return ErrExited
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stat, statErr := t.ReadRecord(dir+"/stat", foreign.Record)
	if statErr != nil {
		return ErrExited
	}
	// "42 (name) Z …": a zombie no longer has a program, a kernel thread never had one.
	_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return ErrExited
	}
	return ErrNotGo
}

// Close lets go of the process. A nil Process may be closed.
func (p *Process) Close() error {
	if p == nil || p.mem == nil {
		return nil
	}
	return p.mem.Close()
}

// GoVersion is the version of Go that the program, or the library in it, was built by; "" when its file doesn't say.
func (p *Process) GoVersion() string { return p.runtime.m.version }

// GOMAXPROCS reads the value, and proves it: allp has that many Ps, each with its own number.
func (p *Process) GOMAXPROCS() (Value, error) {
	if err := p.runtime.sample(nil); err != nil {
		return Value{}, p.failed(err)
	}
	return Value{Procs: len(p.runtime.procs), How: p.runtime.v.how}, nil
}

// Sched reads the scheduler's state. The error is ErrNoSched where that isn't known for the program's Go version.
func (p *Process) Sched() (Sched, error) { return p.sched(true) }

// TrySched is Sched without patience: where the state can't be read at once, because it is being changed, there is an
// error. It is for samples that come again soon.
func (p *Process) TrySched() (Sched, error) { return p.sched(false) }

func (p *Process) sched(patient bool) (Sched, error) {
	s, err := p.runtime.schedule(patient)
	if err != nil {
		return Sched{}, p.failed(err)
	}
	return s, nil
}

// Collector reads what the garbage collector uses. The error is ErrNoSched where that isn't known for the program's Go version.
func (p *Process) Collector() (Collector, error) {
	c, err := p.runtime.collector()
	if err != nil {
		return Collector{}, p.failed(err)
	}
	return c, nil
}

func (p *Process) failed(err error) error {
	if errors.Is(err, ErrNoSched) {
		return err
	}
	if p.gone() {
		err = ErrExited
	}
	return fmt.Errorf("reading GOMAXPROCS of process %d: %w", p.pid, err)
}

// Runs reports whether the program that was opened still runs: it has neither ended nor become another through an exec.
func (p *Process) Runs() bool { return !p.gone() }

// gone reports whether the program that was opened no longer runs. Its memory then reads as an empty file.
func (p *Process) gone() bool {
	if p.mem == nil {
		return false
	}
	var b [1]byte
	_, err := p.mem.ReadAt(b[:], pageSize)
	return err == io.EOF
}

// ReadAt reads memory at an address.
func (p *Process) ReadAt(buf []byte, addr int64) (int, error) {
	if addr < 0 {
		return 0, syscall.EIO
	}
	return p.mem.ReadAt(buf, addr)
}

// readSpans is one call of process_vm_readv, and one short read that the same program still runs: the call takes a pid, so it would read
// the program that follows an exec.
func (p *Process) readSpans(buf []byte, spans []span) error {
	for _, s := range spans {
		if s.addr >= math.MaxInt64-uint64(s.size) {
			return syscall.EFAULT
		}
	}
	if p.noVM || strconv.IntSize == 32 {
		return p.readEach(buf, spans)
	}
	if err := p.readVector(buf, spans); err != nil {
		if !errors.Is(err, syscall.EFAULT) {
			p.noVM = true // refused, as by a seccomp filter
			return p.readEach(buf, spans)
		}
		if p.gone() {
			return ErrExited
		}
		return err
	}
	if p.gone() {
		return ErrExited
	}
	return nil
}

func (p *Process) readVector(buf []byte, spans []span) error {
	var remote [256]unix.RemoteIovec // the kernel takes 1024
	for len(spans) > 0 {
		n, size := min(len(spans), len(remote)), 0
		for i, s := range spans[:n] {
			remote[i] = unix.RemoteIovec{Base: uintptr(s.addr), Len: s.size}
			size += s.size
		}
		local := [1]unix.Iovec{{Base: &buf[0]}}
		local[0].SetLen(size)
		got, err := unix.ProcessVMReadv(p.pid, local[:], remote[:n], 0)
		if err != nil {
			return err
		}
		if got != size {
			return syscall.EFAULT
		}
		buf, spans = buf[size:], spans[n:]
	}
	return nil
}

func (p *Process) readEach(buf []byte, spans []span) error {
	for _, s := range spans {
		if _, err := p.mem.ReadAt(buf[:s.size], int64(s.addr)); err != nil {
			if err == io.EOF {
				return ErrExited
			}
			return syscall.EFAULT
		}
		buf = buf[s.size:]
	}
	return nil
}
