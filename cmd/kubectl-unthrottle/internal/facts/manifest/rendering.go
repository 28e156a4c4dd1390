package manifest

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"go.yaml.in/yaml/v3"
)

// A rendering collects what must be rendered before it can be read: it is reported once for each chart and file.
type rendering struct {
	order []*unrendered
	by    map[string]*unrendered
}

type unrendered struct {
	chart string
	file  *File
	at    workload.Position
	pods  bool // there may be a pod template in it
	whole bool // a document could not be read at all
}

func (n *rendering) of(f *File, at workload.Position) *unrendered {
	key := f.Name
	if f.chart != "" {
		key = f.chart + "\x00"
	}
	u := n.by[key]
	if u == nil {
		if n.by == nil {
			n.by = map[string]*unrendered{}
		}
		u = &unrendered{chart: f.chart, file: f, at: at}
		n.by[key] = u
		n.order = append(n.order, u)
	}
	return u
}

// unreadable keeps a document that does not parse because it is a template.
func (n *rendering) unreadable(f *File, at workload.Position, pods bool) {
	u := n.of(f, at)
	u.whole, u.pods = true, u.pods || pods
}

// value keeps that a value was wanted where a template is.
func (n *rendering) value(f *File, at workload.Position) { n.of(f, at).pods = true }

// tell makes the problems.
func (n *rendering) tell(r *reader) {
	for _, u := range n.order {
		if u.chart != "" && r.sources.told(u.file.top) {
			continue
		}
		hint := "pipe what helm template prints into kubectl unthrottle lint -"
		what := "it is a template that was not rendered: what it says is not known"
		if u.chart != "" {
			hint = "helm template " + u.chart + " | kubectl unthrottle lint -"
			what = "the templates of the chart " + u.chart + " are not rendered: what they say is not known"
		} else if !u.whole {
			what = "there are templates in it that were not rendered: their values are not known"
		}
		severity := Note
		if u.pods {
			severity = Warning
		}
		r.problem(u.file, u.at, severity, hint, "%s", what)
	}
}

func isKustomization(name string) bool {
	return name == "kustomization.yaml" || name == "kustomization.yml" || name == "Kustomization"
}

// isKustomizationObject says whether a document is kustomize's own: it needs neither apiVersion nor kind under its name. Flux
// has a kind of the same name, which is an object like others.
func isKustomizationObject(file, kind, version string) bool {
	if strings.HasPrefix(version, "kustomize.config.k8s.io/") {
		return true
	}
	return isKustomization(filepath.Base(file)) && version == "" && (kind == "" || kind == "Kustomization" || kind == "Component")
}

// kustomization says what to do with a kustomization.
func (r *reader) kustomization(f *File, a at) {
	if r.sources.tried[f.Name] {
		return
	}
	dir := filepath.Dir(f.Name)
	hint := "kubectl kustomize " + dir + " | kubectl unthrottle lint -"
	if f.Name == "<stdin>" {
		hint = "kubectl kustomize DIRECTORY | kubectl unthrottle lint -"
	}
	r.problem(f, a.position(), Note, hint, "a kustomization: what it patches and generates is known once it is rendered")
}

// kustomizationFiles are the files that a kustomization names and that aren't manifests themselves, and why.
func kustomizationFiles(data []byte) map[string]string {
	type path struct {
		Path string `yaml:"path"`
	}
	type generator struct {
		Files []string `yaml:"files"`
		Env   string   `yaml:"env"`
		Envs  []string `yaml:"envs"`
	}
	var k struct {
		Patches               []path      `yaml:"patches"`
		PatchesJSON6902       []path      `yaml:"patchesJson6902"`
		PatchesStrategicMerge []string    `yaml:"patchesStrategicMerge"`
		Replacements          []path      `yaml:"replacements"`
		ConfigMapGenerator    []generator `yaml:"configMapGenerator"`
		SecretGenerator       []generator `yaml:"secretGenerator"`
		Configurations        []string    `yaml:"configurations"`
		Generators            []string    `yaml:"generators"`
		Transformers          []string    `yaml:"transformers"`
		HelmCharts            []struct {
			ValuesFile string   `yaml:"valuesFile"`
			Additional []string `yaml:"additionalValuesFiles"`
		} `yaml:"helmCharts"`
	}
	// What does not fit leaves its field empty; reading the file reports what is broken.
	_ = safely(func() error { return yaml.Unmarshal(data, &k) })
	files := map[string]string{}
	add := func(why string, names ...string) {
		for _, name := range names {
			if _, file, ok := strings.Cut(name, "="); ok {
				name = file // key=file of a generator
			}
			if name != "" && !strings.Contains(name, "\n") {
				files[name] = why
			}
		}
	}
	for _, list := range [][]path{k.Patches, k.PatchesJSON6902} {
		for _, p := range list {
			add("a patch of a kustomization", p.Path)
		}
	}
	add("a patch of a kustomization", k.PatchesStrategicMerge...)
	for _, p := range k.Replacements {
		add("part of a kustomization", p.Path)
	}
	for _, list := range [][]generator{k.ConfigMapGenerator, k.SecretGenerator} {
		for _, g := range list {
			add("what a kustomization makes a ConfigMap or Secret of", append(append(g.Files, g.Envs...), g.Env)...)
		}
	}
	add("part of a kustomization", k.Configurations...)
	add("part of a kustomization", k.Generators...)
	add("part of a kustomization", k.Transformers...)
	for _, c := range k.HelmCharts {
		add("values of a Helm chart", append(c.Additional, c.ValuesFile)...)
	}
	return files
}

// safely runs a function of the YAML library, whose scanner has panicked on texts that no one writes.
func safely(do func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errPlace
		}
	}()
	return do()
}

// helmFile says what a file of a chart's own directory is, by its name.
func helmFile(name string, inChart bool) string {
	base := strings.TrimSuffix(strings.TrimSuffix(name, ".yml"), ".yaml")
	switch {
	case !inChart:
		return ""
	case name == "Chart.yaml":
		return "a Helm chart's Chart.yaml"
	case strings.HasPrefix(base, "values") || strings.HasSuffix(base, "values"):
		return "values of a Helm chart"
	}
	return ""
}

var chartVersion = regexp.MustCompile(`(?m)^version:`)

// helmContent says what a file is that was named directly: a chart's Chart.yaml or its values.
func helmContent(name string, data []byte) string {
	switch filepath.Base(name) {
	case "Chart.yaml":
		if chartVersion.Match(data) && !bytes.Contains(data, []byte("\nkind:")) {
			return "a Helm chart's Chart.yaml"
		}
	case "values.yaml", "values.yml":
		if !bytes.Contains(data, []byte("apiVersion:")) {
			return "values of a Helm chart"
		}
	}
	return ""
}
