package cli

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/docs"
)

// ownFlags are verbs whose flags are not ours to describe: hey's, and those that users don't call.
var ownFlags = map[string]bool{"hey": true, "workload": true, "heartbeat": true}

// TestFlags holds every flag of every verb that is not hidden to a description, and to a line in the verb's help.
func TestFlags(t *testing.T) {
	root := newRoot(IO{})
	for _, cmd := range root.Commands() {
		if ownFlags[cmd.Name()] || cmd.Hidden {
			continue
		}
		help := cmd.Long
		if strings.Contains(help, verb.FlagsHere) {
			t.Errorf("%s: its flags are not in its help", cmd.Name())
		}
		_, codes, have := strings.Cut(help, "\nExit codes:\n")
		if !have && cmd.Name() != "version" && cmd.Name() != "completion" && cmd.Name() != "help" {
			t.Errorf("%s: its help has no exit codes", cmd.Name())
		}
		for _, asks := range []string{"fail-on", "fail-share", "slo"} {
			if cmd.LocalFlags().Lookup(asks) != nil && !strings.Contains(codes, "   3 ") {
				t.Errorf("%s: --%s ends with 3, which is not among its exit codes", cmd.Name(), asks)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden { // an old name of another
				return
			}
			if f.Usage == "" || strings.Contains(f.Usage, "\t") {
				t.Errorf("%s --%s: its description is %q", cmd.Name(), f.Name, f.Usage)
			}
			if !strings.Contains(help, "--"+f.Name+" ") && !strings.Contains(help, "--"+f.Name+"\n") && !strings.Contains(help, "--"+f.Name+",") && !strings.Contains(help, "--"+f.Name+":") {
				t.Errorf("%s --%s is not in its help", cmd.Name(), f.Name)
			}
		})
		for _, line := range strings.Split(help, "\n") {
			if n := len([]rune(line)); n > 130 {
				t.Errorf("%s: a line of its help has %d columns: %q", cmd.Name(), n, line)
			}
		}
	}
}

// TestDocuments holds each verb with --json to a document that report shows, and to a page in the list of documents.
func TestDocuments(t *testing.T) {
	contents, err := os.ReadFile("../../../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot(IO{}).Commands() {
		if cmd.Hidden || cmd.LocalFlags().Lookup("json") == nil {
			continue
		}
		if !slices.Contains(report.Verbs(), cmd.Name()) {
			t.Errorf("%s has --json, and readers in report/read.go has no document of it", cmd.Name())
		}
		if !strings.Contains(string(contents), "("+cmd.Name()+".md)") {
			t.Errorf("docs/README.md does not name the page of %s", cmd.Name())
		}
	}
}

// TestPages holds each verb to a page that says, or links to, what its exit codes mean.
func TestPages(t *testing.T) {
	elsewhere := map[string]string{"demo": "serve", "hey": "load", "report": "exit-codes", "bug": "exit-codes"}
	for _, cmd := range newRoot(IO{}).Commands() {
		if cmd.Hidden || !strings.Contains(cmd.Long, "\nExit codes:\n") {
			continue
		}
		name := cmp.Or(elsewhere[cmd.Name()], cmd.Name())
		page, ok := docs.Page(name + ".md")
		if !ok {
			t.Errorf("%s has no page", cmd.Name())
		}
		want := "](exit-codes.md)"
		if name == "exit-codes" {
			want = "`" + cmd.Name() + "`"
		}
		if !strings.Contains(page, want) {
			t.Errorf("%s: its page does not say %s", cmd.Name(), want)
		}
	}
}

// TestCompletion asks what a shell would ask.
func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"load", "--arrivals", ""}, "poisson\nconst\n"},
		{[]string{"run", "--limit-with", ""}, "auto\ncgroup\nsystemd\nemulate\n"},
		{[]string{"ps", "--fail-on", ""}, "info\nwarning\ncritical\n"},
		{[]string{"ps", "--verdict", ""}, "too many Ps\nlimit not seen\n"},
		{[]string{"explain", "--color", ""}, "auto\nalways\nnever\n"},
		{[]string{"report", "--format", ""}, "text\nclassic\njson\nhtml\n"},
		{[]string{"bench", "fi"}, "fib\t"},
		{[]string{"run", "--cpu"}, "--cpus\tCPU time per second: 0.5, 2, or 500m as in Kubernetes\n"},
		{[]string{"tune", "--objective", ""}, "p99\ncpu\nthroughput\ntime\n"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{cobra.ShellCompRequestCmd}, tt.args...)
		if code := Main(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &errs); code != verb.Done {
			t.Fatalf("%q: %d, %s", tt.args, code, &errs)
		}
		if !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%q is completed with %q, want %q", tt.args, out.String(), tt.want)
		}
	}
}
