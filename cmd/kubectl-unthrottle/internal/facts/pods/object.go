package pods

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A pod is what is read of a pod: a tenth of what there is, so that what a watch sends is forgotten at once.
type pod struct {
	Metadata struct {
		Namespace, Name, UID string
		ResourceVersion      string
		CreationTimestamp    time.Time
		Labels               map[string]string
		Annotations          map[string]string
		OwnerReferences      []metav1.OwnerReference
		ManagedFields        []managed
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

// A managed entry says who has written some fields, and when. Those that a resize has written are separate.
type managed struct {
	Subresource string
	Time        time.Time
	FieldsV1    struct {
		Spec struct {
			Resources      written            `json:"f:resources"`
			Containers     map[string]changed `json:"f:containers"` // by k:{"name":"app"}
			InitContainers map[string]changed `json:"f:initContainers"`
		} `json:"f:spec"`
	}
}

type changed struct {
	Resources written `json:"f:resources"`
}

type written struct {
	Limits struct {
		CPU *struct{} `json:"f:cpu"`
	} `json:"f:limits"`
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

type amounts struct{ CPU cpus }

// cpus is a number of CPUs, 0 for none. Kubernetes' own library works for minutes on 7e-77777771, which this one refuses.
type cpus float64

func (c *cpus) UnmarshalJSON(data []byte) error {
	text := string(data)
	switch {
	case text == "null":
		return nil
	case text[0] == '"':
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	r, err := quantity.ParseResource(text)
	if err != nil {
		return fmt.Errorf("a number of CPUs: %w", err)
	}
	*c = cpus(r.Float())
	return nil
}
