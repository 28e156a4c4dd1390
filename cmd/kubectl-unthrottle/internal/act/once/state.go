package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// A state is what Kubernetes says about a Job's pod.
type state struct {
	Metadata struct{ Name string }
	Status   struct {
		Phase             corev1.PodPhase
		Reason            string
		ContainerStatuses []struct{ State corev1.ContainerState }
	}
}

// hopeless are reasons for which a container waits that time does not mend.
var hopeless = map[string]string{
	"ErrImagePull": "its image can't be pulled", "ImagePullBackOff": "its image can't be pulled", "ErrImageNeverPull": "its image is not on the node",
	"InvalidImageName": "the name of its image is not valid", "CreateContainerConfigError": "its container can't be made as it is to be",
	"CreateContainerError": "its container can't be made", "RunContainerError": "its container can't be started",
}

// over reports whether a pod has ended well; an error is why it never will.
func (s *state) over() (bool, error) {
	if s.Status.Phase == corev1.PodSucceeded {
		return true, nil
	}
	for _, c := range s.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && hopeless[w.Reason] != "" {
			return false, hint.With(errors.New(hopeless[w.Reason]), "--once-image names an image of kubectl-unthrottle that this cluster can pull and run")
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return false, fmt.Errorf("what looked there ended with exit code %d", t.ExitCode)
		}
	}
	if s.Status.Phase == corev1.PodFailed {
		return false, refused(s.Status.Reason)
	}
	return false, nil
}

// refused is why a kubelet runs no such pod. Its reason is a word.
func refused(reason string) error {
	switch reason {
	case "NodeAffinity", "NodeSelectorMismatching", "InvalidNodeInfo", "PodOSNotSupported":
		return errors.New("its node does not run Linux")
	case "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage":
		return errors.New("its node has no room for the pod")
	}
	return errors.New("its node refuses the pod, or has ended it")
}

// errLate is the error of a node that never ran its pod.
var errLate = hint.With(fmt.Errorf("no pod ran there within %v, as on virtual nodes and those that are not ready", Lasting), "kubectl describe node says whether it is ready")

// errNoPod is the error of a Job that got no pod, and no event says why.
var errNoPod = hint.With(fmt.Errorf("no pod was made of its Job within %v", Lasting), "the events of that namespace say why, as where an admission policy refuses it")

// done waits until the pod of a Job has ended well. pod becomes its name, once there is one.
func (l *Look) done(ctx context.Context, job string, pod *string) error {
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.every):
		}
		data, err := cluster.Raw(ctx, l.client.Get().AbsPath(l.pods()).Param("labelSelector", "batch.kubernetes.io/job-name="+job).Param("limit", "1"))
		if err != nil {
			return err
		}
		var list struct{ Items []state }
		if err := json.Unmarshal(data, &list); err != nil {
			return fmt.Errorf("its answer is not a list of pods: %w", err)
		}
		switch {
		case len(list.Items) > 0:
			*pod = list.Items[0].Metadata.Name
			if over, err := list.Items[0].over(); over || err != nil {
				return err
			}
		case *pod != "":
			return errors.New("its pod was deleted before it had ended")
		case turn%patience == 0:
			if why := l.noPod(ctx, job); why != nil {
				return why
			}
		}
	}
}

// patience is after how many looks events are asked why there is no pod: a controller tries again.
const patience = 3

// noPod is why no pod is made of a Job, by its events; nil: they don't say, or may not be read.
func (l *Look) noPod(ctx context.Context, job string) error {
	path := "/api/v1/namespaces/" + url.PathEscape(l.namespace) + "/events"
	data, err := cluster.Raw(ctx, l.client.Get().AbsPath(path).Param("fieldSelector", "involvedObject.kind=Job,involvedObject.name="+job).Param("limit", "50"))
	var events struct {
		Items []struct{ Reason, Message string }
	}
	if err != nil || json.Unmarshal(data, &events) != nil {
		return nil
	}
	for _, e := range events.Items {
		// An account or the use of a quota may not be there yet, in the first moments of a namespace.
		if e.Reason != "FailedCreate" || strings.Contains(e.Message, "error looking up service account") || strings.Contains(e.Message, "status unknown for quota") {
			continue
		}
		_, why, found := strings.Cut(e.Message, " is forbidden: ") // the pod's name is before that
		if !found {
			why = e.Message
		}
		return hint.With(errors.New("no pod may be made there: "+why), "docs/without-agents.md says what is known without it; --agents NAMESPACE names another namespace")
	}
	return nil
}
