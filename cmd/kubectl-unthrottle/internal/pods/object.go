package pods

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod is what is read of a pod: a tenth of what there is, so that what a watch sends is forgotten at once.
type pod struct {
	Metadata struct {
		Namespace, Name, UID string
		ResourceVersion      string
		CreationTimestamp    time.Time
		Labels               map[string]string
		Annotations          map[string]string
		OwnerReferences      []struct {
			APIVersion, Kind, Name string
			Controller             bool
		}
	}
	Spec struct {
		NodeName                                        string
		Resources                                       resources
		InitContainers, Containers, EphemeralContainers []container
	}
	Status struct {
		InitContainerStatuses, ContainerStatuses, EphemeralContainerStatuses []status
	}
}

type container struct {
	Name, Image   string
	RestartPolicy string
	Resources     resources
	EnvFrom       []struct{}
	Env           []struct {
		Name, Value string
		ValueFrom   *struct {
			ResourceFieldRef              *struct{ Resource, ContainerName string }
			ConfigMapKeyRef, SecretKeyRef *struct{}
		}
	}
}

type status struct {
	Name, ContainerID, ImageID string
	RestartCount               int
	Resources                  resources
	State                      struct {
		Running struct{ StartedAt time.Time }
	}
}

type resources struct{ Limits, Requests amounts }

type amounts map[string]resource.Quantity

// cpus is 0 where there is none.
func (a amounts) cpus() float64 {
	q, ok := a["cpu"]
	if !ok {
		return 0
	}
	return q.AsApproximateFloat64()
}
