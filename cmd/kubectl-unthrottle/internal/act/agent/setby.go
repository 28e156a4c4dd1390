package agent

import (
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
		if !named {
			return result.FromEnvironment
		}
		return result.SetInEnvironment(p.Env["GOMAXPROCS"], c, floor)
	}
	return result.FromDefault
}

// injects finds a setting of CRI-O's, which is a line of TOML.
var injects = regexp.MustCompile(`(?m)^\s*min_injected_gomaxprocs\s*=\s*([0-9]+)\s*(?:#.*)?$`)

// injectionFloor reads the floor from CRI-O's files on the node, where the last one counts. It is 0 if CRI-O injects nothing, as by
// default, or they can't be read.
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
			floor, _ = strconv.Atoi(string(m[1])) // a number that is too large isn't CRI-O's
		}
	}
	return floor
}
