package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inBothWays runs a test with the kernel's openat2, where there is one, and by hand.
func inBothWays(t *testing.T, run func(t *testing.T, open func(root string) *Tree)) {
	for _, hand := range []bool{false, true} {
		t.Run(map[bool]string{false: "openat2", true: "by hand"}[hand], func(t *testing.T) {
			if !hand && !hasOpenat2() {
				t.Skip("this kernel has no openat2, or it is refused")
			}
			run(t, func(root string) *Tree {
				tree := Open(root)
				tree.hand = hand
				t.Cleanup(tree.Close)
				return tree
			})
		})
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// ends fails where something goes on for ever.
func ends(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		buf := make([]byte, 1<<16)
		t.Fatalf("it does not end\n%s", buf[:runtime.Stack(buf, true)])
	}
}

// allocates is how many bytes something allocates.
func allocates(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRead reads what a process may have put into its own tree. Next to the tree is a file of the reader's.
func TestRead(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		dir := t.TempDir()
		root := filepath.Join(dir, "root")
		in := func(name string) string { return filepath.Join(root, name) }
		must(t,
			os.MkdirAll(in("a/b"), 0o755),
			os.WriteFile(filepath.Join(dir, "secret"), []byte("the reader's\n"), 0o644),
			os.WriteFile(in("secret"), []byte("its own\n"), 0o644),
			os.WriteFile(in("a/b/file"), []byte("text\n"), 0o644),
			os.WriteFile(in("a/most"), make([]byte, 1000), 0o644),
			os.WriteFile(in("a/large"), make([]byte, 1001), 0o644),
			os.WriteFile(in("a/empty"), nil, 0o644),
			os.WriteFile(in("a/sparse"), nil, 0o644), os.Truncate(in("a/sparse"), 1<<30),
			os.Symlink("b/file", in("a/link")),
			os.Symlink("/a/b", in("a/absolute")),
			os.Symlink("../secret", in("secret-above")),
			os.Symlink("../../../../../../../../../secret", in("a/climb")),
			os.Symlink(filepath.Join(dir, "secret"), in("a/outside")),
			os.Symlink("/dev/zero", in("a/zero")),
			os.Symlink("loop", in("a/loop")),
			os.Symlink("gone", in("a/dangling")),
			os.Symlink("/proc/self/root", in("a/magic")),
			os.Symlink("/", in("a/top")),
			syscall.Mkfifo(in("a/pipe"), 0o644),
		)
		socket, err := net.Listen("unix", in("a/s"))
		must(t, err)
		defer socket.Close()
		chain := in("chain0")
		must(t, os.WriteFile(chain, []byte("end\n"), 0o644))
		for i := 1; i <= 50; i++ {
			must(t, os.Symlink(fmt.Sprintf("chain%d", i-1), in(fmt.Sprintf("chain%d", i))))
		}
		for path, want := range map[string]any{
			"/a/b/file":                              "text\n",
			"/a/./b//file":                           "text\n",
			"/a/../a/b/../b/file":                    "text\n",
			"/../../../../secret":                    "its own\n",
			"/a/link":                                "text\n",
			"/a/absolute/file":                       "text\n",
			"/a/absolute/../link":                    "text\n",
			"/secret-above":                          "its own\n",
			"/a/climb":                               "its own\n",
			"/a/top/a/top/a/b/file":                  "text\n",
			"/a/outside":                             syscall.ENOENT,
			"/a/zero":                                syscall.ENOENT,
			"/a/loop":                                "links",
			"/a/dangling":                            syscall.ENOENT,
			"/a/magic/a/b/file":                      syscall.ENOENT,
			"/a/pipe":                                ErrNotRegular,
			"/a/s":                                   ErrNotRegular,
			"/a/b":                                   syscall.EISDIR,
			"/a/b/file/c":                            syscall.ENOTDIR,
			"/a/pipe/c":                              syscall.ENOTDIR,
			"/a/none":                                syscall.ENOENT,
			"/a/most":                                strings.Repeat("\x00", 1000),
			"/a/large":                               ErrTooLong,
			"/a/sparse":                              ErrTooLong,
			"/a/empty":                               "",
			"/chain30":                               "end\n",
			"/chain50":                               "links",
			strings.Repeat("/a/..", 800) + "/secret": "its own\n",
		} {
			ends(t, func() {
				tree := open(root)
				for _, read := range []func(string, int) ([]byte, error){tree.Read, tree.ReadRecord, tree.ReadGroup} {
					var data []byte
					var err error
					if n := allocates(func() { data, err = read(path, 1000) }); n > 2<<20 {
						t.Errorf("%.40s: allocates %d bytes", path, n)
					}
					switch want := want.(type) {
					case string:
						if want == "links" {
							if !errors.Is(err, syscall.ELOOP) && !errors.Is(err, errLinks) {
								t.Errorf("%.40s: %q, %v, want too many links", path, data, err)
							}
						} else if err != nil || string(data) != want {
							t.Errorf("%.40s: %q, %v, want %q", path, data, err, want)
						}
					case error:
						if !errors.Is(err, want) || data != nil {
							t.Errorf("%.40s: %q, %v, want %v", path, data, err, want)
						}
					}
				}
			})
		}
	})
}

// TestDevice checks that a device is not even opened: a pipe's other end would notice, and a device would act. Here the kernel's own list
// of what is open shows it, for a pipe that stands in for all that isn't a regular file.
func TestDevice(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		root := t.TempDir()
		must(t, syscall.Mkfifo(root+"/pipe", 0o666))
		if err := syscall.Mknod(root+"/null", syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			t.Logf("without a device: %v", err)
			must(t, syscall.Mkfifo(root+"/null", 0o666))
		}
		tree := open(root)
		for _, name := range []string{"/pipe", "/null"} {
			if _, err := tree.Read(name, 100); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: %v", name, err)
			}
			f, err := tree.Look(name)
			must(t, err)
			if _, err := f.Open(); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: %v", name, err)
			}
			f.Close()
		}
		// A writer that doesn't wait is refused while the pipe isn't open for reading.
		if fd, err := syscall.Open(root+"/pipe", syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err != syscall.ENXIO {
			t.Errorf("the pipe is open: %d, %v", fd, err)
		}
	})
}

// TestReplaced: what was looked at is what is opened, whatever is at its path by then.
func TestReplaced(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		root := t.TempDir()
		must(t, os.WriteFile(root+"/f", []byte("first"), 0o644))
		f, err := open(root).Look("/f")
		must(t, err)
		defer f.Close()
		must(t, os.Remove(root+"/f"), os.Symlink("/dev/zero", root+"/f"))
		r, err := f.Open()
		must(t, err)
		defer r.Close()
		buf := make([]byte, 10)
		if n, _ := r.Read(buf); string(buf[:n]) != "first" {
			t.Errorf("got %q", buf[:n])
		}
		id := f.ID
		must(t, os.Remove(root+"/f"), os.WriteFile(root+"/f", []byte("other"), 0o644))
		if now, err := open(root).Stat("/f"); err != nil || now == id {
			t.Errorf("another file has the same identity, %v", err)
		}
	})
}

// TestRace swaps a directory for a link out of the root while files below it are read.
func TestRace(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		dir := t.TempDir()
		root := dir + "/root"
		must(t, os.MkdirAll(root+"/d/e", 0o755), os.MkdirAll(dir+"/out/e", 0o755), os.WriteFile(root+"/d/e/f", []byte("in"), 0o644),
			os.WriteFile(dir+"/out/e/f", []byte("out"), 0o644), os.Symlink(dir+"/out", root+"/link"), os.Symlink("../out", root+"/up"))
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				link := []string{"/link", "/up"}[i%2]
				os.Rename(root+"/d", root+"/aside")
				os.Rename(root+link, root+"/d")
				os.Rename(root+"/d", root+link)
				os.Rename(root+"/aside", root+"/d")
			}
		}()
		tree, in := open(root), 0
		for i, end := 0, time.Now().Add(20*time.Second); i < 3000 || in == 0 && time.Now().Before(end); i++ {
			data, err := tree.Read("/d/e/../e/f", 100)
			if err == nil && string(data) != "in" {
				t.Errorf("read %q", data)
				break
			}
			if err == nil {
				in++
			}
		}
		close(stop)
		<-stopped
		if in == 0 {
			t.Error("it was never read")
		}
	})
}

// TestLease: a process with a lease on a file is notified when another one opens it, and may make that one wait for 45 seconds.
func TestLease(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		root := t.TempDir()
		f, err := os.Create(root + "/f")
		must(t, err)
		defer f.Close()
		signals := make(chan struct{})
		defer close(signals)
		const setLease, setSignal = 1024, 10
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setSignal, uintptr(syscall.SIGCHLD)); errno != 0 { // harmless, unlike SIGIO
			t.Skip(errno)
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, syscall.F_WRLCK); errno != 0 {
			t.Skipf("no lease: %v", errno)
		}
		before := time.Now()
		if _, err := open(root).Read("/f", 100); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("got %v after %v", err, time.Since(before))
		}
	})
}

// TestSystem reads this system's own files.
func TestSystem(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		self := fmt.Sprintf("/proc/%d", os.Getpid())
		for _, root := range []string{"", "/"} {
			tree := open(root)
			if text, err := tree.ReadRecord(self+"/stat", Record); err != nil || !strings.HasPrefix(string(text), fmt.Sprint(os.Getpid())) {
				t.Errorf("stat: %q, %v", text, err)
			}
			exe, err := os.Readlink("/proc/self/exe")
			must(t, err)
			if link, err := tree.Link(self + "/exe"); err != nil || link != exe {
				t.Errorf("%q, %v", link, err)
			}
			f, err := tree.Look(self + "/exe")
			must(t, err)
			id, err := tree.Stat(self + "/exe")
			if err != nil || id != f.ID {
				t.Errorf("two identities of a program, %v", err)
			}
			r, err := f.Open()
			must(t, err)
			head := make([]byte, 4)
			if _, err := r.ReadAt(head, 0); err != nil || string(head) != "\x7fELF" {
				t.Errorf("%q, %v", head, err)
			}
			r.Close()
			f.Close()
			if through, err := tree.Read(self+"/root"+exe, 100); !errors.Is(err, ErrTooLong) {
				t.Errorf("%d bytes, %v", len(through), err)
			}
			if names, err := tree.Names(self+"/task", Threads); err != nil || len(names) == 0 {
				t.Errorf("%q, %v", names, err)
			}
			if _, err := tree.Names("/proc", 3); !errors.Is(err, ErrTooLong) {
				t.Errorf("got %v", err)
			}
			if _, err := tree.Read("/proc/999999999/stat", Record); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
			if _, err := tree.Read("/proc/999999999/root/etc/passwd", Record); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
			if _, err := tree.ReadGroup(self+"/root/proc/self/stat", Group); !errors.Is(err, ErrNotGroup) {
				t.Errorf("got %v", err)
			}
			if err := tree.Mount(self + "/root" + t.TempDir()); !errors.Is(err, ErrNotGroup) {
				t.Errorf("got %v", err)
			}
			r2, w, err := os.Pipe()
			must(t, err)
			if _, err := tree.Read(fmt.Sprintf("%s/fd/%d", self, r2.Fd()), 10); !errors.Is(err, ErrNotRegular) {
				t.Errorf("a pipe: %v", err)
			}
			r2.Close()
			w.Close()
		}
		// The same through a root that isn't this system's by name.
		link := t.TempDir() + "/host"
		must(t, os.Symlink("/", link))
		tree := open(link)
		if !tree.isLive() {
			t.Error("a root with the kernel's /proc is not taken for a running system")
		}
		if f, err := tree.Look(self + "/exe"); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		if _, err := tree.ReadGroup(self+"/root/etc/passwd", Group); !errors.Is(err, ErrNotGroup) {
			t.Errorf("got %v", err)
		}
	})
}

// TestGroup reads a real cgroup.
func TestGroup(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	point := ""
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup") && point == "" {
			point = fields[4]
		}
	}
	if point == "" {
		t.Skip("no cgroups are mounted here")
	}
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		for _, prefix := range []string{"", fmt.Sprintf("/proc/%d/root", os.Getpid())} {
			tree := open("")
			for i := 0; i < 2; i++ { // without the mount point, and with it
				if text, err := tree.ReadGroup(prefix+point+"/cgroup.procs", Members); err != nil {
					t.Errorf("%q, %v", text, err)
				}
				if _, err := tree.ReadGroup(prefix+point+"/none", Group); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("got %v", err)
				}
				if _, err := tree.ReadGroup(prefix+point, Group); err == nil {
					t.Error("a directory was read")
				}
				must(t, tree.Mount(prefix+point))
			}
			var st syscall.Stat_t
			must(t, syscall.Stat(point, &st))
			if way, err := tree.Find(newID(&st), prefix+point, 0, 10); err != nil || way == nil || len(way) > 0 {
				t.Errorf("%q, %v", way, err)
			}
			st.Ino++
			if way, err := tree.Find(newID(&st), prefix+point, 40, 1<<16); err != nil || way != nil {
				t.Errorf("%q, %v", way, err)
			}
		}
	})
}

// TestFind looks for a directory among more than it may look at.
func TestFind(t *testing.T) {
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		root := t.TempDir()
		for i := 0; i < 30; i++ {
			must(t, os.MkdirAll(fmt.Sprintf("%s/g/d%d/e", root, i), 0o755))
		}
		must(t, os.MkdirAll(root+"/g/d7/f", 0o755), os.Symlink("..", root+"/g/up"))
		var st syscall.Stat_t
		must(t, syscall.Stat(root+"/g/d7/f", &st))
		tree := open(root)
		if way, err := tree.Find(newID(&st), "/g", 2, 100); err != nil || strings.Join(way, "/") != "d7/f" {
			t.Errorf("%q, %v", way, err)
		}
		st.Ino = 1
		if way, err := tree.Find(newID(&st), "/g", 2, 100); err != nil || way != nil {
			t.Errorf("%q, %v", way, err)
		}
		if _, err := tree.Find(newID(&st), "/g", 2, 20); !errors.Is(err, ErrTooLong) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDescriptors checks that none is left open.
func TestDescriptors(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(names)
	}
	inBothWays(t, func(t *testing.T, open func(string) *Tree) {
		root := t.TempDir()
		must(t, os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/f", []byte("f"), 0o644), os.Symlink("/a/../a/b/../f", root+"/l"),
			os.Symlink("x", root+"/x"), syscall.Mkfifo(root+"/p", 0o644))
		before := count()
		for i := 0; i < 20; i++ {
			for _, dir := range []string{root, ""} {
				tree := open(dir)
				for _, path := range []string{"/a/f", "/l", "/x", "/p", "/a", "/none/../..", "/a/f/..", "/proc/1/root/none", "/proc/self/root/etc", "/etc/passwd"} {
					tree.Read(path, 100)
					tree.Read(path, 0)
					tree.ReadGroup(path, 100)
					tree.Mount(path)
					tree.Names(path, 1)
					tree.Link(path)
					tree.Stat(path)
				}
				tree.Close()
			}
		}
		if after := count(); after > before {
			t.Errorf("%d descriptors, %d before", after, before)
		}
	})
}

func TestSplit(t *testing.T) {
	for path, want := range map[string][2]string{
		"/proc/7/root/sys":     {"/proc/7/root", "/sys"},
		"/proc/7/root":         {"/proc/7/root", ""},
		"/proc/self/root/a/..": {"/proc/self/root", "/a/.."},
		"/proc/7/rooted":       {"", "/proc/7/rooted"},
		"/proc/x/root/a":       {"", "/proc/x/root/a"},
		"/proc//root/a":        {"", "/proc//root/a"},
		"/sys":                 {"", "/sys"},
		"":                     {"", ""},
	} {
		if process, rest := split(path); process != want[0] || rest != want[1] {
			t.Errorf("%s: %q and %q", path, process, rest)
		}
	}
}

func TestIsKernels(t *testing.T) {
	for path, want := range map[string]bool{
		"/proc/stat": true, "/proc/7/stat": true, "/proc/7/task": true, "/proc/7/task/8/schedstat": true, "/proc/net/tcp": true, "/proc/7/fd": true, "/proc": false,
		"/proc/7/exe": false, "/proc/7/root/a": false, "/proc/7/cwd/a": false, "/proc/7/fd/3": false, "/proc/7/map_files/1-2": false, "/proc/7/task/8/root/x": false,
		"/proc/self/exe": false, "/proc/7/../7/stat": false, "/sys/x": false, "/proc/7/stat/..": false, "/proc/7/task/8/exe": false, "/proc/7": true,
	} {
		if got := isKernels(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// FuzzWalk compares the two ways of following a path through the same tree.
func FuzzWalk(f *testing.F) {
	if !hasOpenat2() {
		f.Skip("this kernel has no openat2, or it is refused")
	}
	for _, path := range []string{"/a/b/file", "a/../..", "/l/../x", "/up/up/a", "//./a/", "/a/b/file/", "/abs/b", "/loop"} {
		f.Add(path)
	}
	root := f.TempDir()
	if err := errors.Join(os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/b/file", nil, 0o644), os.Symlink("a/b", root+"/l"), os.Symlink("../a", root+"/up"),
		os.Symlink("/a", root+"/abs"), os.Symlink("loop/x", root+"/loop"), os.Symlink("../../..", root+"/a/b/top")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if strings.HasPrefix(path, "/proc/") || len(path) > 2000 || strings.ContainsRune(path, 0) {
			return
		}
		var ids [2]ID
		var errs [2]error
		for i, hand := range []bool{false, true} {
			tree := Open(root)
			tree.hand = hand
			ids[i], errs[i] = tree.Stat(path)
			tree.Close()
		}
		if ids[0] != ids[1] || (errs[0] == nil) != (errs[1] == nil) {
			t.Errorf("%q: %v, %v by openat2 and %v, %v by hand", path, ids[0], errs[0], ids[1], errs[1])
		}
	})
}

// TestClimb: each ".." is gone through by hand from the root again, which a path of many would make slow.
func TestClimb(t *testing.T) {
	root := t.TempDir()
	deep := strings.Repeat("d/", 1000)
	must(t, os.MkdirAll(root+"/"+deep, 0o755))
	base, err := openat(atCWD, root, oPath|oDirectory)
	must(t, err)
	defer syscall.Close(base)
	if fd, err := walk(base, deep+strings.Repeat("../d/", 400), oPath); err != errDeep {
		syscall.Close(fd)
		t.Errorf("400 times up and down, 1,000 deep: %v", err)
	}
	fd, err := walk(base, deep+"../d", oPath)
	must(t, err)
	syscall.Close(fd)
}
