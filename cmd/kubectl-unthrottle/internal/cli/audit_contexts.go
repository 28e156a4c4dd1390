package cli

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const (
	mostContexts = 100 // clusters of one audit
	clustersOnce = 4   // that are read at the same time
)

// ofOneCluster are flags that mean one cluster or its user.
var ofOneCluster = []string{
	"context", "server", "cluster", "user", "token", "tls-server-name", "certificate-authority", "client-certificate", "client-key", "prometheus",
}

// checkContexts says what is wrong with --contexts.
func (o *auditor) checkContexts(l *verb.Flags) error {
	if !l.Given("contexts") {
		return nil
	}
	of := ofOneCluster
	if len(o.contexts) == 1 {
		of = of[:1] // it is --context
	}
	if given := l.FirstGiven(of...); given != "" {
		return hint.Usage("audit each context by itself", "--%s is for one cluster, and --contexts names several", given)
	}
	seen := map[string]bool{}
	for _, name := range o.contexts {
		switch {
		case name == "":
			return hint.Usage("--contexts staging,production", "--contexts: a name is empty")
		case seen[name]:
			return hint.Usage("--contexts staging,production", "--contexts names %s twice", name)
		}
		seen[name] = true
	}
	switch n := len(o.contexts); {
	case n == 0:
		return hint.Usage("kubectl config get-contexts -o name lists them", "--contexts names none")
	case n > mostContexts:
		return hint.Usage("one audit for some of them, and another one for the rest", "--contexts names %d clusters, and more than %d are too many", n, mostContexts)
	}
	return nil
}

// several looks at several clusters. One that can't be read takes nothing from the others.
func (o *auditor) several(ctx context.Context, known lint.Known) error {
	all := make([]*auditor, len(o.contexts))
	access := make([]*cluster.Access, len(o.contexts))
	led := map[string]string{} // contexts by where they lead
	out := &lines{to: o.stdio.Err}
	for i, name := range o.contexts {
		one := *o
		one.live.Context, one.stdio.Err = name, prefixed{out, name}
		place, err := cluster.Locate(one.live.Options)
		if err != nil {
			return err
		}
		at := place.Config.Host + " "
		if !o.live.AllNamespaces {
			at += place.Namespace
		}
		if other, ok := led[at]; ok {
			return hint.Usage("leave one of them out", "--contexts: %s and %s lead to the same cluster, %s, and the same namespaces", other, name, place.Config.Host)
		}
		led[at] = name
		if access[i], err = cluster.Open(one.live.Options, mostOfAgent); err != nil {
			return err
		}
		all[i] = &one
	}
	if err := o.results.Open(); err != nil {
		return err
	}
	apart, results := make([]result.Apart, len(all)), make([]*audit.Result, len(all))
	var group sync.WaitGroup
	free := make(chan struct{}, clustersOnce)
	for i, one := range all {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			x := result.Apart{Context: one.live.Context}
			if x.Doc, results[i], x.Err = one.look(ctx, access[i], known); x.Err != nil {
				x.Hint = strings.Join(hint.Of(x.Err), "; ")
			} else {
				results[i].In(x.Context)
			}
			apart[i] = x
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return o.results.Drop(ctx.Err())
	}
	if err := result.ErrNoCluster(apart); err != nil {
		return o.results.Drop(err)
	}
	results = slices.DeleteFunc(results, func(r *audit.Result) bool { return r == nil })
	return o.finish(result.Together(apart, audit.Together(results, audit.Options{Floor: o.floor})))
}

// lines writes whole lines of several writers.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// A prefixed writer says which cluster each line is about.
type prefixed struct {
	*lines
	name string
}

func (p prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.WriteString(p.name + ": ")
		b.Write(line)
	}
	if _, err := p.to.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}
