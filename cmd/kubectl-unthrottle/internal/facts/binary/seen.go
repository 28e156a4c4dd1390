package binary

import (
	"fmt"
	"maps"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Place is where a program was seen to run.
type Place struct {
	Namespace, Kind, Name string // of the object that made its pod: shop, Deployment, api
	Container             string
	Image, Digest         string // as the pod names the image, and as the runtime does; the digest may be ""
}

// A seen program is known from a container that runs.
type seen struct {
	Place
	b Binary
}

// AddSeen adds a program that was seen in a container.
func (s *Set) AddSeen(p Place, b Binary) { s.seen = append(s.seen, seen{p, b}) }

// seenIn is what was seen of a container's program: in the same container of the same workload, in any of the same image, or in that
// container when it ran another build of the image. Programs that differ where they should not leave it unknown.
func (s *Set) seenIn(w *workload.Workload, c *workload.Container) Binary {
	for _, try := range []struct {
		fits func(p *Place) bool
		from func(p *Place) string
	}{
		{func(p *Place) bool { return p.of(w, c) && p.runs(c.Image) }, func(p *Place) string { return "the program in " + p.String() }},
		{func(p *Place) bool { return p.runs(c.Image) }, func(p *Place) string { return "the program that image " + p.Image + " runs in " + p.String() }},
		{
			func(p *Place) bool {
				return p.of(w, c) && (c.Image == "" || repository(c.Image) == repository(p.Image))
			},
			func(p *Place) string { return "the program in " + p.String() + ", which was of image " + p.Image + "," },
		},
	} {
		var found *seen
		for i := range s.seen {
			p := &s.seen[i]
			switch {
			case !try.fits(&p.Place):
			case found == nil:
				found = p
			case !same(found.b, p.b):
				return Binary{Unknown: fmt.Sprintf("different programs were seen in %s and %s", found.Place.String(), p.Place.String())}
			}
		}
		if found != nil {
			b := found.b
			b.From = try.from(&found.Place)
			return b
		}
	}
	return Binary{}
}

// of says whether it is the container c of w. A manifest that names no namespace may be for any.
func (p *Place) of(w *workload.Workload, c *workload.Container) bool {
	kind, name := w.Kind, w.Name
	if w.Owner != "" { // what was read is one of its pods
		kind, name, _ = strings.Cut(w.Owner, "/")
	}
	return p.Container == c.Name && p.Kind == kind && p.Name == name && (w.Namespace == "" || w.Namespace == p.Namespace)
}

// runs says whether it is of that image, by its digest or by its whole name.
func (p *Place) runs(image string) bool {
	if image == "" {
		return false
	}
	if _, digest, ok := strings.Cut(image, "@"); ok && p.Digest != "" {
		return digest == p.Digest
	}
	return Normal(image) == Normal(p.Image)
}

// String says which container it is.
func (p *Place) String() string {
	return fmt.Sprintf("container %s of %s", p.Container, (&workload.Workload{Kind: p.Kind, Name: p.Name, Namespace: p.Namespace}).String())
}

// repository is an image's name without tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(Normal(image), "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}

// same says whether two programs are the same in everything that is used here.
func same(a, b Binary) bool {
	if !a.Go() || !b.Go() {
		return a.Go() == b.Go()
	}
	gomaxprocs := func(b Binary) string { v, _ := b.Var("GOMAXPROCS"); return v }
	p, q := a.Program, b.Program
	return p.GoVersion == q.GoVersion && p.Automaxprocs == q.Automaxprocs && p.Unthrottle == q.Unthrottle && maps.Equal(p.Defaults, q.Defaults) &&
		gomaxprocs(a) == gomaxprocs(b)
}
