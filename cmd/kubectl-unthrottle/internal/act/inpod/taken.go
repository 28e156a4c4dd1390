package inpod

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// pages are what net/http/pprof serves for the verbs that need it.
var pages = map[string]attach.Page{"trace": attach.Trace, "profile": attach.CPUProfile}

// take takes a trace or a profile through a forwarded port. errNotThere: no port answers as net/http/pprof does.
func (p *Pod) take(ctx context.Context, at *pod, c *container, verbName string, length time.Duration) (*Done, error) {
	far := &attach.Far{Dial: p.dial}
	u, err := p.page(ctx, far, at, c, pages[verbName], int(length.Seconds()))
	if err != nil {
		return nil, p.unlessForbidden(err)
	}
	limits := p.limitWritten(ctx, at, c.Name)
	if p.Agents != "" {
		k, err := p.witness(ctx, at, c.Name)
		if err == nil {
			far.Count = k.count
		} else if ctx.Err() != nil {
			return nil, ctx.Err()
		} else {
			p.Say("what the kernel counts meanwhile is not known: " + strings.TrimPrefix(err.Error(), errNotThere.Error()+": "))
		}
	}
	doc, err := p.taken(ctx, at, c, far, u, verbName, limits, int(length.Seconds()))
	if err != nil {
		return nil, p.unlessForbidden(err)
	}
	document, err := json.Marshal(doc)
	return &Done{Document: document}, err
}

// unlessForbidden is an error, or that no port may be forwarded at all, in which case the spec says what it can.
func (p *Pod) unlessForbidden(err error) error {
	if !errors.Is(err, errForbidden) {
		return err
	}
	return fmt.Errorf("%w: forwarding a port of pod %s is forbidden: no right to create pods/portforward", errNotThere, p.Name)
}

// taken is the document of what was taken.
func (p *Pod) taken(ctx context.Context, at *pod, c *container, far *attach.Far, u *url.URL, verbName string, limits *cgroup.Limits, seconds int) (any, error) {
	source := u.Redacted()
	port, _ := strconv.Atoi(cmp.Or(u.Port(), "80"))
	doubts := at.portDoubts(c, port)
	if verbName == "profile" {
		t := attach.Profiler{Source: source, URL: u, Far: far, Seconds: seconds, Note: p.Say}
		data, err := t.Take(ctx)
		if err != nil {
			return nil, err
		}
		f := report.ProfileFacts{
			Source: source, Saved: p.SavedAs, Base: p.Base, BaseSource: p.BaseSource,
			MetricsProcs: t.MetricsProcs, Demand: t.Demand, DemandOver: t.DemandOver,
		}
		if f.Profile, err = attach.ReadProfile(source, data); err != nil {
			return nil, err
		}
		if f.Profile.Samples == 0 {
			return nil, hint.With(errors.New("the program used no CPU time while the profile was taken"), "take it while the program has something to do")
		}
		if p.Save != nil {
			if _, err := p.Save.Write(data); err != nil {
				return nil, fmt.Errorf("saving the profile: %w", err)
			}
			p.Saved = true
		}
		f.Beside(t.Beside)
		f.Limits = cmp.Or(f.Limits, limits)
		d := report.NewProfile(f)
		d.Header = verb.NewHeader(verbName)
		d.Findings, d.Warnings = at.unmuted(d.Findings, append(d.Warnings, doubts...))
		return d, nil
	}
	t := attach.Tracer{URL: u, Far: far, Seconds: seconds, Save: p.Save, Note: p.Say, Late: p.Say}
	file, err := t.Take(ctx)
	if p.Saved = t.Saved; err != nil {
		return nil, err
	}
	defer file.Close()
	f := report.TraceFacts{Source: source, Saved: p.SavedAs, Asked: t.Asked, Took: t.Took}
	f.Beside(t.Beside)
	f.Limits = cmp.Or(f.Limits, limits)
	how := exectrace.Options{Kernel: t.Kernel, Quotas: t.Quotas}
	if t.Quotas.Period > 0 {
		f.PeriodFrom = "limit"
	}
	if n := len(t.Readings); n > 1 {
		how.Unseen = t.Readings[n-1].Throttled == t.Readings[0].Throttled
	}
	if f.Trace, err = attach.ReadTrace(ctx, source, file, how); errors.Is(err, exectrace.ErrOld) {
		return nil, hint.With(errors.New(err.Error()), "build the program with Go 1.22 or later", "kubectl unthrottle watch "+p.Name+" sees throttling whatever it was built with")
	} else if err != nil {
		return nil, err
	}
	d, err := report.NewTrace(f)
	if err != nil {
		return nil, err
	}
	d.Header = verb.NewHeader(verbName)
	d.Findings, d.Warnings = at.unmuted(d.Findings, append(d.Warnings, doubts...))
	return d, nil
}

// unmuted are findings without those that the pod mutes, and warnings with one that says so.
func (p *pod) unmuted(findings []finding.Finding, warnings []string) ([]finding.Finding, []string) {
	muted := pods.MutedBy(p.Metadata.Annotations)
	left := slices.DeleteFunc(findings, func(f finding.Finding) bool {
		mutes := pods.Mutes(muted, f.Rule)
		if mutes {
			warnings = append(warnings, "its pod mutes "+f.Rule+": that is not told")
		}
		return mutes
	})
	return left, warnings
}

// The ports that are asked where none is named.
const (
	mostPorts  = 16
	usualPprof = 6060 // by the documentation of net/http/pprof
)

// page finds the page: where --process says that the program listens, or on one of the ports that its container declares, or on pprof's
// usual one, if that is not another container's.
func (p *Pod) page(ctx context.Context, far *attach.Far, at *pod, c *container, page attach.Page, seconds int) (*url.URL, error) {
	if p.Process != "" {
		return p.address(page, seconds)
	}
	ports := c.tcpPorts()
	if at.declarer(usualPprof) == "" {
		ports = append(ports, usualPprof)
	}
	if len(ports) == 0 {
		return nil, fmt.Errorf("%w: container %s declares no port, and %d is declared by %s", errNotThere, c.Name, usualPprof, at.declarer(usualPprof))
	}
	p.Say("looking for net/http/pprof on " + portsOf(ports) + " of pod " + p.Name)
	u, late, err := far.Find(ctx, ports)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errForbidden):
		return nil, err
	case u != nil:
		return page.At(u, seconds), nil
	case len(late) > 0:
		return nil, fmt.Errorf("%w: %s did not answer in time, and no other port has net/http/pprof", errNotThere, portsOf(late))
	case err != nil:
		return nil, fmt.Errorf("%w: no port could be asked: %w", errNotThere, err)
	}
	return nil, fmt.Errorf("%w: there is no net/http/pprof on %s", errNotThere, portsOf(ports))
}

// address is where --process says that the program listens.
func (p *Pod) address(page attach.Page, seconds int) (*url.URL, error) {
	u, err := page.URL(p.Process, seconds, false)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, fmt.Errorf("%w: --process %s is no address, and a process is found from inside its pod only", errNotThere, p.Process)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && u.Hostname() != "" && (ip == nil || !ip.IsLoopback()) {
		return nil, hint.Usage("--process localhost:"+cmp.Or(u.Port(), "6060"), "a forwarded port is one of the pod's own, and %s is another machine", u.Hostname())
	}
	if _, err := page.Time(u); err != nil {
		return nil, err
	}
	return u, nil
}

func portsOf(ports []int) string {
	var all []string
	for _, port := range ports {
		all = append(all, strconv.Itoa(port))
	}
	word := "port "
	if len(ports) > 1 {
		word = "ports "
	}
	return word + quantity.List(all)
}

// limitWritten is the CPU limit that the pod's spec or status gives a container; nil: it gives none, or that is unknown.
func (p *Pod) limitWritten(ctx context.Context, at *pod, name string) *cgroup.Limits {
	s, err := p.spec(ctx, at, name)
	if err != nil {
		return nil
	}
	l := forecast.For(s.workload).Of(s.container, binary.Binary{}, nil).Limit
	if l.State != workload.Known {
		return nil
	}
	return &cgroup.Limits{State: cgroup.Limited, CPUs: l.CPUs, From: "resources.limits of the " + string(l.Of)}
}

// count is what the agent knows about the program now.
func (k *witness) count(ctx context.Context) (*attach.Counted, error) {
	d, err := k.explain(ctx)
	if err != nil {
		return nil, err
	}
	c := &attach.Counted{PID: d.Subject.PID, Name: d.Subject.Name, Limits: limits(d), Reading: host.Reading{At: time.Now()}, Programs: k.of}
	if g := d.GOMAXPROCS; !g.Predicted && g.Value != nil {
		if c.Live = *g.Value; g.Source == string(choice.FromEnvironment) {
			c.Set = choice.FromEnvironment
		}
	}
	c.OutOfSight = d.Limit.Inside.Hides(c.Limits)
	t := &c.Reading.Groups
	t.Own, t.Owner = counters(d.Throttling.Own), counters(d.Throttling.Owner)
	if s := d.Throttling.LocalSeconds; s != nil {
		t.Local, t.LocalKnown = duration(*s), true
	}
	c.Reading.Counters = t.Owner
	return c, nil
}

// counters are what an agent says that the kernel has counted.
func counters(c report.Counters) cgroup.Counters {
	return cgroup.Counters{
		Dir: c.Dir, Known: c.Known, Periods: c.Periods, Throttled: c.ThrottledPeriods, ThrottledTime: duration(c.ThrottledSeconds),
		CPU: duration(of(c.CPU)), CPUKnown: c.CPU != nil,
	}
}
