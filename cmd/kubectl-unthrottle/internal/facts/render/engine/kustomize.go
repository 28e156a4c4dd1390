package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
)

// kustomization does what kustomize build does without any flags: files are read below the kustomizations' own directories only, no
// plugin runs, and no chart is inflated.
func kustomization(q render.Request) (*render.Reply, error) {
	disk := &guarded{FileSystem: filesys.MakeFsOnDisk(), root: q.Directory, left: mostRead}
	defer func() {
		if disk.schema { // it is the process's until it is taken away; to read Kubernetes' own again takes 0.1 s
			openapi.ResetOpenAPI()
		}
	}()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, q.Directory)
	if err != nil && !disk.own { // what was added may be what it does not read
		disk.own, disk.left = true, mostRead
		found, err = krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, q.Directory)
	}
	if err != nil {
		return nil, refused(err)
	}
	reply := &render.Reply{}
	for _, r := range found.Resources() {
		origin, err := r.GetOrigin()
		if err != nil {
			return nil, err
		}
		document := render.Document{}
		if origin != nil {
			document.Source = origin.Path
			if document.Source == "" {
				document.Source = origin.ConfiguredIn
			}
		}
		if !disk.own { // they asked for none
			if err := r.SetOrigin(nil); err != nil {
				return nil, err
			}
		}
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		document.Text = string(text)
		reply.Documents = append(reply.Documents, document)
	}
	if len(reply.Documents) == 0 {
		return nil, failed(render.Nothing, "a kustomization without resources")
	}
	return reply, nil
}

// refused says what kustomize refuses, and what kind of failure that is.
func refused(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case errors.Is(err, errOffline), strings.Contains(text, errOffline.Error()), strings.Contains(text, "no 'git' program on path"):
		return failed(render.Remote, "it takes something from elsewhere, and nothing is fetched")
	case strings.Contains(text, "kustomization.yaml is empty"):
		return failed(render.Nothing, "a kustomization without resources")
	case strings.Contains(text, "--enable-helm"):
		return failed(render.Remote, "it takes a Helm chart, which only helm can fetch")
	}
	if strings.Contains(text, "cycle detected") {
		return failed(render.Broken, "it and another one take each other: a cycle")
	}
	// Kustomize tries each name as a file and as a directory, and reports both at once.
	if m := tried.FindStringSubmatch(text); m != nil {
		return failed(render.Broken, "%s: %s", m[1], m[2])
	}
	return failed(render.Broken, "%s", text)
}

var tried = regexp.MustCompile(`accumulation err='accumulating resources from '([^']+)': (.+?)': (?:must build at directory|failed to run)`)

// What the files of a kustomization may have.
const (
	mostFile = 16 << 20
	mostRead = 128 << 20
)

// A guarded file system reads plain files, and no more than it may. In the requested kustomization it asks kustomize to say where each
// object is from.
type guarded struct {
	filesys.FileSystem
	root   string
	left   int64
	schema bool // a kustomization may bring a schema of its own
	own    bool // the kustomization is read unchanged: it asks for that itself, or does not take the line
}

func (g *guarded) ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no plain file", name)
	case info.Size() > mostFile:
		return nil, fmt.Errorf("%s has more than %d MiB", name, mostFile>>20)
	case info.Size() > g.left:
		return nil, fmt.Errorf("its files have more than %d MiB", mostRead>>20)
	}
	g.left -= info.Size()
	data, err := g.FileSystem.ReadFile(name)
	if err != nil {
		return nil, err
	}
	switch filepath.Base(name) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		g.schema = g.schema || bytes.Contains(data, []byte("openapi"))
		if dir, err := filepath.EvalSymlinks(g.root); err == nil && filepath.Dir(name) == dir {
			if g.own = g.own || bytes.Contains(data, []byte("buildMetadata")); !g.own {
				data = append(bytes.TrimRight(data, "\n \t"), "\nbuildMetadata: [originAnnotations]\n"...)
			}
		}
	}
	return data, nil
}
