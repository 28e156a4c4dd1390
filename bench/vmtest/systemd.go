//go:build linux

package vmtest

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SystemdDir is where setup.sh unpacks Debian's systemd and what it needs.
const SystemdDir = KernelDir + "/systemd"

// FindSystemd returns the folder with systemd's files.
func FindSystemd() (string, error) {
	if err := readable(filepath.Join(SystemdDir, systemdProgram)); err != nil {
		return "", fmt.Errorf("finding systemd: %w", err)
	}
	return SystemdDir, nil
}

const systemdProgram = "usr/lib/systemd/systemd"

// systemdFiles are what the machine gets from the packages: files and whole
// folders. The libraries that the programs are linked with come on their own. A
// name that a version of systemd does not have is left out. There is no journal, no
// udev, no logind and no PAM, and none of the targets wants a unit that they would
// need.
var systemdFiles = []string{
	systemdProgram,
	"usr/lib/systemd/systemd-executor", // since 254
	"usr/bin/systemctl",
	"usr/bin/systemd-run",
	"usr/bin/dbus-daemon",
	"usr/bin/dash",
	"usr/bin/true",
	"usr/bin/cat",
	"usr/bin/sleep",
	"usr/share/dbus-1",
	"usr/lib/systemd/user",
	"usr/lib/systemd/system/user@.service",
	"usr/lib/systemd/system/user-.slice.d",
	"usr/lib/systemd/system/user.slice",
	"usr/lib/systemd/system/dbus.service",
	"usr/lib/systemd/system/dbus.socket",
	"usr/lib/systemd/system/sysinit.target",
	"usr/lib/systemd/system/basic.target",
	"usr/lib/systemd/system/sockets.target",
	"usr/lib/systemd/system/paths.target",
	"usr/lib/systemd/system/slices.target",
	"usr/lib/systemd/system/timers.target",
	"usr/lib/systemd/system/shutdown.target",
}

// systemdConfig is what the machine has of its own.
var systemdConfig = map[string]string{
	"etc/machine-id": "00000000000000000000000000000001\n",
	"etc/os-release": "ID=vmtest\n",
	"etc/passwd": "root:x:0:0::/tmp:/bin/sh\nmessagebus:x:100:100::/tmp:/bin/sh\n" +
		"delegated:x:1000:1000::/tmp:/bin/sh\nbare:x:1001:1001::/tmp:/bin/sh\n",
	"etc/group": "root:x:0:\nmessagebus:x:100:\ndelegated:x:1000:\nbare:x:1001:\n",

	// The tests. The machine ends with them, also when guestinit could not. The weight is for a service next to which root may make groups
	// with a limit: without one, systemd takes the controller from a slice when nothing in it needs it.
	"etc/systemd/system/vmtest.service": `[Unit]
DefaultDependencies=no
Wants=dbus.service
After=dbus.socket
FailureAction=poweroff-force
SuccessAction=poweroff-force
[Service]
ExecStart=` + guestinit + `
CPUWeight=100
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
`,

	// A user manager without what PAM and logind would have done for it: the
	// folder, and the variable that names it.
	"etc/systemd/system/user-runtime-dir@.service": `[Service]
Type=oneshot
RemainAfterExit=yes
User=%i
Slice=user-%i.slice
RuntimeDirectory=user/%i
RuntimeDirectoryMode=0700
ExecStart=/usr/bin/true
`,
	"etc/systemd/system/user@.service.d/vmtest.conf": `[Service]
PAMName=
Environment=XDG_RUNTIME_DIR=/run/user/%i
Delegate=
Delegate=pids memory cpu
`,
	// As systemd before 252, and some distributions still.
	"etc/systemd/system/user@1001.service.d/zz-no-cpu.conf": `[Service]
Delegate=
Delegate=pids memory
`,
}

// guestinit is where the machine with systemd has the program that is the first
// process of the other one.
const guestinit = "/guestinit"

// BuildSystemd is Build for a machine whose first process is the systemd in the
// folder tree.
func BuildSystemd(ctx context.Context, dir, tree string) (initramfs string, err error) {
	programs, err := buildPrograms(ctx, dir)
	if err != nil {
		return "", err
	}
	programs[guestinit] = programs["/init"]
	delete(programs, "/init")
	initramfs = filepath.Join(dir, "systemd.cpio")
	err = writeArchive(initramfs, func(c *cpioWriter) error {
		err := errors.Join(c.programs(programs), c.tree(tree, systemdFiles))
		c.config(systemdConfig)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", initramfs, err)
	}
	return initramfs, nil
}

// shellFiles are what the other machine gets from the packages: /bin/sh, by which
// `unthrottle run` guards an emulated limit.
var shellFiles = []string{"usr/bin/dash"}

// tree writes files and folders of an unpacked tree, the libraries that the programs
// among them are linked with, and the links that the tree's folders have. The shell
// is known as sh.
func (c *cpioWriter) tree(dir string, names []string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		c.symlink(name, "usr/"+name)
	}
	c.symlink("usr/bin/sh", "dash")
	files := map[string]bool{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				rel, _ := filepath.Rel(dir, path)
				files[rel] = true
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range slices.Collect(maps.Keys(files)) {
		if err := addLibraries(files, dir, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if target, err := os.Readlink(path); err == nil && !strings.Contains(name, ".so.") {
			c.symlink(name, target)
			continue
		}
		content, err := os.ReadFile(path) // a library by the name that programs have for it
		if err != nil {
			return err
		}
		c.file(name, int(info.Mode().Perm()), content)
	}
	return nil
}

// addLibraries adds to files what a program in the folder dir is linked with. Files
// of other kinds are skipped.
func addLibraries(files map[string]bool, dir, name string) error {
	f, err := elf.Open(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, p.Filesz)
		if _, err := p.ReadAt(loader, 0); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		// It is named by its way through a link, /lib64/ld-….so.2.
		files["usr"+strings.TrimRight(string(loader), "\x00")] = true
	}
	for _, library := range needed {
		found, err := findLibrary(dir, library)
		if err != nil {
			return fmt.Errorf("finding what %s needs: %w", name, err)
		}
		if !files[found] {
			files[found] = true
			if err := addLibraries(files, dir, found); err != nil {
				return err
			}
		}
	}
	return nil
}

func findLibrary(dir, library string) (name string, err error) {
	for _, folder := range []string{"usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/systemd", "usr/lib/systemd"} {
		name := filepath.Join(folder, library)
		if err = readable(filepath.Join(dir, name)); err == nil {
			return name, nil
		}
	}
	return "", err
}

func (c *cpioWriter) config(files map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c.file(name, 0o644, []byte(files[name]))
	}
}
