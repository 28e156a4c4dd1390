package render

import (
	"fmt"
	"io"
	"strings"
)

// WorkloadList writes a line for each workload: its name, what it does, and where it is from.
func WorkloadList(w io.Writer, rows [][3]string) error {
	var b strings.Builder
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "%s  %s\n%s  from: %s\n", pad(r[0], width), r[1], strings.Repeat(" ", width), r[2])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
