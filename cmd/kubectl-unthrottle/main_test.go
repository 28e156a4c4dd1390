package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/cli"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "__render" { // what a test in this process has asked for
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		"kubectl-unthrottle": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       exits,
			"taken":       taken,
			"certificate": certificate,
			"cluster":     fakeCluster,
		},
	})
}

// exits runs a command and holds it to its exit code: exits CODE COMMAND [ARGS].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS]")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = err.Error()[len("exit status "):]
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// TestOwnManifests: what we tell others to do, we do.
func TestOwnManifests(t *testing.T) {
	run := func(stdin string, args ...string) (code int, stdout string) {
		var out, err bytes.Buffer
		code = cli.Main(t.Context(), args, func(string) string { return "" }, strings.NewReader(stdin), &out, &err)
		if err.Len() > 0 {
			t.Log(err.String())
		}
		return code, out.String()
	}
	code, manifests := run("", "install", "--dry-run")
	if code != 0 {
		t.Fatal("install --dry-run: exit code ", code)
	}
	for _, args := range [][]string{{"lint", "-"}, {"lint", "../../deploy/webhook"}} {
		if code, said := run(manifests, args...); code != 0 || !strings.HasPrefix(said, "No findings in 1 workload.") {
			t.Errorf("%q: exit code %d\n%s", args, code, said)
		}
	}
}
