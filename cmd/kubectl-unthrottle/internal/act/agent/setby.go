package agent

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// setBy says who set a program's GOMAXPROCS. floor is that of what the container's runtime injects, 0 if it injects nothing.
func setBy(p *host.Process, c pods.Container, named bool, floor int) string {
	switch p.Source() {
	case host.FromCall:
		return result.FromCode
	case choice.FromAutomaxprocs:
		return result.FromAutomaxprocs
	case choice.FromUnthrottle:
		return result.FromUnthrottle
	case choice.FromEnvironment:
		return setInEnvironment(p.Env["GOMAXPROCS"], c, named, floor)
	}
	return result.FromDefault
}

// setInEnvironment says who put GOMAXPROCS there. A container gets its variables from the pod's spec, which wins, from its image, and
// from what a runtime adds. What starts the program may change them after that.
func setInEnvironment(value string, c pods.Container, named bool, floor int) string {
	switch {
	case !named, c.Spec.Form == pods.EnvFrom:
		return result.FromEnvironment
	case c.Spec.Set && (c.Spec.Form != pods.Literal || c.Spec.Value == value):
		return result.FromSpec
	case c.Spec.Set: // another value than the spec's: the program's own start script has changed it
		return result.FromImageOrRuntime
	case floor > 0 && c.Limit == 0 && value == injected(c.Request, floor):
		return result.FromRuntime
	}
	return result.FromImageOrRuntime
}

// injected is what CRI-O puts into a container without a limit: twice its request, and at least the floor.
func injected(request float64, floor int) string {
	return strconv.Itoa(max(int(math.Ceil(2*request-1e-9)), 1, floor))
}

// injects finds a setting of CRI-O's, which is a line of TOML.
var injects = regexp.MustCompile(`(?m)^\s*min_injected_gomaxprocs\s*=\s*([0-9]+)\s*(?:#.*)?$`)

// injectionFloor reads the floor from CRI-O's files on the node, the last of which counts. It is 0 if CRI-O injects nothing, as by default,
// or nobody can read them.
func injectionFloor(root string) (floor int) {
	const etc = "/proc/1/root/etc/crio/"
	t := foreign.Open(root)
	defer t.Close()
	names, _ := t.Names(etc+"crio.conf.d", foreign.Files)
	slices.Sort(names)
	files := []string{etc + "crio.conf"}
	for _, name := range names {
		files = append(files, etc+"crio.conf.d/"+name)
	}
	for _, file := range files {
		data, err := t.Read(file, foreign.Config)
		if err != nil {
			continue
		}
		for _, m := range injects.FindAllSubmatch(data, -1) {
			floor, _ = strconv.Atoi(string(m[1])) // too large a number is none of CRI-O's
		}
	}
	return floor
}
