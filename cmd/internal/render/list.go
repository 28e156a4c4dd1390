package render

import (
	"fmt"
	"html/template"
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

// Wrapped writes a document that is text as a page of HTML, or for Markdown.
func Wrapped(w io.Writer, format, text string) error {
	if format == "md" {
		_, err := fmt.Fprintf(w, "```\n%s```\n", text)
		return err
	}
	return template.Must(template.New("").Parse(wrappedPage)).Execute(w, text)
}

const wrappedPage = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>unthrottle</title>
<style>body { margin: 2rem; } pre { white-space: pre-wrap; font: 0.95rem/1.5 ui-monospace, monospace; }</style>
<pre>{{.}}</pre>
</html>
`
