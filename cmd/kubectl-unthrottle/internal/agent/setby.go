package agent

import (
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/result"
)

// setBy says who set a program's GOMAXPROCS. runtime is the container runtime.
func setBy(p *host.Process, c pods.Container, named bool, runtime string) string {
	switch p.Source() {
	case host.FromCall:
		return result.FromCode
	case choice.FromAutomaxprocs:
		return result.FromAutomaxprocs
	case choice.FromUnthrottle:
		return result.FromUnthrottle
	case choice.FromEnvironment:
		return setInEnvironment(p.Env["GOMAXPROCS"], c, named, runtime)
	}
	return result.FromDefault
}

// setInEnvironment says who put GOMAXPROCS there. A container gets its variables from the pod's spec, which wins, from its image, and
// from what a runtime adds. What starts the program may change them after that.
func setInEnvironment(value string, c pods.Container, named bool, runtime string) string {
	switch {
	case !named, c.Spec.Form == pods.EnvFrom:
		return result.FromEnvironment
	case c.Spec.Set && (c.Spec.Form != pods.Literal || c.Spec.Value == value):
		return result.FromSpec
	case c.Spec.Set: // another value than the spec's: the program's own start script has changed it
		return result.FromImageOrRuntime
	case runtime == "cri-o" && c.Limit == 0 && injected(value, c.Request):
		return result.FromRuntime
	}
	return result.FromImageOrRuntime
}

// injected reports whether a number is what CRI-O injects into a container without a limit: twice its request, and at least 1 and
// at least a floor that its owner has chosen. A number above twice the request is the floor, if it is one that
// somebody would choose.
func injected(value string, request float64) bool {
	const leastFloor = 4 // less, and an image may as well have it
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return false
	}
	twice := int(max(math.Ceil(2*request-1e-9), 1))
	return n == twice || n > twice && n >= leastFloor
}
