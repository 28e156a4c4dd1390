package cluster

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// ReadPod reads a live pod, as the API server has sent it, into the facts that rules use. It gets the ConfigMaps that bring variables of
// interest. What the namespace's LimitRanges say is in the pod already.
func ReadPod(ctx context.Context, c rest.Interface, data []byte) (*workload.Workload, []manifest.Problem, error) {
	r := &reading{
		client: &client{rest: c}, live: manifest.NewLive(), asked: map[manifest.Name]bool{}, refused: map[string]bool{}, found: &Found{},
	}
	o, err := r.live.Add(data, "Pod", "v1")
	if err != nil {
		return nil, nil, err
	}
	if len(o.Workloads) != 1 {
		return nil, nil, fmt.Errorf("%s has no containers", o)
	}
	r.resolve(ctx)
	return o.Workloads[0], append(r.live.Problems(), r.found.Problems...), ctx.Err()
}
