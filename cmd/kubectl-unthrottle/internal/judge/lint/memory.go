package lint

import (
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// bounded reports whether the container has a memory limit that is known.
func (f *facts) bounded() bool { return f.isGo != other && is(f.c.Memory) }

// value is a variable in the container's environment; known is false where something may set it that was not read, its command for one.
func (f *facts) value(name string) (text string, known bool) {
	if forecast.Mentions(f.c, name) {
		return "", false
	}
	return forecast.Value(f.c, f.b, name)
}

// noGOMEMLIMIT reports whether it is known that nothing in the manifest sets it, or gives the program its memory limit in another way.
func (f *facts) noGOMEMLIMIT() bool {
	text, known := f.value("GOMEMLIMIT")
	return known && text == "" && !f.c.MemoryVariable
}

// grows reports whether GOGC lets the heap grow to more than twice of what is alive.
func (f *facts) grows() (text string, ok bool) {
	text, known := f.value("GOGC")
	n, err := strconv.Atoi(text)
	return text, known && (text == "off" || err == nil && n > 100)
}

// withHeadroom sets GOMEMLIMIT to what fits the memory limit. No divisor makes that of limits.memory, so it is a number.
func (f *facts) withHeadroom() fix {
	const follow = `import "github.com/unthrottle/unthrottle/auto/memory" in the program: it follows the limit`
	if v := f.w.Around.VPA; v != nil && v.LimitsToo && !v.Off[f.c.Name] {
		return leave(follow, "VerticalPodAutoscaler "+v.Name+" changes the memory limit")
	}
	_, n := choice.GOMEMLIMIT(int64(f.c.Memory.Value))
	if n == "" {
		return leave("give it more memory", "a limit of less than 32 MiB leaves a Go program no room")
	}
	return fix{"set GOMEMLIMIT to " + n + ", or " + follow, []remedy.Remedy{{
		Action: remedy.Set, Variable: "GOMEMLIMIT", Value: n, Why: "that fits the memory limit of " + f.c.Memory.Text + ", and leaves at least a tenth of it free",
	}}}
}

// atVariable is where a variable is written, or else the container.
func (f *facts) atVariable(name string) workload.Position {
	if v, ok := f.c.Var(name); ok {
		return v.At
	}
	return f.c.At
}
