package workload

import (
	"fmt"
	"strings"
)

// String is how a workload is called: Deployment/api, or CronJob/report in another namespace. A live object that another made is
// called by that: names of pods don't last.
func (w *Workload) String() string {
	kind, name := w.Kind, w.Name
	if w.Owner != "" {
		kind, name, _ = strings.Cut(w.Owner, "/")
		kind = w.Kind + " of " + kind
	}
	if name == "" {
		name = "without a name"
	}
	if w.Namespace != "" && w.Namespace != "default" {
		return fmt.Sprintf("%s/%s in %s", kind, name, w.Namespace)
	}
	return kind + "/" + name
}

// String is file:line:column, as compilers write it, or the path where there is no file.
func (p Position) String() string {
	switch {
	case p.File != "" && p.Line > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	case p.File != "":
		return p.File
	}
	return p.Path
}

// Var is the variable of that name which the program will see: the last of them, as in a pod.
func (c *Container) Var(name string) (Variable, bool) {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if c.Env[i].Name == name {
			return c.Env[i], true
		}
	}
	return Variable{}, false
}
