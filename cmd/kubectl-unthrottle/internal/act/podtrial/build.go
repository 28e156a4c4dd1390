package podtrial

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// Labels of all that is made. Those of the user's pods are on none of it, so that no Service, PodDisruptionBudget or autoscaler takes
// a trial for one of its pods.
const (
	managedBy  = "app.kubernetes.io/managed-by"
	ours       = "unthrottle-tune"
	studyLabel = cluster.TrialKey
	runLabel   = "unthrottle.dev/run"
	partLabel  = "unthrottle.dev/part" // server or load
)

// Names of containers of ours.
const (
	meterName = "unthrottle-meter"
	loadName  = "unthrottle-load"
)

// A Kit is what all manifests of a study have in common.
type Kit struct {
	Study      string // a short name, and the namespace's ending
	Namespace  string
	Owned      bool   // the namespace is the study's own
	Levels     object // labels that it has then, of Pod Security: those of the workload's namespace
	Image      string // ours, with the verbs load, sidecar and expire
	PullPolicy string // of it; "": Kubernetes' own choice
	OwnerUID   string // of the owner; "": it is not made yet, as in a dry run
	CapAll     bool   // a quota wants a CPU limit of every container
	LoadCPUs   float64
	Port       int
	Node       string   // whose pods they are; "": the scheduler's choice
	Avoid      []string // nodes that it may not choose
}

// name is that of an object: where the namespace is not the study's own the name says whose it is.
func (k *Kit) name(short string) string {
	if k.Owned {
		return short
	}
	return ours + "-" + k.Study + "-" + short
}

func (k *Kit) owner() string { return k.name("study") }

func (k *Kit) meta(name, run, part string) object {
	labels := object{managedBy: ours, studyLabel: k.Study}
	if run != "" {
		labels[runLabel] = run
	}
	if part != "" {
		labels[partLabel] = part
	}
	meta := object{"name": name, "namespace": k.Namespace, "labels": labels}
	if k.OwnerUID != "" {
		meta["ownerReferences"] = []any{object{
			"apiVersion": "batch/v1", "kind": "Job", "name": k.owner(), "uid": k.OwnerUID, "blockOwnerDeletion": false, "controller": false,
		}}
	}
	return meta
}

// What is left of a Job whose pods have ended is there for so long, so that its log can be read.
const keepFinished = 5 * time.Minute

// job is a Job that is tried once.
func (k *Kit) job(name, run, part string, deadline time.Duration, annotations, spec object) object {
	labels := object{managedBy: ours, studyLabel: k.Study, runLabel: run, partLabel: part}
	meta := object{"labels": labels}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": k.meta(name, run, part),
		"spec": object{
			"backoffLimit": 0, "completions": 1, "parallelism": 1,
			"activeDeadlineSeconds": int(math.Ceil(deadline.Seconds())), "ttlSecondsAfterFinished": int(keepFinished.Seconds()),
			"template": object{"metadata": meta, "spec": spec},
		},
	}
}

// Grace is how long a server may take to end.
const Grace = 10

// ServerJob is a Job with a pod of the user's under a setting, and next to its containers one that counts what they use.
func (k *Kit) ServerJob(t *Template, run string, s lab.Setting, trace bool, deadline time.Duration) (object, error) {
	spec := clone(t.Spec)
	for _, key := range []string{
		"nodeName", "serviceAccount", "serviceAccountName", // an account of the user's namespace is not in the study's
		"priority", "priorityClassName", "preemptionPolicy", // a trial takes no one's place
		"readinessGates", "activeDeadlineSeconds", "overhead", "topologySpreadConstraints", "ephemeralContainers",
		"resources", // of all containers together: what is tried is the limit of one
	} {
		delete(spec, key)
	}
	if affinity := at(spec, "affinity"); affinity != nil { // to pods by labels that trials don't have
		delete(affinity, "podAffinity")
		delete(affinity, "podAntiAffinity")
	}
	spec["restartPolicy"] = "Never"
	if explicit, _ := spec["automountServiceAccountToken"].(bool); !explicit {
		spec["automountServiceAccountToken"] = false
	}
	if host, _ := spec["hostPID"].(bool); !host {
		spec["shareProcessNamespace"] = true // by which the meter sees the server
	}
	if grace, ok := spec["terminationGracePeriodSeconds"].(float64); !ok || grace > Grace {
		spec["terminationGracePeriodSeconds"] = Grace
	}
	if host, _ := spec["hostNetwork"].(bool); !host {
		withoutHostPorts(spec)
	}
	k.onNode(spec)
	c := named(list(spec, "containers"), t.Container)
	setUp(c, s, trace)
	if c["readinessProbe"] == nil {
		c["readinessProbe"] = object{"tcpSocket": object{"port": k.Port}, "periodSeconds": 1, "failureThreshold": 1000}
	}
	spec["containers"] = append(spec["containers"].([]any), k.meter(spec, c))
	annotations := clone(t.Annotations)
	for _, key := range []string{"kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/last-applied-configuration"} {
		delete(annotations, key)
	}
	return k.job(k.name(run), run, "server", deadline, annotations, spec), nil
}

// onNode binds a pod to the study's node, by way of the scheduler: it knows best whether there is room.
func (k *Kit) onNode(spec object) {
	only := object{"key": "metadata.name", "operator": "In", "values": []any{k.Node}}
	switch {
	case k.Node == "" && len(k.Avoid) == 0:
		return
	case k.Node == "" && len(k.Avoid) > 1: // a rule names one node
		k.avoidEach(spec)
		return
	case k.Node == "":
		only["operator"], only["values"] = "NotIn", []any{k.Avoid[0]}
	}
	rule(spec, only)
}

func (k *Kit) avoidEach(spec object) {
	for _, name := range k.Avoid {
		rule(spec, object{"key": "metadata.name", "operator": "NotIn", "values": []any{name}})
	}
}

// rule adds one about a node's fields.
func rule(spec, only object) {
	node := under(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	terms := list(node, "nodeSelectorTerms")
	if len(terms) == 0 {
		terms = []object{{}}
	}
	for _, term := range terms { // one of them must hold, so it goes into each
		term["matchFields"] = append(anys(list(term, "matchFields")), any(only))
	}
	node["nodeSelectorTerms"] = anys(terms)
}

// withoutHostPorts lets a trial run next to the user's own pods on a node.
func withoutHostPorts(spec object) {
	for _, key := range []string{"containers", "initContainers"} {
		for _, c := range list(spec, key) {
			for _, p := range list(c, "ports") {
				delete(p, "hostPort")
			}
		}
	}
}

// setUp puts a setting into a container.
func setUp(c object, s lab.Setting, trace bool) {
	resources := under(c, "resources")
	limits, requests := under(resources, "limits"), under(resources, "requests")
	if s.CPUs > 0 {
		asked, err := quantity.ParseResource(fmt.Sprint(requests["cpu"]))
		if requests["cpu"] == nil || err != nil || asked.Float() > s.CPUs || same(requests["cpu"], limits["cpu"]) {
			requests["cpu"] = milli(s.CPUs)
		}
		limits["cpu"] = milli(s.CPUs)
	} else {
		delete(limits, "cpu")
	}
	if s.Procs > 0 {
		setEnv(c, "GOMAXPROCS", strconv.Itoa(s.Procs))
	}
	if s.GOGC > 0 {
		setEnv(c, "GOGC", strconv.Itoa(s.GOGC))
	}
	if s.GOMEMLIMIT != "" {
		setEnv(c, "GOMEMLIMIT", s.GOMEMLIMIT)
	}
	if !trace {
		return
	}
	old := named(list(c, "env"), "GODEBUG")
	switch {
	case old == nil || text(old, "value") == "" && old["valueFrom"] == nil:
		setEnv(c, "GODEBUG", goself.GCTrace)
	case old["valueFrom"] == nil:
		setEnv(c, "GODEBUG", text(old, "value")+","+goself.GCTrace) // the last one counts
	}
}

// same reports whether two quantities are.
func same(a, b any) bool {
	x, err := quantity.ParseResource(fmt.Sprint(a))
	y, err2 := quantity.ParseResource(fmt.Sprint(b))
	return err == nil && err2 == nil && x.Float() == y.Float()
}

// guaranteed reports whether a container gets all that it is limited to: a pod whose containers all do is in a class of its own, and
// must not lose it by what is put next to it.
func guaranteed(c object) bool {
	limits, requests := at(c, "resources", "limits"), at(c, "resources", "requests")
	return same(limits["cpu"], requests["cpu"]) && same(limits["memory"], requests["memory"])
}

// milli writes a number of CPUs as Kubernetes has it.
func milli(cpus float64) string { return strconv.FormatInt(int64(math.Round(cpus*1000)), 10) + "m" }

// setEnv sets a variable. Its place stays, as others may refer to it.
func setEnv(c object, name, value string) {
	env := list(c, "env")
	i := slices.IndexFunc(env, func(e object) bool { return text(e, "name") == name })
	if i < 0 {
		env = append(env, nil)
		i = len(env) - 1
	}
	env[i] = object{"name": name, "value": value}
	c["env"] = anys(env)
}

// meter is the container that looks at the others of its pod.
func (k *Kit) meter(spec, server object) object {
	c := k.container(meterName, []any{"sidecar"}, "10m", "32Mi", "100m", "64Mi")
	if guaranteed(server) {
		resources := under(c, "resources")
		resources["limits"] = object{"cpu": "100m", "memory": "64Mi"}
		resources["requests"] = resources["limits"]
	}
	c["securityContext"] = meterContext(at(spec, "securityContext"), at(server, "securityContext"))
	return c
}

// meterContext makes the meter what the server is, because the kernel lets it look at no one else: the same user, and no
// fewer capabilities. If the manifest does not name the user it begins as root, if it may, and becomes the server's user.
func meterContext(pod, server object) object {
	m := clone(server)
	if m == nil {
		m = object{}
	}
	m["readOnlyRootFilesystem"] = true
	of := func(key string) any {
		if v, ok := server[key]; ok {
			return v
		}
		return pod[key]
	}
	nonRoot, _ := of("runAsNonRoot").(bool)
	if of("runAsUser") != nil || nonRoot {
		return m
	}
	m["runAsUser"], m["runAsGroup"] = 0, 0
	if capabilities := at(m, "capabilities"); capabilities != nil {
		if dropped, _ := capabilities["drop"].([]any); len(dropped) > 0 {
			added, _ := capabilities["add"].([]any)
			capabilities["add"] = append(added, "SETUID", "SETGID")
		}
	}
	return m
}

// container is one of ours. It has a CPU limit only where a quota wants one.
func (k *Kit) container(name string, args []any, cpu, memory, mostCPU, mostMemory string) object {
	limits := object{"memory": mostMemory}
	if k.CapAll {
		limits["cpu"] = mostCPU
	}
	c := object{
		"name": name, "image": k.Image, "args": args,
		"resources": object{"requests": object{"cpu": cpu, "memory": memory}, "limits": limits},
	}
	if k.PullPolicy != "" {
		c["imagePullPolicy"] = k.PullPolicy
	}
	return c
}

// plain is what a pod of ours is that only sends and receives: the user nobody, with no privileges.
func (k *Kit) plain(spec object) object {
	spec["restartPolicy"] = "Never"
	if spec["automountServiceAccountToken"] == nil {
		spec["automountServiceAccountToken"] = false
	}
	spec["securityContext"] = object{"runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534, "seccompProfile": object{"type": "RuntimeDefault"}}
	for _, c := range list(spec, "containers") {
		c["securityContext"] = object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []any{"ALL"}}}
	}
	return spec
}

// LoadJob is a Job that sends a load to a server on the same node. Its arguments are those of the verb load.
func (k *Kit) LoadJob(t *Template, run, name string, args []string, deadline time.Duration) object {
	var all []any
	for _, a := range append([]string{"load"}, args...) {
		all = append(all, a)
	}
	most := milli(max(k.LoadCPUs, 1))
	spec := k.plain(object{"containers": []any{k.container(loadName, all, "100m", "64Mi", most, "512Mi")}})
	for _, key := range []string{"tolerations", "hostNetwork", "dnsPolicy", "runtimeClassName", "imagePullSecrets"} { // where the server may be
		if v, ok := t.Spec[key]; ok {
			spec[key] = v
		}
	}
	k.onNode(spec)
	return k.job(k.name(name), run, "load", deadline, nil, spec)
}

// Space are the objects of a study that are there before its first run, in the order in which they are made: first the owner,
// whose end is the end of all.
func (k *Kit) Space(lease time.Duration) (space, owner object, rest []object) {
	labels := object{managedBy: ours, studyLabel: k.Study}
	ofSpace := maps.Clone(labels)
	maps.Copy(ofSpace, k.Levels)
	space = object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": k.Namespace, "labels": ofSpace}}
	none := *k
	none.OwnerUID = ""
	// It runs no pod. Its controller ends it at its deadline, and takes it away at once; what it owns goes with it.
	owner = none.job(none.owner(), "", "", lease, nil, k.plain(object{"containers": []any{k.container("none", []any{"version"}, "1m", "1Mi", "1m", "1Mi")}}))
	owner["metadata"] = none.meta(none.owner(), "", "")
	under(owner, "spec")["parallelism"] = 0
	under(owner, "spec")["ttlSecondsAfterFinished"] = 0
	under(owner, "spec", "template")["metadata"] = object{"labels": labels}
	if !k.Owned {
		return nil, owner, nil
	}
	const name = "expire"
	account := object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": none.meta(name, "", ""), "automountServiceAccountToken": false}
	role := object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": none.meta(name, "", ""), "rules": []any{
		object{"apiGroups": []any{""}, "resources": []any{"namespaces"}, "resourceNames": []any{k.Namespace}, "verbs": []any{"delete"}},
		object{"apiGroups": []any{"batch"}, "resources": []any{"jobs"}, "resourceNames": []any{none.owner()}, "verbs": []any{"get"}},
	}}
	binding := object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": none.meta(name, "", ""),
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []any{object{"kind": "ServiceAccount", "name": name, "namespace": k.Namespace}},
	}
	// It outlives the owner, so it is not among what that owns. Its own end is not waited for: the namespace's is.
	spec := k.plain(object{
		"serviceAccountName": name, "automountServiceAccountToken": true,
		"containers": []any{k.container(name, []any{"expire", "--namespace", k.Namespace, "--owner", none.owner()}, "1m", "16Mi", "10m", "64Mi")},
	})
	spec["restartPolicy"] = "OnFailure"
	cleaner := none.job(name, "", name, 0, nil, spec)
	cleaner["metadata"] = none.meta(name, "", name)
	job := under(cleaner, "spec")
	delete(job, "activeDeadlineSeconds")
	delete(job, "ttlSecondsAfterFinished")
	job["backoffLimit"] = 1000
	under(job, "template")["metadata"] = object{"labels": object{managedBy: ours, studyLabel: k.Study, partLabel: name}}
	return space, owner, []object{account, role, binding, cleaner}
}

// Copy is an object of another namespace for the study's: what it holds, without its identity.
func (k *Kit) Copy(o object) object {
	c := object{"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": k.meta(text(o, "metadata", "name"), "", "")}
	for _, key := range []string{"data", "binaryData", "type", "immutable", "spec"} {
		if v, ok := o[key]; ok {
			c[key] = v
		}
	}
	return c
}
