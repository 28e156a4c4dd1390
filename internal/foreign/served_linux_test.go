package foreign

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestServed(t *testing.T) {
	const mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n" +
		"30 22 0:40 / /mnt/bucket\\040- rw - fuse.gcsfuse bucket rw,user_id=0\n" +
		"31 22 0:41 / /a rw shared:7 master:3 - fuse a rw\n" +
		"32 22 0:42 / /b rw - virtiofs b rw\n" +
		"33 22 8:1 / /c rw - fuseblk /dev/sda1 rw\n" +
		"34 22 0:43 / /d rw - fusectl d rw\n" +
		"35 22 0:44 / /e rw - overlay fuse rw,lowerdir=/a\n" +
		"36 22"
	for mount, want := range map[uint64]bool{22: false, 30: true, 31: true, 32: true, 33: false, 34: false, 35: false, 36: false, 3: false, 99: false} {
		if got := isServed(mounts, mount); got != want {
			t.Errorf("mount %d: %v", mount, got)
		}
	}
}

// TestAsk: the process that opens a file in our place reports, and ends, regardless of its descriptors.
func TestAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("text"), 0o600))
	fd, err := openat(atCWD, path, oPath)
	must(t, err)
	defer syscall.Close(fd)
	for i := 0; i < 20; i++ {
		r, w, err := os.Pipe()
		must(t, err)
		pid, err := ask(fd, int(w.Fd()))
		must(t, err)
		w.Close()
		buf := make([]byte, 9)
		n, err := r.Read(buf)
		r.Close()
		if n != 1 || err != nil || buf[0] != 't' || !ended(pid) {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
}

// TestStat: what is known without asking the file system is what stat says, except for what a file system has changed since.
func TestStat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("text"), 0o640))
	for _, path := range []string{path, "/proc/self/exe", "/dev/null", "/proc/self", "/"} {
		var want syscall.Stat_t
		must(t, syscall.Stat(path, &want))
		got, err := stat(atCWD, path)
		if err != nil || got.ID != newID(&want) || got.mode != want.Mode || got.mount == 0 && !noStatx.Load() && statxNumber() != 0 && path != "/" {
			t.Errorf("%s: %+v, want %+v, %v", path, got, want, err)
		}
	}
	if _, err := stat(atCWD, path+"/none"); err != syscall.ENOTDIR {
		t.Error(err)
	}
	for dev, want := range map[[2]uint32]uint64{{254, 0}: 254 << 8, {0, 300}: 44 | 256<<12, {4095, 255}: 4095<<8 | 255} {
		if got := device(dev[0], dev[1]); got != want || major(got) != dev[0] {
			t.Errorf("device %v is %#x, want %#x", dev, got, want)
		}
	}
}

// TestProcessOf says whose files are whose.
func TestProcessOf(t *testing.T) {
	for path, want := range map[string]string{
		"/proc/7/exe": "/proc/7", "/proc/self/exe": "/proc/self", "/proc/7/root/etc/passwd": "/proc/7", "/proc/7": "", "/proc/stat": "", "/sys/fs/cgroup": "",
		"/proc/net/tcp": "",
	} {
		if got := processOf(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}
