package workload

import "fmt"

// String is how a workload is called: Deployment/api, or CronJob/report in another namespace.
func (w *Workload) String() string {
	name := w.Name
	if name == "" {
		name = "without a name"
	}
	if w.Namespace != "" && w.Namespace != "default" {
		return fmt.Sprintf("%s/%s in %s", w.Kind, name, w.Namespace)
	}
	return w.Kind + "/" + name
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
