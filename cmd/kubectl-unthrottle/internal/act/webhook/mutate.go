package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// unused is lint's rule about an exemption that exempts nothing. One that is in a template for later does no harm here.
const unused = "K000"

// mutate looks at a pod that is about to be made.
func (h *Handler) mutate(ctx context.Context, req *request) (verdict, error) {
	if req.Operation != "CREATE" || req.SubResource != "" {
		return verdict{outcome: quiet}, nil
	}
	p, w, err := readPod(ctx, req.Object)
	if err != nil {
		return verdict{}, err
	}
	w.Namespace = req.Namespace
	v := verdict{outcome: quiet, subject: w.Kind + "/" + w.Name}
	e := h.exempted(req.Namespace, p)
	if e.all {
		v.outcome = exempt
		return v, nil
	}
	e.apply(w)
	var told, marks []string
	found, err := h.check(ctx, w)
	if err != nil {
		return verdict{subject: v.subject}, errLate
	}
	for _, f := range found {
		if ctx.Err() != nil {
			return verdict{subject: v.subject}, errLate
		}
		if f.Rule == unused || slices.Contains(h.o.ExemptContainers, f.Container) {
			continue
		}
		h.metrics.found(f.Rule)
		if done := h.change(&v, p, f); done != "" {
			told = append(told, about(f)+done)
			marks = append(marks, f.Container+": "+f.Rule)
		} else if f.Severity >= h.o.WarnOn {
			told = append(told, about(f)+f.Summary+" ("+f.Rule+"); fix: "+f.Fix)
		}
	}
	v.warnings = told
	switch {
	case len(v.patch) > 0:
		v.patch = append(v.patch, p.mark(marks)...)
		v.outcome = changed
	case len(told) > 0:
		v.outcome = warned
	}
	return v, nil
}

func about(f lint.Finding) string {
	if f.Container == "" {
		return "unthrottle: "
	}
	return fmt.Sprintf("unthrottle: container %q: ", f.Container)
}

// change does what a finding's remedies say, if that is asked for and right for any program. It says what it did.
func (h *Handler) change(v *verdict, p *pod, f lint.Finding) (done string) {
	if h.o.Mode != Fix {
		return ""
	}
	for _, r := range f.Remedies {
		if !r.Changes() {
			continue
		}
		if patch, ok := p.patch(f.Container, r); ok {
			v.patch = append(v.patch, patch...)
			h.metrics.changed(r.Action)
			return fmt.Sprintf("%s: %s (%s)", did(r), r.Why, f.Rule)
		}
	}
	return ""
}

// did says what was done.
func did(r remedy.Remedy) string {
	switch {
	case r.Action == remedy.Remove:
		return r.Variable + " is taken out"
	case r.Action == remedy.Repair:
		return fmt.Sprintf("the divisor of %s is now %q", r.Variable, r.Value)
	case r.Resource != "":
		return r.Variable + " is now " + r.Resource
	}
	return fmt.Sprintf("%s is now %q", r.Variable, r.Value)
}
