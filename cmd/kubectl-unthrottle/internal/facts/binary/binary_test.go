package binary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

func TestReadFile(t *testing.T) {
	b, err := ReadFile(self(t))
	if err != nil || !b.Known || !b.Go() || b.Program.Minor() < 25 || !strings.HasPrefix(b.String(), "built with Go 1.") {
		t.Errorf("this program: %+v, %v, %s", b, err, b)
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o666); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(text); err != nil || !b.Known || b.Go() || b.String() != "not a Go program" {
		t.Errorf("a text: %+v, %v", b, err)
	}
	pipe := filepath.Join(dir, "pipe")
	makePipe(t, pipe)
	for _, path := range []string{dir, pipe, filepath.Join(dir, "none")} {
		if b, err := ReadFile(path); err == nil {
			t.Errorf("%s: no error: %+v", path, b)
		}
		if m, err := ReadImage(t.Context(), path, ""); err == nil {
			t.Errorf("%s: no error: %+v", path, m)
		}
	}
}

// self is a Go program that is there: the test's own.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNormal(t *testing.T) {
	for image, want := range map[string]string{
		"nginx":                        "docker.io/library/nginx:latest",
		"nginx:1.29":                   "docker.io/library/nginx:1.29",
		"docker.io/nginx":              "docker.io/library/nginx:latest",
		"index.docker.io/nginx:1":      "docker.io/library/nginx:1",
		"bitnami/redis":                "docker.io/bitnami/redis:latest",
		"localhost/a":                  "localhost/a:latest",
		"localhost:5000/a":             "localhost:5000/a:latest",
		"quay.io/a/b@sha256:12":        "quay.io/a/b@sha256:12",
		"quay.io/a/b:v1@sha256:12":     "quay.io/a/b:v1@sha256:12",
		"registry.k8s.io/pause:3.10":   "registry.k8s.io/pause:3.10",
		"docker.io/library/nginx:1.29": "docker.io/library/nginx:1.29",
	} {
		if got := Normal(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}

func TestSet(t *testing.T) {
	var none *Set
	w, c := &workload.Workload{}, &workload.Container{Image: "app"}
	if b := none.Of(w, c); b.Known {
		t.Errorf("a nil Set knows %+v", b)
	}
	s := new(Set)
	if b := s.Of(w, c); b.Known {
		t.Errorf("an empty Set knows %+v", b)
	}
	s.All(Binary{Known: true, From: "all"})
	s.AddFile("docker.io/library/app:latest", Binary{Known: true, From: "file"})
	s.AddImage("quay.io/a", image(t, "quay.io/a"))
	for name, want := range map[string]string{"app": "file", "app:latest": "file", "app:2": "all", "quay.io/a:latest": "/app in image.tar"} {
		if got := s.Of(w, &workload.Container{Image: name}).From; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
