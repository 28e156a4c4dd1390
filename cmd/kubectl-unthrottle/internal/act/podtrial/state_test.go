package podtrial

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
)

// TestJudge: what states of pods mean. A service.Error is the program's fault and counts against a setting, a Trouble is not.
func TestJudge(t *testing.T) {
	const running = "{name: server, state: {running: {startedAt: 2026-01-02T03:04:05Z}}}"
	for name, test := range map[string]struct {
		pod    string
		own    bool // it is the program's fault
		killed bool // for lack of memory
		later  bool
		want   string // "": nothing is wrong
		hint   string
	}{
		"running":    {pod: "{status: {phase: Running, containerStatuses: [" + running + "]}}"},
		"being made": {pod: "{status: {phase: Pending, containerStatuses: [{name: server, state: {waiting: {reason: ContainerCreating}}}]}}"},
		"no such image": {
			pod:  "{status: {containerStatuses: [{name: server, image: 'example.com/a:1', state: {waiting: {reason: ErrImagePull, message: not found}}}]}}",
			want: "image example.com/a:1 of container server can't be had: ErrImagePull: not found", hint: "imagePullSecrets",
		},
		"never pulled": {
			pod:  "{status: {containerStatuses: [{name: unthrottle-meter, image: unthrottle, state: {waiting: {reason: ErrImageNeverPull}}}]}}",
			want: "image unthrottle of container unthrottle-meter can't be had: ErrImageNeverPull", hint: "imagePullPolicy is Never",
		},
		"a bad name of an image": {
			pod:  "{status: {initContainerStatuses: [{name: init, image: 'A:B:C', state: {waiting: {reason: InvalidImageName}}}]}}",
			want: "image A:B:C of container init can't be had: InvalidImageName", hint: "registry.example.com",
		},
		"no such Secret": {
			pod:  "{status: {containerStatuses: [{name: server, state: {waiting: {reason: CreateContainerConfigError, message: 'secret \"x\" not found'}}}]}}",
			want: `container server can't be started: CreateContainerConfigError: secret "x" not found`, hint: "refers to is missing",
		},
		"out of memory": {
			pod: "{status: {phase: Failed, containerStatuses: [{name: server, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
			own: true, killed: true, want: "out of memory",
		},
		"out of memory, and its limit": {
			pod: "{spec: {containers: [{name: server, resources: {limits: {memory: 256Mi}}}, {name: unthrottle-meter, resources: {limits: {memory: 64Mi}}}]}, status: {containerStatuses: [{name: server, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
			own: true, killed: true, want: "out of memory: limit 256Mi",
		},
		"another container is out of memory": {
			pod: "{spec: {containers: [{name: server, resources: {limits: {memory: 256Mi}}}, {name: proxy, resources: {limits: {memory: 64Mi}}}]}, status: {containerStatuses: [" + running + ", {name: proxy, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
			own: true, killed: true, want: "out of memory: limit 64Mi, in container proxy",
		},
		"a runtime's own words": {
			pod: "{status: {containerStatuses: [{name: server, state: {terminated: {exitCode: 128, reason: StartError, message: \"exec: no\\nsuch file\"}}}]}}",
			own: true, want: "container server ended: it could not be started: exec: no such file",
		},
		"a crash": {
			pod: "{status: {phase: Failed, containerStatuses: [{name: server, state: {terminated: {exitCode: 2, reason: Error, message: the password is x}}}]}}",
			own: true, want: "container server ended: exit code 2",
		},
		"it ends well": {
			pod: "{status: {phase: Running, containerStatuses: [{name: server, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: unthrottle-meter, state: {running: {}}}]}}",
			own: true, want: "container server ended: exit code 0",
		},
		"the liveness probe": {
			pod: "{status: {containerStatuses: [{name: server, state: {terminated: {exitCode: 137, reason: Error}}}]}}",
			own: true, want: "container server ended: it was killed, as by a liveness probe that failed",
		},
		"an init container": {
			pod: "{status: {initContainerStatuses: [{name: migrate, state: {terminated: {exitCode: 1, reason: Error}}}]}}",
			own: true, want: "its init container migrate failed: exit code 1",
		},
		"the meter": {
			pod:  "{status: {containerStatuses: [" + running + ", {name: unthrottle-meter, state: {terminated: {exitCode: 1}}}]}}",
			want: "the meter of the server's CPU time has ended: exit code 1",
		},
		"preempted": {
			pod:   "{spec: {nodeName: n1}, status: {phase: Failed, conditions: [{type: DisruptionTarget, status: 'True', reason: PreemptionByScheduler, message: x}], containerStatuses: [{name: server, state: {terminated: {exitCode: 137}}}]}}",
			later: true, want: "the pod had to make room on node n1 for one of a higher priority", hint: "--node",
		},
		"evicted by the node": {
			pod:   "{metadata: {name: run-1-x}, spec: {nodeName: n1}, status: {phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.'}}",
			later: true, want: "node n1 evicted pod run-1-x: The node was low on resource: memory.", hint: "kubectl describe node n1",
		},
		"evicted by people": {
			pod:   "{metadata: {name: run-1-x}, spec: {nodeName: n1}, status: {conditions: [{type: DisruptionTarget, status: 'True', reason: EvictionByEvictionAPI, message: drained}]}}",
			later: true, want: "pod run-1-x was evicted from node n1: drained", hint: "drained",
		},
		"the node is lost": {
			pod:   "{spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: DisruptionTarget, status: 'True', reason: DeletionByTaintManager, message: unreachable}]}}",
			later: true, want: "node n1 was lost: unreachable", hint: "kubectl describe node n1",
		},
		"the node is silent": {
			pod:   "{spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: ContainersReady, status: 'True'}, {type: Ready, status: 'False'}]}}",
			later: true, want: "node n1 does not report any more", hint: "kubectl describe node n1",
		},
		"not ready yet": {pod: "{spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: ContainersReady, status: 'False'}, {type: Ready, status: 'False'}]}}"},
		"a readiness that nobody knows": {
			pod:   "{spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: Ready, status: Unknown, reason: NodeNotReady}]}}",
			later: true, want: "node n1 does not report any more", hint: "kubectl describe node n1",
		},
		"the node is full":    {pod: "{spec: {nodeName: n1}, status: {phase: Failed, reason: OutOfcpu, message: enough said}}", later: true, want: "node n1 has no room for the pod: enough said", hint: "--node"},
		"deleted":             {pod: "{metadata: {name: run-1-x, deletionTimestamp: 2026-01-02T03:04:05Z}, status: {phase: Running, containerStatuses: [" + running + "]}}", later: true, want: "pod run-1-x was deleted"},
		"the deadline":        {pod: "{status: {phase: Failed, reason: DeadlineExceeded}}", later: true, want: "the pod was there for longer than a run may take"},
		"nobody knows":        {pod: "{status: {phase: Failed, reason: Odd, message: thing}}", later: true, want: "the pod failed: Odd: thing"},
		"lost by its kubelet": {pod: "{status: {containerStatuses: [{name: server, state: {terminated: {exitCode: 137, reason: ContainerStatusUnknown}}}]}}", later: true, want: "the node lost sight of container server"},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pod
			if err := yaml.Unmarshal([]byte(test.pod), &p); err != nil {
				t.Fatal(err)
			}
			err := p.Judge()
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var own *service.Error
			var trouble *Trouble
			switch isOwn, is := errors.As(err, &own), errors.As(err, &trouble); {
			case test.own && (!isOwn || own.Why != test.want || own.Error() != test.want || own.Killed != test.killed), !test.own && (!is || trouble.Why != test.want || trouble.Later != test.later):
				t.Errorf("got %#v: %v\nwant %s", err, err, test.want)
			}
			if got := strings.Join(hint.Of(err), "; "); !strings.Contains(got, test.hint) || test.hint == "" && got != "" {
				t.Errorf("the hint is %q, want %q in it", got, test.hint)
			}
		})
	}
}

func TestWaiting(t *testing.T) {
	for text, want := range map[string]string{
		"{status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', message: 0/3 nodes are available}]}}": "no node has room for it yet: 0/3 nodes are available",
		"{status: {phase: Pending, initContainerStatuses: [{name: migrate, state: {running: {}}}]}}":                        "its init container migrate is at work",
		"{status: {phase: Pending, containerStatuses: [{name: server, state: {waiting: {reason: ContainerCreating}}}]}}":    "container server: ContainerCreating",
		"{status: {phase: Running, containerStatuses: [{name: server, state: {running: {}}}]}}":                             "its readiness probe does not succeed yet",
		"{status: {phase: Pending}}": "its containers are being made",
	} {
		var p Pod
		if err := yaml.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got := p.Waiting(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestNoPod(t *testing.T) {
	for message, want := range map[string]string{
		`Error creating: pods "run-1-x" is forbidden: exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=2, limited: limits.cpu=2`: "the quota has no room for a trial: exceeded quota: q",
		`Error creating: pods "run-1-x" is forbidden: violates PodSecurity "restricted:latest": x`:                                           "no pod may be made for a trial: violates PodSecurity",
		`Error creating: pods "run-1-x" is forbidden: maximum cpu usage per Container is 1, but limit is 2`:                                  "no pod may be made for a trial: maximum cpu",
		`Error creating: pods "run-1-x" is forbidden: error looking up service account a/default: serviceaccount "default" not found`:        "",
		`Error creating: pods "run-1-x" is forbidden: status unknown for quota: q, resources: limits.cpu`:                                    "",
		"Error creating: something else": "no pod may be made for a trial: Error creating: something else",
	} {
		err := NoPod([]corev1.Event{{Reason: "SuccessfulCreate"}, {Reason: "FailedCreate", Message: message}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", message, err, want)
		}
	}
}

// TestAmounts: Kubernetes' own library would parse these for minutes.
func TestAmounts(t *testing.T) {
	const amounts = "resources: {limits: {memory: '7e-77777771'}, requests: {cpu: '7e-77777771'}}, overhead: {cpu: '7e-77777771'}, allocatedResources: {cpu: '7e-77777771'}"
	var p Pod
	err := yaml.Unmarshal([]byte("{spec: {"+amounts+", containers: [{name: server, "+amounts+"}]}, status: {"+amounts+", containerStatuses: [{name: server, "+amounts+"}]}}"), &p)
	if text := p.outOfMemory("server"); err != nil || text != "out of memory: limit 7e-77777771" {
		t.Errorf("%q, %v", text, err)
	}
}
