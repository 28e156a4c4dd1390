package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// pinned finds a GOMAXPROCS that stays when the limit changes. The environment of a running container can't be changed.
func pinned(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || f.c.Role == workload.Init || !s.Valid() || s.Node || f.limit.State != workload.Known {
		return nil
	}
	follows := s.Target != nil // recreated with the container
	if follows && f.c.Resize == workload.ResizeRestart {
		return nil
	}
	does, known := f.itself()
	if by := f.resize; by.by != "" && (by.inPlace || !follows) && (follows || !by.startUp) {
		n := f.about(finding.Warning, f.takeOutIfKnown(f.renewed()), "GOMAXPROCS stays %s when the CPU limit changes", s.Value).saying("%s", f.source()).saying("%s", by.by)
		if by.startUp {
			n.fixed(f.takeOutIfKnown(f.fitting()))
			n.Summary = "GOMAXPROCS keeps for life what the CPU limit is at the start"
		}
		return one(n.saying("a container's environment stays as it was at its start, and a GOMAXPROCS there ends Go's own updates"))
	}
	if known && !does || f.asFixed() || f.w.Kind == "Job" || f.w.Kind == "CronJob" {
		return nil
	}
	n := f.about(finding.Info, f.takeOut(leave("leave it as it is", "an older program needs it")), "GOMAXPROCS is fixed at %s: Go 1.25 and later would follow the limit", s.Value).
		saying("%s, under %s", f.source(), f.limit)
	if known {
		n.Summary = "GOMAXPROCS is fixed at " + s.Value + ": without it the program would follow the limit"
		n = n.saying("the program is %s", f.b)
	} else {
		n = n.saying("for Go 1.25 and later with a go line to match; an older program needs it")
	}
	return one(n.saying("since Kubernetes 1.33 a limit can change while the program runs; the environment can't"))
}

// asFixed reports whether GOMAXPROCS is as a remedy leaves it for a program that does not follow its limit, or may not: by a
// reference, which is resolved for each new container, or as the number that a reference can't make. As long as nothing changes the
// limit of a running container there is nothing more to say about it.
func (f *facts) asFixed() bool {
	v := f.procs.Var
	if does, _ := f.itself(); does || v == nil {
		return false
	}
	fits := f.fitting().remedies[0]
	return v.Form == workload.ResourceRef || v.Form == workload.Literal && fits.Resource == "" && v.Text == fits.Value
}

// renewed is the fix for a program that needs GOMAXPROCS: that it is recreated with the container or the pod.
func (f *facts) renewed() fix {
	if fits := f.fitting(); !f.resize.inPlace && fits.remedies[0].Resource != "" {
		return fits
	}
	return leave("let a change of cpu restart the container (resizePolicy RestartContainer) and take GOMAXPROCS from limits.cpu",
		"an older program needs it, and whether it may be restarted when its limit changes is not for a tool to say")
}
