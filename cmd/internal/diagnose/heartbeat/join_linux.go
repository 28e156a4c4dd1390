package heartbeat

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// readOnly is the error of a file in a container's own view of its groups.
const readOnly = unix.EROFS

// joinUnmounted moves a process into the group of another one where all mounts of the groups are read-only, as in a container. It takes
// CAP_SYS_ADMIN and the host's cgroup namespace, which a privileged container has. The hierarchy is opened again, and mounted nowhere, so
// no other process sees it.
func joinUnmounted(l cgroup.Limits, pid int, beat []byte) error {
	kind, controllers := "cgroup2", ""
	if l.Version == cgroup.V1 {
		kind = "cgroup"
		var err error
		if controllers, err = withCPU(pid); err != nil {
			return err
		}
	}
	hierarchy, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("opening the groups: %w", err)
	}
	defer unix.Close(hierarchy)
	for controller := range strings.SplitSeq(controllers, ",") {
		if controller == "" {
			continue
		}
		if err := unix.FsconfigSetFlag(hierarchy, controller); err != nil {
			return fmt.Errorf("opening the groups of %s: %w", controller, err)
		}
	}
	if err := unix.FsconfigCreate(hierarchy); err != nil {
		return fmt.Errorf("opening the groups: %w", err)
	}
	root, err := unix.Fsmount(hierarchy, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the groups: %w", err)
	}
	defer unix.Close(root)
	file, err := unix.Openat(root, "."+l.Path+"/cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the group %s: %w", l.Path, err)
	}
	defer unix.Close(file)
	_, err = unix.Write(file, beat)
	return err
}

// withCPU are the controllers of the version 1 hierarchy that has cpu, as the process's list names them.
func withCPU(pid int) (string, error) {
	text, err := foreign.ReadRecord("", fmt.Sprintf("/proc/%d/cgroup", pid), foreign.Group)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		field := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(field) == 3 && strings.Contains(","+field[1]+",", ",cpu,") {
			return field[1], nil
		}
	}
	return "", fmt.Errorf("process %d is in no group with the cpu controller", pid)
}
