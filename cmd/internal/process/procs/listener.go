package procs

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Listener finds the process that listens on a TCP port of this host. If several do, as after a fork, it is the one
// with the lowest pid.
func Listener(root string, port int) (pid int, err error) {
	inodes := map[string]bool{}
	var firstErr error
	for _, name := range []string{"tcp", "tcp6"} {
		if err := listening(root, "/proc/net/"+name, port, inodes); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	if len(inodes) == 0 {
		if firstErr != nil {
			return 0, firstErr
		}
		return 0, fmt.Errorf("nothing here listens on port %d", port)
	}
	pids, err := List(root)
	if err != nil {
		return 0, err
	}
	var found []int
	for _, pid := range pids {
		if holds(root, pid, inodes) {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("which process listens on port %d can't be seen: that takes its user or root", port)
	}
	return slices.Min(found), nil
}

// listening collects the sockets that listen on a port.
func listening(root, path string, port int, inodes map[string]bool) error {
	return eachListening(root, path, func(p int, inode string) {
		if p == port {
			inodes[inode] = true
		}
	})
}

// eachListening calls back for each listening socket. A line of /proc/net/tcp is
//
//	0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 …
//
// with local address and port, remote ones, the state (0A: listening), and in the tenth field the socket's inode.
func eachListening(root, path string, tell func(port int, inode string)) error {
	return eachSocket(root, path, func(fields []string) {
		if len(fields) < 10 || fields[3] != "0A" {
			return
		}
		_, digits, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(digits, 16, 16); err == nil {
			tell(int(n), "socket:["+fields[9]+"]")
		}
	})
}

// eachSocket calls back for each line of a table of sockets.
func eachSocket(root, path string, tell func(fields []string)) error {
	f, err := foreign.OpenFile(root, path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(foreign.Bounded(f, foreign.Sockets))
	for lines.Scan() {
		tell(strings.Fields(lines.Text()))
	}
	return lines.Err()
}

// holds reports whether a process has one of the sockets open.
func holds(root string, pid int, inodes map[string]bool) bool {
	return slices.ContainsFunc(openFiles(root, pid), func(link string) bool { return inodes[link] })
}

// openFiles are what the links of a process's open files say. There are none if it has ended, or belongs to another user.
func openFiles(root string, pid int) (links []string) {
	t := foreign.Open(root)
	defer t.Close()
	dir := Dir("", pid) + "/fd"
	names, _ := t.Names(dir, foreign.Descriptors)
	for _, name := range names {
		if link, err := t.Link(dir + "/" + name); err == nil {
			links = append(links, link)
		}
	}
	return links
}

// Ports lists the TCP ports on which a process or its descendants listen.
func Ports(root string, pid int) (ports []int, err error) {
	byInode := map[string]int{}
	for _, name := range []string{"tcp", "tcp6"} {
		if e := eachListening(root, "/proc/net/"+name, func(port int, inode string) { byInode[inode] = port }); e != nil && err == nil {
			err = e
		}
	}
	if len(byInode) == 0 {
		return nil, err
	}
	for _, p := range family(root, pid) {
		for _, link := range openFiles(root, p) {
			if port, listens := byInode[link]; listens && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	return ports, nil
}

// family is a process and those of its descendants that can be seen.
func family(root string, pid int) []int {
	children := map[int][]int{}
	pids, _ := List(root)
	for _, child := range pids {
		stat, err := foreign.ReadRecord(root, Dir("", child)+"/stat", foreign.Record)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), ") ") // its name may contain anything
		if fields := strings.Fields(rest); len(fields) > 1 {
			if parent, err := strconv.Atoi(fields[1]); err == nil {
				children[parent] = append(children[parent], child)
			}
		}
	}
	all := []int{pid}
	for i := 0; i < len(all) && i < 1<<16; i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
