package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// push puts an image with one file, which it starts, into a registry.
func push(t *testing.T, image string, program []byte, env ...string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "app", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	w.Write(program)
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	m, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		m, err = mutate.Config(m, v1.Config{Entrypoint: []string{"/app"}, Env: env})
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(image)
	if err == nil {
		err = remote.Write(ref, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRead: the program of an image, by its tag and by its digest, and what keeps it from being read.
func TestRead(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := httptest.NewServer(fake.New(fake.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	self, err := os.Executable() // a Go program, as it happens
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	push(t, host+"/shop/go:1", program, "GOMAXPROCS=4")
	push(t, host+"/shop/other:1", []byte("\x7fELF, and no Go"))
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer shut.Close()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hang.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	defer page.Close()
	one := []*workload.Container{{}}
	images := []Image{
		{host + "/shop/go:1", one},
		{host + "/shop/go:2", one},
		{host + "/shop/other:1", one},
		{host + "/shop/go:1", []*workload.Container{{}, {Command: []string{"sh", "-c", "x"}}}},
		{strings.TrimPrefix(shut.URL, "http://") + "/a:1", one},
		{strings.TrimPrefix(hang.URL, "http://") + "/a:1", one},
		{strings.TrimPrefix(page.URL, "http://") + "/a:1", one},
		{"UPPER/a b", one},
	}
	want := []string{"built with Go 1.", "its registry does not have it", "not a Go program", "", "log in", "no time left", "", "invalid name"}
	for i, image := range images {
		within := 5 * time.Minute // a busy machine takes its time
		if want[i] == "no time left" {
			within = time.Second
		}
		var got Program
		Read(t.Context(), []Image{image}, Options{Within: within}, func(p Program) { got = p })
		text := got.String()
		if got.Err != nil {
			text = got.Err.Error()
		}
		if failed := i != 0 && i != 2; (got.Err != nil) != failed || !strings.Contains(text, want[i]) {
			t.Errorf("%s: %s, want %q", image.Name, text, want[i])
		}
		if v, ok := got.Var("GOMAXPROCS"); i == 0 && (!ok || v != "4") {
			t.Errorf("%+v", got.Env)
		}
	}
	var small Program
	Read(t.Context(), images[:1], Options{Most: 1000}, func(p Program) { small = p })
	if small.Err == nil || !strings.Contains(small.Err.Error(), "more than") {
		t.Errorf("a large image: %v", small.Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	told := 0
	Read(ctx, images, Options{}, func(p Program) {
		told++
		if p.Err == nil {
			t.Errorf("%s was read after the end", p.Image)
		}
	})
	if told != len(images) {
		t.Errorf("%d images were told", told)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("%v, left: %q", err, left)
	}
}
