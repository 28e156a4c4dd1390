package procs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Bound says what keeps a second instance of a server from running next to it, in a network of its own: a file that it, or what it has
// started, holds open for writing, or a peer that it is connected to. "" means that nothing was seen this time.
func Bound(root string, pid int) string {
	for _, p := range Descendants(root, pid) {
		if why := bound(root, p); why != "" {
			return why
		}
	}
	return ""
}

func bound(root string, pid int) string {
	t := foreign.Open(root)
	defer t.Close()
	dir := Dir("", pid)
	names, err := t.Names(dir+"/fd", foreign.Descriptors)
	if err != nil {
		return "what it has open can't be seen"
	}
	sockets := map[string]bool{}
	for _, name := range names {
		link, err := t.Link(dir + "/fd/" + name)
		switch {
		case err != nil: // it has been closed
		case strings.HasPrefix(link, "socket:["):
			sockets[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		case strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "/dev/") && !strings.HasSuffix(link, " (deleted)") && written(root, dir+"/fdinfo/"+name):
			return "it writes " + link
		}
	}
	return connected(root, dir, sockets)
}

// written reports whether an open file may be written to, by the line of its flags, which are octal. What can't be read may be.
func written(root, path string) bool {
	const accessMode, readOnly = 3, 0
	text, err := foreign.ReadRecord(root, path, foreign.Record)
	if err != nil {
		return true
	}
	for line := range bytes.Lines(text) {
		if digits, ok := bytes.CutPrefix(line, []byte("flags:")); ok {
			flags, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 8, 64)
			return err != nil || flags&accessMode != readOnly
		}
	}
	return true
}

// connected says what a process with these sockets is connected to, besides the clients of a port where it listens.
func connected(root, dir string, sockets map[string]bool) string {
	type end struct{ local, remote string }
	var ends []end
	listens := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		eachSocket(root, dir+"/net/"+table, func(fields []string) {
			const established, listening = "01", "0A"
			if len(fields) < 10 || !sockets[fields[9]] {
				return
			}
			local, remote := port(fields[1]), port(fields[2])
			switch {
			case fields[3] == listening:
				listens[local] = true
			case fields[3] == established && remote != "0":
				ends = append(ends, end{local, remote})
			}
		})
	}
	for _, e := range ends {
		if !listens[e.local] {
			return "it is connected to a port " + e.remote
		}
	}
	why := ""
	eachSocket(root, dir+"/net/unix", func(fields []string) {
		const connected = "03"
		if len(fields) < 7 || fields[5] != connected || !sockets[fields[6]] {
			return
		}
		if why = "it is connected by a Unix socket"; len(fields) > 7 {
			why += fmt.Sprintf(", %s", fields[7])
		}
	})
	return why
}

// port is that of an address in such a table.
func port(address string) string {
	n, err := strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 16, 16)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
