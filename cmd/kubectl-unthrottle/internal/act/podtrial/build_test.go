package podtrial

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

var update = flag.Bool("update", false, "write the golden files")

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: team}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata:
      labels: {app: api}
      annotations: {kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z", example.com/keep: "yes"}
    spec:
      serviceAccountName: api
      priorityClassName: high
      terminationGracePeriodSeconds: 60
      imagePullSecrets: [{name: registry}]
      tolerations: [{key: dedicated, operator: Exists}]
      nodeSelector: {disk: fast}
      affinity:
        podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: api}}}]}
        nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: api}}}]
      initContainers:
      - {name: migrate, image: example.com/migrate:1, resources: {limits: {cpu: 100m}}, env: [{name: DSN, valueFrom: {secretKeyRef: {name: database, key: dsn}}}]}
      containers:
      - name: proxy
        image: example.com/proxy:2
        ports: [{containerPort: 9000, hostPort: 9000}]
        resources: {limits: {cpu: 100m}}
      - name: server
        image: example.com/server:7
        command: [/server]
        args: [--listen, ":8080"]
        ports: [{containerPort: 8080}]
        env:
        - {name: MODE, value: fast}
        - {name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        - {name: GODEBUG, value: madvdontneed=1}
        - {name: AFTER, value: $(GOMAXPROCS)}
        envFrom: [{configMapRef: {name: settings}}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}}
        livenessProbe: {httpGet: {path: /live, port: 8080}}
        resources: {requests: {cpu: "1", memory: 256Mi}, limits: {cpu: "2", memory: 512Mi}}
        securityContext: {runAsUser: 1000, runAsGroup: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: cache, mountPath: /cache}, {name: settings, mountPath: /etc/settings}]
      volumes:
      - {name: cache, emptyDir: {sizeLimit: 10Gi}}
      - {name: settings, projected: {sources: [{configMap: {name: settings}}, {secret: {name: tls}}]}}
`

const simple = `
apiVersion: v1
kind: Pod
metadata: {name: tiny, namespace: team, labels: {app: tiny}}
spec:
  nodeName: n5
  serviceAccountName: default
  containers:
  - name: server
    image: example.com/tiny@sha256:0000000000000000000000000000000000000000000000000000000000000001
    volumeMounts: [{name: kube-api-access-x2x, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
  volumes: [{name: kube-api-access-x2x, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
`

func template(t testing.TB, text, container string) *Template {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := ParseTemplate(data, container)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

// TestManifests: what is made of a workload, in golden files.
func TestManifests(t *testing.T) {
	for name, test := range map[string]struct {
		text, container string
		kit             Kit
		setting         lab.Setting
	}{
		"deployment": {deployment, "server", Kit{
			Study: "k3x9qd", Namespace: "unthrottle-tune-k3x9qd", Owned: true, Image: "example.com/unthrottle:1", OwnerUID: "u-1", CapAll: true, LoadCPUs: 2, Port: 8080, Node: "n1",
		}, lab.Setting{CPUs: 0.5, Procs: 1, GOGC: 400, GOMEMLIMIT: "230MiB"}},
		"pod": {simple, "", Kit{Study: "k3x9qd", Namespace: "team", Image: "unthrottle", PullPolicy: "Never", Port: 80}, lab.Setting{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Kit: test.kit, Template: template(t, test.text, test.container), Scheme: "http", Path: "/work?cpu=1ms", Load: []string{"--timeout", "10s"}}
			before := clone(s.Template.Spec)
			all, err := s.Manifests(test.setting, trial.Shot{Rate: 100, WarmUp: time.Second, Lasting: 5 * time.Second, Seed: 7}, Lease)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := Print(&b, all); err != nil {
				t.Fatal(err)
			}
			var was, is bytes.Buffer
			Print(&was, []map[string]any{before})
			Print(&is, []map[string]any{s.Template.Spec})
			if was.String() != is.String() {
				t.Error("the template was changed")
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("not as in %s; -update writes it again:\n%s", path, b.String())
			}
		})
	}
}

func TestTemplate(t *testing.T) {
	d := template(t, deployment, "server")
	if d.String() != "deployment/api" || d.CPUs() != 2 {
		t.Errorf("got %s with %v CPUs", d, d.CPUs())
	}
	if port, ok := d.Port(); !ok || port != 8080 {
		t.Errorf("port %d, %v", port, ok)
	}
	if v, set, known := d.Env("MODE"); v != "fast" || !set || !known {
		t.Errorf("MODE: %q, %v, %v", v, set, known)
	}
	if _, set, known := d.Env("GOMAXPROCS"); !set || known {
		t.Errorf("GOMAXPROCS: %v, %v", set, known)
	}
	if _, set, known := d.Env("NONE"); set || !known {
		t.Errorf("NONE: %v, %v", set, known)
	}
	var needs []string
	for _, n := range d.Needs() {
		needs = append(needs, n.String())
	}
	if got, want := strings.Join(needs, " "), "secret/registry configmap/settings secret/tls secret/database"; got != want {
		t.Errorf("it needs %s, want %s", got, want)
	}
	for name, test := range map[string]struct{ text, container, err string }{
		"several containers":    {deployment, "", "deployment/api has 2 containers: which of them is the server?"},
		"no such container":     {deployment, "app", "deployment/api has no container app"},
		"nothing that is a pod": {"{kind: Service, metadata: {name: x}, spec: {ports: []}}", "", "service/x makes no pods: no containers"},
	} {
		data, _ := yaml.YAMLToJSON([]byte(test.text))
		if _, err := ParseTemplate(data, test.container); err == nil || err.Error() != test.err {
			t.Errorf("%s: %v, want %s", name, err, test.err)
		}
	}
	cron := "{kind: CronJob, metadata: {name: x}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 500m}}}]}}}}}}"
	if got := template(t, cron, ""); got.Container != "a" || got.CPUs() != 0.5 {
		t.Errorf("of a CronJob: %+v", got)
	}
}

// TestMeterContext: the meter is what the server is, and begins as root only where nothing says who that is.
func TestMeterContext(t *testing.T) {
	for name, test := range map[string]struct{ pod, server, want string }{
		"nothing said":        {"{}", "{}", "{readOnlyRootFilesystem: true, runAsGroup: 0, runAsUser: 0}"},
		"its capabilities":    {"{}", "{capabilities: {drop: [ALL]}}", "{capabilities: {add: [SETUID, SETGID], drop: [ALL]}, readOnlyRootFilesystem: true, runAsGroup: 0, runAsUser: 0}"},
		"the pod's user":      {"{runAsUser: 7}", "{}", "{readOnlyRootFilesystem: true}"},
		"the server's user":   {"{runAsUser: 7}", "{runAsUser: 8}", "{readOnlyRootFilesystem: true, runAsUser: 8}"},
		"anybody but root":    {"{runAsNonRoot: true}", "{}", "{readOnlyRootFilesystem: true}"},
		"root after all":      {"{runAsNonRoot: true}", "{runAsNonRoot: false}", "{readOnlyRootFilesystem: true, runAsGroup: 0, runAsNonRoot: false, runAsUser: 0}"},
		"more than the usual": {"{}", "{runAsUser: 0, privileged: true}", "{privileged: true, readOnlyRootFilesystem: true, runAsUser: 0}"},
	} {
		read := func(text string) (o object) {
			if err := yaml.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			return o
		}
		got, _ := yaml.Marshal(meterContext(read(test.pod), read(test.server)))
		want, _ := yaml.Marshal(read(test.want))
		if string(got) != string(want) {
			t.Errorf("%s:\n%swant\n%s", name, got, want)
		}
	}
}

// TestGuaranteed: a pod that gets all that it is limited to does so in trials as well.
func TestGuaranteed(t *testing.T) {
	text := "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, resources: {requests: {cpu: 2000m, memory: 1Gi}, limits: {cpu: 2, memory: 1024Mi}}}]}}"
	k := Kit{Study: "x", Namespace: "x", Owned: true, Port: 80}
	for _, cpus := range []float64{0.5, 4} {
		job, err := k.ServerJob(template(t, text, ""), "run-1", lab.Setting{CPUs: cpus}, false, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list(job, "spec", "template", "spec", "containers") {
			if !guaranteed(c) {
				t.Errorf("with %v CPUs container %s is not: %v", cpus, text, c["resources"])
			}
		}
	}
}
