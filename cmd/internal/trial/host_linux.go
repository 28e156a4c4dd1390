package trial

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithUs makes a process end with the thread that starts it, and so when we are killed.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// machine says what this machine is.
func machine() (kernel, cpu string, memory int64) {
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err == nil {
		memory = int64(info.Totalram) * int64(info.Unit)
	}
	return kernel, cpu, memory
}
