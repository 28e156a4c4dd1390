package webhook

import (
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// An exemption is what a user wants left alone in a pod.
type exemption struct {
	all   bool
	rules []string
}

// exempted reads what a pod says about itself, and the options.
func (h *Handler) exempted(namespace string, p *pod) (e exemption) {
	if slices.Contains(h.o.ExemptNamespaces, namespace) {
		return exemption{all: true}
	}
	for _, texts := range []map[string]string{p.Metadata.Labels, p.Metadata.Annotations} {
		if text, ok := texts[remedy.IgnoreKey]; ok {
			one := readExemption(text)
			e.all = e.all || one.all
			e.rules = append(e.rules, one.rules...)
		}
	}
	return e
}

// readExemption reads a value. Anyone who writes the key wants to be left alone: a value that names no rule is for all.
func readExemption(text string) (e exemption) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;._:\t\r\n", r) })
	for _, word := range words {
		word = strings.ToUpper(word)
		if len(word) != 4 || word[0] != 'K' || strings.Trim(word[1:], "0123456789") != "" {
			break // the reason
		}
		e.rules = append(e.rules, word)
	}
	e.all = len(e.rules) == 0
	return e
}

// apply gives a workload the rules that are taken back, as package lint knows them.
func (e exemption) apply(w *workload.Workload) {
	if len(e.rules) > 0 {
		w.Ignore = []workload.Ignore{{Rules: e.rules, To: math.MaxInt}}
	}
}

func (e exemption) has(rule string) bool { return e.all || slices.Contains(e.rules, rule) }
