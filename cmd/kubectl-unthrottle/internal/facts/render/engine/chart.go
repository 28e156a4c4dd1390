// Package engine renders charts with Helm's library and kustomizations with Kustomize's. In goes a request of package render; out come
// the documents that helm template and kustomize build would print. It belongs into a process of its own, see there.
package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	helm "helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/ignore"
	release "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
)

// Serve renders what it is asked for, until its input ends. The process is good for nothing else afterwards.
func Serve(in io.Reader, out io.Writer) error {
	alone()
	return render.Serve(in, out, Render)
}

// alone takes from the process what neither library may use: programs, and the network. What they log is discarded.
func alone() {
	os.Clearenv()
	http.DefaultTransport = offline{}
	log.SetOutput(nowhere{})
	slog.SetDefault(slog.New(slog.DiscardHandler))
}

type offline struct{}

var errOffline = errors.New("nothing is fetched")

func (offline) RoundTrip(*http.Request) (*http.Response, error) { return nil, errOffline }

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Render renders a chart or a kustomization.
func Render(q render.Request) (*render.Reply, error) {
	if q.Directory != "" {
		return kustomization(q)
	}
	return renderChart(q)
}

func failed(kind render.Kind, format string, args ...any) error {
	return &render.Failure{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// renderChart does what helm template does.
func renderChart(q render.Request) (*render.Reply, error) {
	c, err := load(q)
	if err != nil {
		return nil, err
	}
	if kind := c.Metadata.Type; kind != "" && kind != "application" {
		return nil, failed(render.Nothing, "a chart of type %s, which other charts use", kind)
	}
	if missing := missing(c); len(missing) > 0 {
		return nil, failed(render.Missing, "it needs %s", strings.Join(missing, ", "))
	}
	values, err := values(q)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	if q.Kube != "" {
		version, err := common.ParseKubeVersion(q.Kube)
		if err != nil {
			return nil, fmt.Errorf("the version of Kubernetes, %s: %w", q.Kube, err)
		}
		capabilities.KubeVersion = *version
	}
	options := common.ReleaseOptions{Name: q.Release, Namespace: q.Namespace, Revision: 1, IsInstall: true}
	if options.Name == "" {
		options.Name = "release-name"
	}
	if options.Namespace == "" {
		options.Namespace = "default"
	}
	all, err := util.ToRenderValuesWithSchemaValidation(c, values, options, capabilities, refersElsewhere(c))
	if err != nil {
		return nil, err
	}
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("requires Kubernetes %s and is rendered for %s", want, capabilities.KubeVersion.Version)
	}
	files, err := helm.Engine{}.Render(c, all)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := release.SortManifests(files, nil, release.InstallOrder)
	if err != nil {
		return nil, err
	}
	reply := &render.Reply{Chart: c.Name()}
	for _, m := range manifests {
		reply.Documents = append(reply.Documents, render.Document{Source: m.Name, Text: m.Content})
	}
	for _, h := range hooks {
		reply.Documents = append(reply.Documents, render.Document{Source: h.Path, Text: h.Manifest, Hook: true})
	}
	return reply, nil
}

// load makes a chart of its files. Those that a directory's .helmignore names are left out.
func load(q render.Request) (*chart.Chart, error) {
	if q.Packed != nil {
		return loader.LoadArchive(bytes.NewReader(q.Packed))
	}
	rules := ignore.Empty()
	for _, f := range q.Files {
		if f.Name == ignore.HelmIgnore {
			parsed, err := ignore.Parse(bytes.NewReader(f.Data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			rules = parsed
		}
	}
	rules.AddDefaults()
	var files []*archive.BufferedFile
	for _, f := range q.Files {
		if !ignored(rules, f.Name) {
			data := bytes.TrimPrefix(f.Data, []byte("\xef\xbb\xbf"))
			files = append(files, &archive.BufferedFile{Name: f.Name, Data: data})
		}
	}
	return loader.LoadFiles(files)
}

// ignored says whether a file, or a directory that it is in, is left out.
func ignored(rules *ignore.Rules, name string) bool {
	for i, r := range name {
		if r == '/' && rules.Ignore(name[:i], entry{name[:i], true}) {
			return true
		}
	}
	return rules.Ignore(name, entry{name, false})
}

// An entry is a name that is known to be a file or a directory.
type entry struct {
	name string
	dir  bool
}

func (e entry) Name() string       { return path.Base(e.name) }
func (e entry) Size() int64        { return 0 }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.dir }
func (e entry) Sys() any           { return nil }
func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir
	}
	return 0
}

// missing are the charts that a chart names and that are not in it.
func missing(c *chart.Chart) (names []string) {
	for _, d := range c.Metadata.Dependencies {
		there := false
		for _, sub := range c.Dependencies() {
			there = there || sub.Name() == d.Name
		}
		if !there && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

// values are those that are given, as helm merges them.
func values(q render.Request) (map[string]any, error) {
	all := map[string]any{}
	for _, f := range q.Values {
		more, err := loader.LoadValues(bytes.NewReader(f.Data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		all = loader.MergeMaps(all, more)
	}
	for _, text := range q.Set {
		if err := strvals.ParseInto(text, all); err != nil {
			return nil, fmt.Errorf("--set %s: %w", text, err)
		}
	}
	for _, text := range q.SetString {
		if err := strvals.ParseIntoString(text, all); err != nil {
			return nil, fmt.Errorf("--set-string %s: %w", text, err)
		}
	}
	return all, nil
}

// refersElsewhere says whether a schema, of the chart or of one in it, names another file or an address, which would be read. Then
// values are held to none.
func refersElsewhere(c *chart.Chart) bool {
	if len(c.Schema) > 0 {
		var schema any
		if json.Unmarshal(c.Schema, &schema) != nil || outside(schema) {
			return true
		}
	}
	for _, sub := range c.Dependencies() {
		if refersElsewhere(sub) {
			return true
		}
	}
	return false
}

func outside(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			text, _ := value.(string)
			switch key {
			case "$ref", "$dynamicRef", "$recursiveRef":
				if text != "" && !strings.HasPrefix(text, "#") {
					return true
				}
			case "$schema":
				if text != "" && !strings.Contains(text, "://json-schema.org/") {
					return true
				}
			}
			if outside(value) {
				return true
			}
		}
	case []any:
		for _, value := range v {
			if outside(value) {
				return true
			}
		}
	}
	return false
}
