package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/policy"
)

const policyHelp = `Admission policies with which the API server itself repairs GOMAXPROCS in pods and warns about it.

Usage:
  kubectl unthrottle policy [FLAGS]

It writes YAML for kubectl apply, and needs no cluster. Without --mutate and --validate it writes both kinds. The policies that
repair need Kubernetes 1.36, or 1.34 with --api v1beta1; those that warn need 1.30.

{{flags}}

A pod, an object with a pod template, or a namespace with the label unthrottle.dev/ignore=all is left alone; an annotation
of that name may also name rules: K005, K007. kubectl unthrottle help docs/policy.md says what each policy does.

Example:
  kubectl unthrottle policy --validate | kubectl apply -f -
`

type policyVerb struct {
	stdio            verb.IO
	options          policy.Options
	mutate, validate bool
	labels           []string
	config, file     string
}

func newPolicy(stdio verb.IO) *cobra.Command {
	return verb.New("policy", policyHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &policyVerb{stdio: stdio, options: policy.Default()}
		p := &o.options

		flags := l.Section("What is written:")
		flags.BoolVar(&o.mutate, "mutate", false, "the policies that repair pods as they are created")
		flags.BoolVar(&o.validate, "validate", false, "the policies that warn about pods, objects that create pods, and resizes that GOMAXPROCS does not follow")
		flags.Var(verb.OneOf(&p.Action, policy.Warn, policy.Deny, policy.Audit), "action", "A\twhat --validate's policies do: warn, deny or audit (warn)")
		flags.Var(verb.OneOf(&p.Inject, policy.InjectNone, policy.InjectLabelled, policy.InjectAll), "inject",
			"WHICH\tset GOMAXPROCS for programs built with Go 1.24 and earlier: none, labelled (unthrottle.dev/inject) or all (none)")
		flags.Var(verb.OneOf(&p.API, policy.V1, policy.V1Beta1), "api", "VERSION\tthe API of --mutate's policies: v1, or v1beta1 before Kubernetes 1.36 (v1)")
		flags.Var(verb.OneOf(&p.FailurePolicy, policy.Ignore, policy.Fail), "failure-policy", "P\twhat to do if an expression fails: Ignore or Fail (Ignore)")
		flags.StringVar(&p.Name, "name", p.Name, "NAME\twhat the names of the objects begin with (unthrottle)")
		flags.StringVarP(&o.file, "output", "o", "", "FILE\twrite to this file")

		flags = l.Section("\nWhat is left alone:")
		flags.StringSliceVar(&p.ExemptNamespaces, "exempt-namespace", p.ExemptNamespaces, "NS,…\tthese namespaces (kube-system)")
		flags.StringSliceVar(&o.labels, "exempt-label", nil, "KEY[=VALUE],…\tobjects and pod templates with this label")
		flags.StringSliceVar(&p.ExemptContainers, "exempt-container", nil, "NAME,…\tthese containers, such as istio-proxy")
		flags.StringVar(&o.config, "config", "", "NS/NAME\ta ConfigMap for more exempt containers, and for --inject; it is written too")
		return func(ctx context.Context, args []string) error {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			return o.run(l)
		}
	})
}

func (o *policyVerb) run(l *verb.Flags) error {
	p := &o.options
	if o.mutate || o.validate {
		p.Mutate, p.Validate = o.mutate, o.validate
	}
	for flag, needs := range map[string]bool{"action": p.Validate, "inject": p.Mutate, "api": p.Mutate} {
		if l.Given(flag) && !needs {
			other := map[string]string{"action": "--validate", "inject": "--mutate", "api": "--mutate"}[flag]
			return hint.Usage("add "+other, "--%s is for what %ss", flag, strings.TrimPrefix(other, "--"))
		}
	}
	for _, text := range o.labels {
		key, value, _ := strings.Cut(text, "=")
		p.ExemptLabels = append(p.ExemptLabels, policy.Label{Key: key, Value: value})
	}
	if o.config != "" {
		p.Config.Namespace, p.Config.Name, _ = strings.Cut(o.config, "/")
	}
	if err := p.Check(); err != nil {
		return hint.Usage("kubectl unthrottle policy --help shows what the flags take", "%w", err)
	}
	out, err := verb.NewOutput(o.file, o.stdio.Out)
	if err != nil {
		return err
	}
	return out.Finish(policy.Write(out.W, *p))
}
