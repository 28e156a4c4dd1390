package sidecar

import (
	"strconv"
	"strings"
)

// parseOwner reads the effective user and group from the text of /proc/PID/status.
func parseOwner(text string) (uid, gid int, ok bool) {
	uid, gid = -1, -1
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 5 || fields[0] != "Uid:" && fields[0] != "Gid:" {
			continue
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil || n < 0 {
			return 0, 0, false
		}
		if fields[0] == "Uid:" {
			uid = n
		} else {
			gid = n
		}
	}
	return uid, gid, uid >= 0 && gid >= 0
}
