package golive

import (
	"bufio"
	"debug/elf"
	"io"
	"strconv"
	"strings"
)

// A mapping is a part of a file that a process has mapped.
type mapping struct {
	start, end, offset uint64
	exec               bool
	inode              uint64
	major, minor       uint32 // of its device
	path               string
}

// maxMappings bounds how many mappings of files are kept; the kernel's own limit on all is 65530 by default.
const maxMappings = 1 << 16

// parseMaps reads the mappings of files in /proc/PID/maps. A line is
//
//	55d2c4a00000-55d2c4a45000 r-xp 00002000 08:01 131123 /usr/bin/name (deleted)
//
// with addresses, rights, offset in the file, device, inode and path.
func parseMaps(r io.Reader) ([]mapping, error) {
	var maps []mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() && len(maps) < maxMappings {
		m, ok := parseMapping(lines.Text())
		if ok && m.inode != 0 {
			maps = append(maps, m)
		}
	}
	return maps, lines.Err()
}

func parseMapping(line string) (m mapping, ok bool) {
	var fields [5]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(line, " ")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	var errs [4]error
	m.start, errs[0] = strconv.ParseUint(from, 16, 64)
	m.end, errs[1] = strconv.ParseUint(to, 16, 64)
	m.offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	m.major, m.minor = parseDevice(fields[3])
	m.inode, errs[3] = strconv.ParseUint(fields[4], 10, 64)
	m.exec = len(fields[1]) == 4 && fields[1][2] == 'x'
	m.path = strings.TrimLeft(line, " ")
	return m, errs == [4]error{} && m.start < m.end
}

// parseDevice reads "08:01", in hexadecimal digits.
func parseDevice(text string) (major, minor uint32) {
	first, second, _ := strings.Cut(text, ":")
	a, _ := strconv.ParseUint(first, 16, 32)
	b, _ := strconv.ParseUint(second, 16, 32)
	return uint32(a), uint32(b)
}

// bias is how far a file was moved from the addresses it gives. Each segment is mapped from the page its offset is in.
func (m *image) bias(maps []mapping, page uint64) (uint64, bool) {
	if m.Fixed {
		return 0, true
	}
	for _, p := range m.Loads {
		for _, x := range maps {
			if p.Filesz > 0 && x.offset == p.Off&^(page-1) && x.exec == (p.Flags&elf.PF_X != 0) {
				return x.start - p.Vaddr&^(page-1), true
			}
		}
	}
	return 0, false
}
