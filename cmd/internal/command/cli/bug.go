package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/bug"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/inspect"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

const bugHelp = `Pack everything that a report of a wrong answer needs into one text file.

Usage:
  unthrottle bug [FLAGS]                    about programs started from this shell
  unthrottle bug [FLAGS] PID | NAME | URL   about a running process

{{flags}}

The file contains what explain says about the process, and the files of /proc and of its cgroups that this is based on. It
contains none of the program's arguments, and only those environment variables that affect how Go uses CPUs. It is plain
text: read it before you send it.

Exit codes:
  0 done   1 failed   2 usage   130 interrupted

Example:
  unthrottle bug myserver
`

func newBug(stdio IO) *cobra.Command {
	return verb.New("bug", bugHelp, func(l *verb.Flags) func(context.Context, []string) error {
		var path, root string
		flags := l.Section("Flags:")
		flags.StringVarP(&path, "output", "o", "", "F\twrite to file F (unthrottle-bug-PID.txt)")
		flags.StringVar(&root, "root", "", "DIR\tread /proc and /sys below DIR: another system's mounts")
		return func(ctx context.Context, args []string) (err error) {
			if len(args) > 1 {
				return hint.Usage("unthrottle bug myserver", "bug takes one process, got %d arguments", len(args))
			}
			pid, of, again := 0, "self", ""
			if len(args) == 1 {
				if pid, err = procs.FindOne(root, args[0]); err != nil {
					return err
				}
				of = strconv.Itoa(pid)
				again = " " + of
			}
			path = cmp.Or(path, "unthrottle-bug-"+of+".txt")
			out, err := verb.NewOutput(path, stdio.Out)
			if err != nil {
				return err
			}
			text, files, err := bugReport(ctx, root, pid, of, again)
			if err == nil {
				_, err = io.WriteString(out.W, text)
			}
			if err = out.Finish(err); err != nil {
				return err
			}
			return bugList(stdio.Out, path, len(text), files)
		}
	})
}

// bugReport makes the report of a process, after it has looked at it.
func bugReport(ctx context.Context, root string, pid int, of, again string) (text string, files []bug.File, err error) {
	look := time.Duration(0)
	if pid != 0 && root == "" {
		look = time.Second
	}
	facts, err := inspect.Process(ctx, root, pid, look)
	if err != nil {
		return "", nil, err
	}
	if files, err = bugFiles(facts, root, pid); err != nil {
		return "", nil, err
	}
	about := fmt.Sprintf("What \"unthrottle bug\" found of process %s on %s. The files below, unpacked into a directory DIR, are what\n"+
		"\"unthrottle explain --root DIR%s\" reads.\n", of, verb.Now(), again)
	return bug.Text(about, files), files, nil
}

// bugFiles are what is in a report: what was made for it first.
func bugFiles(f report.Facts, root string, pid int) ([]bug.File, error) {
	if command := f.Process.Command; len(command) > 1 {
		f.Process.Command = []string{command[0], "…"}
	}
	e := report.NewExplain(f)
	e.Header = verb.NewHeader("explain")
	var text, document bytes.Buffer
	if err := render.Text(&text, view.Explain(e), render.Style{Width: 120}); err != nil {
		return nil, err
	}
	if err := report.WriteJSON(&document, e); err != nil {
		return nil, err
	}
	here := trial.Environment()
	system := fmt.Sprintf("%skernel %s, %d CPUs, user %d\n", verb.VersionText("unthrottle"), cmp.Or(here.Kernel, "not known"), here.CPUs, os.Getuid())
	return append([]bug.File{
		{Name: "unthrottle/version.txt", Data: system},
		{Name: "unthrottle/explain.txt", Data: text.String()},
		{Name: "unthrottle/explain.json", Data: document.String()},
		{Name: "unthrottle/environment.txt", Data: bug.Environment(f.Process.Env)},
	}, bug.Collect(root, pid)...), nil
}

// bugList shows what is in a report.
func bugList(w io.Writer, path string, size int, files []bug.File) error {
	var text strings.Builder
	fmt.Fprintf(&text, "wrote %s, %s:\n", path, quantity.Bytes(int64(size)))
	for _, f := range files {
		fmt.Fprintf(&text, "  %s\n", f.Name)
	}
	fmt.Fprintf(&text, "It has none of the program's arguments, and of its environment only %s. Read it before you send it.\n", quantity.List(bug.Told()))
	_, err := io.WriteString(w, text.String())
	return err
}
