package ci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// GitHub writes what was found, and what is not known, as commands to GitHub's runner, which shows each next to its line. It shows ten
// warnings and ten errors of a step, so the worst come first.
func GitHub(w io.Writer, checks []report.Check) error {
	found := worstFirst(printable(checks))
	var b strings.Builder
	for _, c := range found {
		command, title, text := toldOf(c)
		var properties []string
		add := func(name, value string) { properties = append(properties, name+"="+escapedProperty(value)) }
		if c.Place.File != "" {
			add("file", plain.Line(c.Place.File))
			for _, n := range []struct {
				name  string
				value int
			}{{"line", c.Place.Line}, {"endLine", c.Place.EndLine}, {"col", c.Place.Column}} {
				if n.value > 0 && (n.name != "col" || c.Place.EndLine <= c.Place.Line) { // columns are for one line only
					add(n.name, fmt.Sprint(n.value))
				}
			}
		}
		add("title", title)
		fmt.Fprintf(&b, "::%s %s::%s\n", command, strings.Join(properties, ","), escaped(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// toldOf is how a check is reported: a command, a title, and the words.
func toldOf(c report.Check) (command, title, text string) {
	if c.Unknown != "" {
		return "warning", "not known", notKnown(c)
	}
	f := c.Found
	command = map[finding.Severity]string{finding.Info: "notice", finding.Warning: "warning", finding.Critical: "error"}[f.Severity]
	text = c.About + ": " + f.Summary
	if more := details(f); more != "" {
		text += "\n" + more
	}
	return command, strings.TrimSpace(f.Rule + " " + f.Verdict), text
}

// notKnown says what is neither right nor wrong, and why.
func notKnown(c report.Check) string { return c.About + ": " + c.Name + ": not known: " + c.Unknown }

// escaped makes a text the message of a command.
func escaped(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// escapedProperty makes a text the value of one of its properties.
func escapedProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escaped(text))
}

// worstFirst are the checks that say something. What is not known comes after the warnings, and before what is good to know.
func worstFirst(checks []report.Check) (found []report.Check) {
	for _, c := range checks {
		if c.Found != nil || c.Unknown != "" {
			found = append(found, c)
		}
	}
	rank := func(c report.Check) int {
		if c.Unknown != "" {
			return 2*int(finding.Warning) - 1
		}
		return 2 * int(c.Found.Severity)
	}
	slices.SortStableFunc(found, func(a, b report.Check) int { return rank(b) - rank(a) })
	return found
}

// GitLab writes a Code Quality report. It is about files only: what was found outside files is left out. What is not known and in no file
// is reported for the repository, as a report without it would say that all is well.
func GitLab(w io.Writer, checks []report.Check) error {
	type lines struct {
		Begin int `json:"begin"`
	}
	type location struct {
		Path  string `json:"path"`
		Lines lines  `json:"lines"`
	}
	type issue struct {
		Description string   `json:"description"`
		CheckName   string   `json:"check_name"`
		Fingerprint string   `json:"fingerprint"`
		Severity    string   `json:"severity"`
		Location    location `json:"location"`
	}
	issues := []issue{}
	times := map[string]int{} // GitLab shows one of those with the same fingerprint
	for _, c := range checks {
		i := issue{Location: location{c.Place.File, lines{max(1, c.Place.Line)}}}
		switch {
		case c.Unknown != "":
			i.Description, i.CheckName, i.Severity = notKnown(c), unknownRule, "minor"
			i.Location.Path = cmp.Or(c.Place.File, ".")
		case c.Found == nil || c.Place.File == "":
			continue
		default:
			i.Description, i.CheckName = c.About+": "+c.Found.Summary, c.Found.Rule
			i.Severity = map[finding.Severity]string{finding.Info: "info", finding.Warning: "major", finding.Critical: "critical"}[c.Found.Severity]
		}
		key := c.Key
		if key == "" {
			key = c.About + "\n" + i.CheckName + "\n" + strings.TrimPrefix(i.Description, c.About+": ")
		}
		if times[key]++; times[key] > 1 {
			key += fmt.Sprintf("\n%d", times[key])
		}
		i.Fingerprint = hashed(key)
		issues = append(issues, i)
	}
	return jsonTo(w, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(issues)
	})
}
