package fix

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// TestMain has garbage collected less often: these tests read thousands of small texts, and would spend more than half of their CPU time on
// that. How much they allocate is not changed by it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write what comes out into testdata")

// read reads a text as a file of its own.
func read(t testing.TB, data []byte) *manifest.Set {
	t.Helper()
	set, err := manifest.Read(context.Background(), manifest.Options{Stdin: bytes.NewReader(data)}, "-")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// known is what a Go version, or "", says.
func known(t testing.TB, version string) (k lint.Known) {
	t.Helper()
	if version == "" {
		return k
	}
	p, err := lint.ParseGo(version)
	if err != nil {
		t.Fatal(err)
	}
	k.Go = p
	return k
}

// fixed is a text and its decisions after fix.
func fixed(t testing.TB, data []byte, k lint.Known) ([]byte, *Plan) {
	t.Helper()
	set := read(t, data)
	p, err := Make(context.Background(), set, k)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Files) == 0 {
		return data, p
	}
	return p.Files[0].New, p
}

// decisions are what was decided, a line each.
func decisions(p *Plan) string {
	var b strings.Builder
	for _, d := range p.Decisions {
		b.WriteString(strings.Join(strings.Fields(d.Finding.Rule+" "+d.Finding.Container+": "+string(d.Remedy.Action)+" "+d.Remedy.Variable+" "+
			d.Remedy.Value+" "+d.Remedy.Resource), " "))
		if !d.Changes() {
			b.WriteString(", " + d.Remedy.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// cases are the texts of testdata/edits.txtar: NAME[@GO]/in.yaml, with NAME/want and NAME/decisions.
func cases(t testing.TB) (*txtar.Archive, map[string][]byte) {
	t.Helper()
	a, err := txtar.ParseFile("testdata/edits.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range a.Files {
		files[f.Name] = f.Data
	}
	return a, files
}

// bytesOf undoes what an archive can't hold: ␍ stands for a carriage return, and ␄ at the end for no line break there.
func bytesOf(data []byte) []byte {
	data = bytes.ReplaceAll(data, []byte("␍"), []byte("\r"))
	if cut, ok := bytes.CutSuffix(data, []byte("␄\n")); ok {
		return cut
	}
	return data
}

func shown(data []byte) []byte {
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("␍"))
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, "␄\n"...)
	}
	return data
}

func TestEdits(t *testing.T) {
	archive, files := cases(t)
	var out []txtar.File
	for _, f := range archive.Files {
		dir, base := path.Split(f.Name)
		if !strings.HasPrefix(base, "in.") {
			continue
		}
		t.Run(dir, func(t *testing.T) {
			_, version, _ := strings.Cut(strings.TrimSuffix(dir, "/"), "@")
			in := bytesOf(f.Data)
			got, p := fixed(t, in, known(t, version))
			check(t, in, got, p, known(t, version))
			text := shown(got)
			if bytes.Equal(got, in) {
				text = []byte("the same\n")
			}
			if *update {
				out = append(out, f, txtar.File{Name: dir + "want", Data: text}, txtar.File{Name: dir + "decisions", Data: []byte(decisions(p))})
				return
			}
			if want := files[dir+"want"]; !bytes.Equal(text, want) {
				t.Errorf("got\n%swant\n%s", text, want)
			}
			if want := string(files[dir+"decisions"]); decisions(p) != want {
				t.Errorf("decided\n%swant\n%s", decisions(p), want)
			}
		})
	}
	if *update {
		archive.Files = out
		if err := os.WriteFile("testdata/edits.txtar", txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
