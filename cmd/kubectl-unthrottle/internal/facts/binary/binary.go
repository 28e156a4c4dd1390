// Package binary answers: what is known about the program that a container runs? In goes a file, or an image (a directory in
// OCI layout, a tarball of one, or what "docker save" writes) with the container's command; out comes its build information:
// the version of Go, the settings that were built in, the libraries that choose GOMAXPROCS.
//
// Images come from anywhere, so nothing in one is trusted: no file is written at a path that an image names, layers are read as
// streams, and what would take too much memory or never end is an error. No registry is asked, and no program is run.
package binary

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Binary is what is known about a container's program. The zero Binary knows nothing.
type Binary struct {
	Known   bool           // a program was read: it is Go, or it is not
	Program *procs.Program // nil if it is not a Go program, or not known
	Env     []Variable     // those of the image that matter here
	From    string         // where it was read: "/app in api.tar"
	Called  bool           // it was seen with a GOMAXPROCS that it sets itself, by a call
	Unknown string         // why it is not known, although there is an image: "its entry point is a shell script"
}

// A Variable is one of the image's environment.
type Variable struct{ Name, Value string }

// Go reports whether the program is known to be a Go program.
func (b Binary) Go() bool { return b.Program != nil }

// Var is a variable of the image.
func (b Binary) Var(name string) (string, bool) {
	for _, v := range slices.Backward(b.Env) {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// String says in a few words what program it is.
func (b Binary) String() string {
	switch {
	case !b.Known:
		return "not known"
	case b.Program == nil:
		return "not a Go program"
	}
	text := "built with " + strings.Replace(b.Program.GoVersion, "go1", "Go 1", 1)
	if line := b.Program.GoLine(); line != "" {
		text += ", go line " + line
	}
	return text
}

// ReadFile reads a program's file.
func ReadFile(path string) (Binary, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Binary{}, err
	}
	if !info.Mode().IsRegular() {
		return Binary{}, fmt.Errorf("%s is not a file", path)
	}
	p, err := procs.ReadProgram(path)
	if err != nil && !errors.Is(err, procs.ErrNotGo) {
		return Binary{}, err
	}
	return Binary{Known: true, Program: p, From: path}, nil
}

// A Set holds what is known about programs, by the images of the containers that run them.
type Set struct {
	all    *Binary // of every container: there is nothing but one file
	images map[string]*Image
	files  map[string]Binary
	seen   []seen
}

// All makes b the program of every container.
func (s *Set) All(b Binary) { s.all = &b }

// AddFile makes b the program of the containers with an image.
func (s *Set) AddFile(image string, b Binary) {
	if s.files == nil {
		s.files = map[string]Binary{}
	}
	s.files[Normal(image)] = b
}

// AddImage adds an image by the name that containers have for it.
func (s *Set) AddImage(name string, image *Image) {
	if s.images == nil {
		s.images = map[string]*Image{}
	}
	s.images[Normal(name)] = image
}

// Of is what is known about the program of w's container c. A nil Set knows nothing. A file that was named for the image counts
// for more than what was seen in a cluster, and that for more than the one file for all.
func (s *Set) Of(w *workload.Workload, c *workload.Container) Binary {
	if s == nil {
		return Binary{}
	}
	name := Normal(c.Image)
	if b, ok := s.files[name]; ok {
		return b
	}
	if image, ok := s.images[name]; ok {
		return image.Program(c.Command, c.Args)
	}
	b := s.seenIn(w, c)
	if !b.Known && s.all != nil {
		return *s.all
	}
	return b
}

// Normal is an image's name with all that container runtimes add when it is left out: docker.io/library/nginx:latest.
func Normal(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	first, rest, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		name = "docker.io/library/" + name
	case first == "docker.io" && !strings.Contains(rest, "/"):
		name = "docker.io/library/" + rest
	case first == "index.docker.io":
		return Normal("docker.io/" + strings.TrimPrefix(image, "index.docker.io/"))
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if digest != "" {
		return name + "@" + digest
	}
	if !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		name += ":latest"
	}
	return name
}
