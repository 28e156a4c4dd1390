package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/once"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const (
	onceAtOnce = 50               // nodes that are looked at at the same time
	withinOnce = 30 * time.Minute // for all nodes together
)

const onceUsage = "look at each node once, by a Job that is removed again; where agents are installed they are asked instead"

// checkOnce says what is wrong with --once, and which image its Jobs get: --once-image, the one next to UNTHROTTLE_IMAGE, or the release's.
func (o *auditor) checkOnce() error {
	switch image := o.stdio.Env(imageVariable); {
	case !o.once && o.image != "":
		return hint.Usage("--once --once-image "+o.image, "--once-image is for --once")
	case !o.once:
		return nil
	case o.agents == agentsNone:
		return hint.Usage("leave one of them out", "--once and --agents none exclude each other")
	case o.image != "":
		if err := install.CheckImage(o.image); err != nil {
			return hint.Usage("--once-image registry.example.com/kubectl-unthrottle:1", "--once-image: %w", err)
		}
	case image != "":
		if o.image = install.AgentsBeside(image); o.image == "" {
			return hint.Usage("--once-image registry.example.com/kubectl-unthrottle:1", "%s is %s, which does not say where the image of kubectl-unthrottle is", imageVariable, image)
		}
	default:
		o.image = imageOf("kubectl-unthrottle")
	}
	return nil
}

// lookOnce looks at the nodes that have pods of the audit, by a Job on each.
func (o *auditor) lookOnce(ctx context.Context, access *cluster.Access, found *cluster.Found, a *audit.Audit, heard *result.AuditAgents) []result.Problem {
	nodes := a.Nodes()
	heard.Once, heard.Found = true, len(nodes)
	if len(nodes) == 0 {
		return nil
	}
	problem := func(severity manifest.Severity, about string, err error) []result.Problem {
		return []result.Problem{{At: "--once", Severity: string(severity), Text: about + err.Error(), Hint: strings.Join(hint.Of(err), "; ")}}
	}
	look, place, err := o.newLook(ctx, access)
	if err != nil {
		return problem(manifest.Error, "no node was looked at: ", err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, withinOnce, errors.New("there was no time left"))
	defer cancel()
	told := troubles{once: true}
	options := agents.Options{AtOnce: onceAtOnce, Ask: look.Ask, Pods: func(ctx context.Context, node string) (pods.Source, error) {
		return pods.List(ctx, place.Config, found.Namespace, node)
	}}
	agents.Read(limited, access, look.Agents(nodes), options, a.Saw, o.heard(limited, a, heard, &told))
	slices.SortFunc(heard.Failed, failuresFirst)
	problems := told.problems()
	said := look.Said()
	if left := look.Left(); left != nil {
		said += "; " + left.Error() + ": " + strings.Join(hint.Of(left), "; ")
		problems = append(problems, problem(manifest.Warning, "", left)...)
	}
	fmt.Fprintf(o.stdio.Err, "unthrottle: %s\n", plain.Line(said)) // also where it was interrupted, and there is no document
	return problems
}

// newLook makes sure of where the Jobs will be.
func (o *auditor) newLook(ctx context.Context, access *cluster.Access) (*once.Look, cluster.Place, error) {
	place, client, err := cluster.Connect(o.live.Options)
	if err != nil {
		return nil, place, err
	}
	look, err := once.New(ctx, client, access, agentsIn(o.agents), o.image)
	return look, place, err
}
