package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
)

// renders is the argument with which this program renders what it reads from standard input, for itself. No user types it.
const renders = "__render"

// charts are the flags about charts that are named.
type charts struct {
	values         []string // files
	set, setString []string
	kube           string

	release, namespace string
}

// ofCharts are the flags that mean nothing without a chart.
var ofCharts = []string{"values", "set", "set-string", "kube-version", "release-name", "release-namespace"}

func (c *charts) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&c.values, "values", nil, "FILE\tvalues, as helm's --values; may be repeated")
	flags.StringArrayVar(&c.set, "set", nil, "KEY=VALUE\ta value, as helm's --set; may be repeated")
	flags.StringArrayVar(&c.setString, "set-string", nil, "KEY=VALUE\ta value that is text, as helm's --set-string; may be repeated")
	flags.StringVar(&c.kube, "kube-version", "", "V\tthe version of Kubernetes that it is rendered for")
	flags.StringVar(&c.release, "release-name", "", "NAME\tof the release, as helm template NAME (release-name)")
	flags.StringVar(&c.namespace, "release-namespace", "", "NAME\tthe release's namespace, as helm's --namespace (default)")
}

// check refuses values where no chart is named.
func (c *charts) check(l *verb.Flags, names []string) error {
	for _, f := range []struct {
		flag, name string
		most       int // letters, as Helm and Kubernetes have it
	}{{"release-name", c.release, 53}, {"release-namespace", c.namespace, 63}} {
		if l.Given(f.flag) && (len(f.name) > f.most || !namedAsLabel.MatchString(f.name)) {
			return hint.Usage("kubectl unthrottle lint --"+f.flag+" shop CHART", "--%s %q: a name has at most %d small letters, digits and dashes between them", f.flag, f.name, f.most)
		}
	}
	given := l.FirstGiven(ofCharts...)
	if given == "" || slices.ContainsFunc(names, isChart) {
		return nil
	}
	return hint.Usage("kubectl unthrottle "+l.Cmd.Name()+" --"+given+" … CHART, which is a directory with a Chart.yaml, or a .tgz",
		"--%s is for a chart, and none is named", given)
}

var namedAsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func isChart(name string) bool {
	if manifest.IsPacked(name) {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "Chart.yaml"))
	return err == nil
}

// mostValues is how large a file of values may be.
const mostValues = 5 << 20

// rendering makes what renders, and says how to end it.
func (c *charts) rendering(ctx context.Context, stdin io.Reader) (r manifest.Rendering, end func(), err error) {
	r.Chart = render.Request{Set: c.set, SetString: c.setString, Kube: strings.TrimPrefix(c.kube, "v"), Release: c.release, Namespace: c.namespace}
	for _, name := range c.values {
		data, err := readValues(ctx, name, stdin)
		if err != nil {
			return r, nil, fmt.Errorf("--values %s: %w", name, err)
		}
		r.Chart.Values = append(r.Chart.Values, render.File{Name: name, Data: data})
	}
	if !canRender {
		r.By = unable{}
		return r, func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return r, nil, fmt.Errorf("looking for this program, which renders charts in a process of its own: %w", err)
	}
	by := &render.Renderer{Command: func() *exec.Cmd {
		cmd := exec.Command(self, renders)
		cmd.Args[0] = os.Args[0]
		cmd.Env = []string{} // values are all that a chart gets
		return cmd
	}}
	r.By = by
	return r, by.Close, nil
}

// unable is what renders in a build that doesn't: what is not rendered must be reported.
type unable struct{}

func (unable) Render(context.Context, render.Request) (*render.Reply, error) {
	return nil, errors.New("this build is for nodes and webhooks, and has nothing to render with; others have it")
}

func readValues(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	f, err := input.Open(ctx, name, stdin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostValues+1))
	if err == nil && len(data) > mostValues {
		err = fmt.Errorf("more than %d MiB", mostValues>>20)
	}
	return data, err
}
