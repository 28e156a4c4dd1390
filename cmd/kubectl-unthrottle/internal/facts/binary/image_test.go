package binary

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// An item is a file of a layer: a regular one with contents, "-> x" a symbolic link, "=> x" a hard one, "/" a directory.
type item struct{ name, text string }

// small stands for a program where none needs to be read.
const small = "\x7fELF but not a program"

func layer(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range items {
		h := &tar.Header{Name: f.name, Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(f.text))}
		if to, ok := strings.CutPrefix(f.text, "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		} else if to, ok := strings.CutPrefix(f.text, "=> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
		} else if f.text == "/" {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(f.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(t testing.TB, data []byte, how string) []byte {
	t.Helper()
	var b bytes.Buffer
	switch how {
	case "gzip":
		w := gzip.NewWriter(&b)
		w.Write(data)
		w.Close()
	case "zstd":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	default:
		return data
	}
	return b.Bytes()
}

// A config is an image's configuration.
type config struct {
	Env             []string
	Entrypoint, Cmd []string
	WorkingDir      string
}

// layout are the files of an OCI layout. Each layer may be packed.
func layout(t testing.TB, c config, layers ...[]byte) (files []item) {
	t.Helper()
	add := func(data []byte) map[string]any {
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		files = append(files, item{"blobs/sha256/" + name, string(data)})
		return map[string]any{"digest": "sha256:" + name, "size": len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var list []any
	for _, l := range layers {
		list = append(list, add(l))
	}
	manifest := add(encode(map[string]any{"config": add(encode(map[string]any{"config": c})), "layers": list}))
	manifest["platform"] = map[string]any{"os": "linux", "architecture": runtime.GOARCH}
	foreign := map[string]any{"digest": "sha256:" + strings.Repeat("0", 64), "platform": map[string]any{"os": "windows", "architecture": "amd64"}}
	proof := map[string]any{"digest": "sha256:" + strings.Repeat("1", 64), "platform": map[string]any{"os": "unknown", "architecture": "unknown"}}
	index := add(encode(map[string]any{"manifests": []any{foreign, manifest}}))
	return append(files, item{"index.json", string(encode(map[string]any{"manifests": []any{proof, index}}))}, item{"oci-layout", "{}"})
}

// saved are the files that docker save writes.
func saved(t testing.TB, names []string, c config, layers ...[]byte) (files []item) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"config": c})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i, l := range layers {
		name := fmt.Sprintf("%d/layer.tar", i)
		files = append(files, item{name, string(l)})
		list = append(list, name)
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "RepoTags": names, "Layers": list}})
	if err != nil {
		t.Fatal(err)
	}
	return append(files, item{"c.json", string(text)}, item{"manifest.json", string(manifest)})
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// image is an image with this test's own program as /app.
func image(t testing.TB, name string) *Image {
	t.Helper()
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	l := packed(t, layer(t, item{"app", string(program)}), "gzip")
	c := config{Entrypoint: []string{"/app"}, Env: []string{"PATH=/bin", "GOMAXPROCS=3", "GOGC=50", "SECRET=x", "GOMAXPROCS=4"}}
	return open(t, write(t, "image.tar", layer(t, saved(t, []string{name}, c, l)...)), name)
}

func open(t testing.TB, path, name string) *Image {
	t.Helper()
	m, err := ReadImage(t.Context(), path, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The same image in all forms has the same program.
func TestForms(t *testing.T) {
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	c := config{Entrypoint: []string{"app"}, Env: []string{"PATH=/opt:/x", "GODEBUG=a=1"}}
	plain := layer(t, item{"opt/app", string(program)})
	forms := map[string]func() string{
		"OCI directory": func() string {
			dir := t.TempDir()
			for _, f := range layout(t, c, packed(t, plain, "gzip")) {
				path := filepath.Join(dir, f.name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(f.text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		},
		"OCI tarball, zstd layer": func() string { return write(t, "a.tar", layer(t, layout(t, c, packed(t, plain, "zstd"))...)) },
		"OCI tarball, gzip": func() string {
			return write(t, "a.tar.gz", packed(t, layer(t, layout(t, c, plain)...), "gzip"))
		},
		"docker save": func() string { return write(t, "a.tar", layer(t, saved(t, []string{"a"}, c, plain)...)) },
		"docker save with a linked layer": func() string {
			files := saved(t, []string{"a"}, c, plain)
			files[0].name = "x/layer.tar"
			return write(t, "a.tar", layer(t, append(files, item{"0/layer.tar", "-> ../x/layer.tar"})...))
		},
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			b := open(t, form(), "anything").Program(nil, nil)
			if !b.Go() || b.Unknown != "" || !strings.HasPrefix(b.From, "/opt/app in ") {
				t.Errorf("%+v", b)
			}
			if v, ok := b.Var("GODEBUG"); !ok || v != "a=1" {
				t.Errorf("GODEBUG: %q, %v", v, ok)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	b := image(t, "a").Program(nil, nil)
	if v, ok := b.Var("GOMAXPROCS"); !ok || v != "4" {
		t.Errorf("the last one counts, got %q, %v", v, ok)
	}
	if _, ok := b.Var("SECRET"); ok || len(b.Env) != 3 {
		t.Errorf("kept %+v", b.Env)
	}
}

// Several images in one file are distinguished by their names.
func TestSeveral(t *testing.T) {
	l := layer(t, item{"app", small})
	text := `[{"Config":"c.json","RepoTags":["a:1"],"Layers":["l"]},{"Config":"c.json","RepoTags":["b:1"],"Layers":["l"]}]`
	file := write(t, "a.tar", layer(t, item{"l", string(l)}, item{"c.json", "{}"}, item{"manifest.json", text}))
	open(t, file, "docker.io/library/b:1")
	if _, err := ReadImage(t.Context(), file, "c"); err == nil || !strings.Contains(err.Error(), `2 images, and none is called "c"`) {
		t.Errorf("got %v", err)
	}
}

func TestProgram(t *testing.T) {
	elf := func(name string) item { return item{name, small} }
	layers := [][]byte{
		layer(t, item{"bin", "-> usr/bin"}, elf("usr/bin/app"), elf("usr/bin/old"), elf("gone/x"), elf("opaque/x"),
			item{"usr/bin/dash", small}, elf("replaced"), item{"loop", "-> loop"}, item{"up", "-> ../../../../usr/bin/app"},
			item{"usr/bin/hard", "=> usr/bin/app"}, item{"usr/bin/sh", small}, item{"usr/bin/python3", small}, elf("was/dir/x"),
			item{"data", "-> usr/bin"}, item{"back", "=> nothing"}),
		layer(t, item{".wh.gone", ""}, item{"opaque/.wh..wh..opq", ""}, elf("opaque/y"), item{"usr/bin/.wh.old", ""},
			item{"was", "-> usr"}, item{"data", "/"}, item{"link", "-> /bin/app"}),
		layer(t,
			item{"exec.sh", "#!/bin/sh\nset -e\nexec /bin/app --flag \"$@\"\n"},
			item{"args.sh", "#!/usr/bin/env bash\n# a comment\nmkdir -p /x\nexec \"$@\"\n"},
			item{"tini.sh", "#!/bin/sh\nexec tini -- \"$@\""},
			item{"hard.sh", "#!/bin/sh\nif true; then app; fi\n"},
			item{"var.sh", "#!/bin/sh\nexec \"$APP\"\n"},
			item{"set.sh", "#!/bin/sh\nset -- app \"$@\"\nexec \"$@\"\n"},
			item{"procs.sh", "#!/bin/sh\nexport GOMAXPROCS=$(nproc)\nexec app\n"},
			item{"main.py", "#!/usr/bin/env python3\nprint()\n"},
			item{"self.sh", "#!/bin/sh\nexec /self.sh\n"},
			item{"bare", "#!"},
			item{"bare.sh", "#!/bin/sh"},
			elf("replaced2")),
	}
	c := config{Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"}, Env: []string{"PATH=/nowhere:/bin"}, WorkingDir: "/usr"}
	m := open(t, write(t, "a.tar", layer(t, layout(t, c, layers...)...)), "")
	const app = "/usr/bin/app"
	for _, c := range []struct {
		command, args []string
		want          string // the program's path, or why it is not known
	}{
		{nil, nil, app},
		{nil, []string{"x"}, app},
		{[]string{"app"}, nil, app},
		{[]string{"/bin/../bin/./app"}, nil, app},
		{[]string{"bin/app"}, nil, app}, // from the working directory
		{[]string{"/link"}, nil, app},
		{[]string{"/up"}, nil, app},
		{[]string{"/bin/hard"}, nil, "/usr/bin/hard"},
		{[]string{"/was/bin/app"}, nil, app},
		{[]string{"/was/dir/x"}, nil, `"/was/dir/x" is not in the image`},
		{[]string{"/data/app"}, nil, `"/data/app" is not in the image`},
		{[]string{"/opaque/y"}, nil, "/opaque/y"},
		{[]string{"/opaque/x"}, nil, `"/opaque/x" is not in the image`},
		{[]string{"/gone/x"}, nil, `"/gone/x" is not in the image`},
		{[]string{"/bin/old"}, nil, `"/bin/old" is not in the image`},
		{[]string{"/loop"}, nil, `"/loop" is not in the image`},
		{[]string{"/back"}, nil, "/nothing is a link to nothing"},
		{[]string{"$(APP)"}, nil, `"$(APP)" is made from variables`},
		{[]string{"tini", "-g", "-e", "143", "--", "app"}, nil, app},
		{[]string{"/sbin/dumb-init", "app", "-x"}, nil, app},
		{[]string{"su-exec", "nobody", "app"}, nil, app},
		{[]string{"tini"}, nil, "no entry point"},
		{[]string{"sh", "-c", "exec app --x"}, nil, app},
		{[]string{"/bin/sh", "-ec"}, []string{"app"}, app},
		{[]string{"sh", "-c", "app && other"}, nil, "its entry point is a shell script"},
		{[]string{"sh", "-c", "A=1 app"}, nil, "its entry point is a shell script"},
		{[]string{"sh", "-c", "cd /x\nexec app"}, nil, app},
		{[]string{"sh"}, nil, "its entry point is a shell"},
		{[]string{"sh", "/exec.sh"}, nil, app},
		{[]string{"sh", "/bin/app"}, nil, app + " is not a script"},
		{[]string{"/exec.sh"}, nil, app},
		{[]string{"/args.sh"}, []string{"app"}, app},
		{[]string{"/args.sh"}, []string{"-x"}, "its entry point is a shell script"},
		{[]string{"/tini.sh"}, []string{"app"}, app},
		{[]string{"/hard.sh"}, nil, "its entry point is a shell script"},
		{[]string{"/var.sh"}, nil, "its entry point is a shell script"},
		{[]string{"/set.sh"}, []string{"x"}, "its entry point is a shell script"},
		{[]string{"/procs.sh"}, nil, "its entry point is a shell script that speaks of GOMAXPROCS"},
		{[]string{"/main.py"}, nil, "/usr/bin/python3"},
		{[]string{"/self.sh"}, nil, "its starters start each other"},
		{[]string{"/bare"}, nil, "/bare has no interpreter"},
		{[]string{"/bare.sh"}, nil, "its entry point is a shell script"},
		{[]string{""}, nil, "no entry point"},
		{[]string{"/"}, nil, `"/" is not in the image`},
	} {
		b := m.Program(c.command, c.args)
		got := b.Unknown
		if b.Known {
			got = strings.TrimSuffix(b.From, " in a.tar")
		}
		if got != c.want || b.Known == (b.Unknown != "") {
			t.Errorf("%q %q:\n got %s\nwant %s", c.command, c.args, got, c.want)
		}
	}
}

// What isn't an image is reported, and what would cost too much is refused.
func TestBad(t *testing.T) {
	good := layer(t, item{"app", small})
	c := config{Entrypoint: []string{"/app"}}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":          {nil, "not an image"},
		"text":             {[]byte("hello, this is no image at all"), "unexpected EOF"},
		"empty tarball":    {layer(t), "not an image"},
		"no config":        {layer(t, saved(t, nil, c, good)[0], item{"manifest.json", `[{"Config":"x","Layers":[]}]`}), "file does not exist"},
		"no layer":         {layer(t, saved(t, nil, c, good)[1:]...), "layer 1: "},
		"broken layer":     {layer(t, saved(t, nil, c, []byte("\x1f\x8bno gzip"))...), "layer 1: "},
		"cut layer":        {layer(t, saved(t, nil, c, good[:300])...), "layer 1: unexpected EOF"},
		"a path as digest": {layer(t, item{"index.json", `{"manifests":[{"digest":"../../etc/passwd"}]}`}), "is not a digest"},
		"bad JSON":         {layer(t, item{"index.json", `{`}), "not an image"},
		"large JSON":       {layer(t, item{"index.json", strings.Repeat(" ", maxDocument+1)}), errTooLarge.Error()},
		"index in itself":  {layer(t, selfIndex()...), "nested too deeply"},
		"names too long":   {layer(t, item{strings.Repeat("a", maxName+1), ""}), errTooLarge.Error()},
	} {
		_, err := ReadImage(t.Context(), write(t, "a.tar", c.data), "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func selfIndex() []item {
	d := "sha256:" + strings.Repeat("a", 64)
	text := `{"manifests":[{"digest":"` + d + `"}]}`
	return []item{{"index.json", text}, {"blobs/sha256/" + strings.Repeat("a", 64), text}}
}

// A layer that unpacks to more than the budget ends with an error, and its program is not known.
func TestBomb(t *testing.T) {
	bomb := packed(t, layer(t, item{"app", small}, item{"zeros", strings.Repeat("\x00", 4<<20)}, item{"late", small}), "gzip")
	m := &Image{ctx: t.Context(), file: "a.tar", blobs: memory{"l": bomb}, layers: []string{"l"}, left: 1 << 20, programs: map[string]content{}}
	if err := m.list(); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
	if b := m.Program([]string{"/app"}, nil); b.Known || !strings.Contains(b.Unknown, errTooLarge.Error()) {
		t.Errorf("got %+v", b)
	}
}

// A directory's links lead nowhere else.
func TestEscape(t *testing.T) {
	dir := t.TempDir()
	outside := write(t, "index.json", []byte(`{"manifests":[]}`))
	if err := os.Symlink(outside, filepath.Join(dir, "index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadImage(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("got %v", err)
	}
}

// memory are blobs without a file.
type memory map[string][]byte

func (m memory) Close() error { return nil }

func (m memory) open(name string) (io.ReadCloser, error) {
	data, ok := m[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// FuzzImage reads images that no tool wrote: no panic, no file outside, an end in good time.
func FuzzImage(f *testing.F) {
	c := config{Entrypoint: []string{"/args.sh"}, Cmd: []string{"app"}}
	l := layer(f, item{"usr/bin/app", small}, item{"bin", "-> usr/bin"}, item{"args.sh", "#!/bin/sh\nexec \"$@\""})
	f.Add(layer(f, saved(f, []string{"a"}, c, l)...), "app")
	f.Add(layer(f, layout(f, c, packed(f, l, "gzip"))...), "/bin/../app")
	f.Add(packed(f, layer(f, layout(f, c, packed(f, l, "zstd"))...), "gzip"), "sh -c")
	f.Add(layer(f, selfIndex()...), "")
	f.Fuzz(func(t *testing.T, data []byte, command string) {
		m, err := ReadImage(t.Context(), write(t, "a.tar", data), "a")
		if err != nil {
			return
		}
		defer m.Close()
		for _, argv := range [][]string{nil, strings.Fields(command), {command}} {
			if b := m.Program(argv, nil); b.Known == (b.Unknown != "") {
				t.Errorf("%+v", b)
			}
		}
	})
}

// FuzzLayer reads a layer, and FuzzScript a script, without the wrapping around it.
func FuzzLayer(f *testing.F) {
	seed := func(items ...item) []byte { // without the zeros at its end, for what is short is soon made shorter
		data := layer(f, items...)
		return data[:len(data)-1024]
	}
	f.Add(seed(item{"a", "-> b"}, item{"b", "-> a"}), "/a")
	f.Add(seed(item{"b", "=> c"}, item{"c", small}), "/b")
	f.Add(seed(item{"a", "-> a/b"}), "/a/../a")
	f.Add(seed(item{".wh.x", ""}, item{"d/.wh..wh..opq", ""}), "/x")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		m := &Image{ctx: t.Context(), blobs: memory{"l": data, "m": data[:len(data)/2]}, layers: []string{"m", "l"}, left: 1 << 20, programs: map[string]content{}}
		if m.list() != nil {
			return
		}
		if real, _, ok := m.lookup(name); ok && (!filepath.IsAbs(real) || filepath.Clean(real) != real) {
			t.Errorf("%q leads to %q", name, real)
		}
		m.Program([]string{name}, nil)
	})
}

func FuzzScript(f *testing.F) {
	f.Add("set -e\nexec \"$@\"", "/s")
	f.Add("exec sh -c 'exec /s'", "a")
	f.Fuzz(func(t *testing.T, text, arg string) {
		data := layer(t, item{"s", "#!/bin/sh\n" + text})
		m := &Image{ctx: t.Context(), blobs: memory{"l": data}, layers: []string{"l"}, left: 1 << 26, programs: map[string]content{}}
		if err := m.list(); err != nil {
			t.Fatal(err)
		}
		if b := m.Program([]string{"/s", arg}, nil); b.Known {
			t.Errorf("there is no program, and yet %+v", b)
		}
	})
}
