package policy

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// A case is a pod's spec. differs says why a policy leaves alone what lint has a remedy for, or says nothing where lint warns.
type agreeing struct {
	name, spec string
	differs    string
	quiet      bool // the same for the policy that warns
}

// The differences between a policy and the product, all of them: docs/policy.md has the same list.
const (
	godebug = "GODEBUG is somebody's switch: it is warned of, and not taken out"
	command = "a command that speaks of GOMAXPROCS, even as $(GOMAXPROCS), is left alone"
	others  = "another container's limit is not looked up"
	twice   = "a variable that is there twice is left alone"
	nobodys = "a reference to a container that is not there is not looked up"
)

func ref(name, resource, divisor string) string {
	text := "{name: " + name + ", valueFrom: {resourceFieldRef: {resource: " + resource
	if divisor != "" {
		text += `, divisor: "` + divisor + `"`
	}
	return text + "}}}"
}

func app(parts ...string) string { return "containers: [" + container("app", parts...) + "]" }

func container(name string, parts ...string) string {
	return "{name: " + name + ", image: example.com/" + name + ":1, " + strings.Join(parts, ", ") + "}"
}
func limit(text string) string  { return "resources: {limits: {cpu: " + text + "}}" }
func env(list ...string) string { return "env: [" + strings.Join(list, ", ") + "]" }
func literal(name, value string) string {
	return "{name: " + name + ", value: " + strconv.Quote(value) + "}"
}
func procsIs(value string) string { return literal("GOMAXPROCS", value) }

func cases() []agreeing {
	list := []agreeing{
		{name: "nothing", spec: app(limit("500m"))},
		{name: "nobody's business", spec: app(env(literal("A", "1")))},
		{name: "of several containers", spec: "containers: [" + container("a", limit("500m"), env(literal("A", "1"), ref("GOMAXPROCS", "limits.cpu", "1m"), literal("Z", "1"))) +
			", " + container("b", env(ref("GOMAXPROCS", "limits.cpu", "1"))) + ", " + container("c", limit("2"), env(procsIs("16"))) + "]"},
		{name: "a pod's limit", spec: "resources: {limits: {cpu: 3}}, " + app(env(procsIs("16")))},
		{name: "a pod's limit by reference", spec: "resources: {limits: {cpu: 3}}, " + app(env(ref("GOMAXPROCS", "limits.cpu", "1")))},
		{name: "a pod's limit in thousandths", spec: "resources: {limits: {cpu: 1500m}}, " + app(env(ref("GOMAXPROCS", "limits.cpu", "1m")))},
		{name: "a pod's limit of half a CPU, and what Go ignores", spec: "resources: {limits: {cpu: 500m}}, " + app(env(procsIs("500m")))},
		{name: "nginx", spec: "containers: [{name: web, image: docker.io/library/nginx:1.27@sha256:0000, resources: {limits: {cpu: 1}}, env: [" + procsIs("16") + "]}]"},
		{name: "java by its command", spec: app("command: [/usr/bin/java]", limit("1"), env(procsIs("16")))},
		{name: "an image of nginx's owner", spec: "containers: [{name: web, image: 'nginx/nginx-ingress:1', resources: {limits: {cpu: 1}}, env: [" + procsIs("16") + "]}]"},
		{name: "its own name", spec: app(limit("250m"), "env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}}]")},
		{name: "another's limit", differs: others, quiet: true, spec: "containers: [" + container("a", limit("8")) + ", " +
			container("b", limit("1"), "env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {containerName: a, resource: limits.cpu, divisor: \"1\"}}}]") + "]"},
		{name: "nobody's limit", differs: nobodys, quiet: true, spec: app(limit("2"), "env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {containerName: no, resource: limits.cpu, divisor: \"1\"}}}]")},
		{name: "referred to in a command", differs: command, quiet: true, spec: app(limit("2"), "args: ['-p=$(GOMAXPROCS)']", env(procsIs("16")))},
		{name: "set by a command", spec: app(limit("2"), "command: [sh, -c, GOMAXPROCS=4 exec app]", env(procsIs("16")))},
		{name: "set by nproc", spec: app(limit("2"), "command: [sh, -c, GOMAXPROCS=$(nproc) exec app]")},
		{name: "set by nproc, no limit", spec: app("command: [sh, -c, GOMAXPROCS=$(nproc) exec app]")},
		{name: "referred to by another variable", spec: app(env(ref("GOMAXPROCS", "limits.cpu", "1"), literal("P", "$(GOMAXPROCS)")))},
		{name: "above, referred to by another variable", spec: app(limit("2"), env(procsIs("16"), literal("P", "$(GOMAXPROCS)")))},
		{name: "thousandths, referred to by another variable", spec: app(limit("2"), env(ref("GOMAXPROCS", "limits.cpu", "1m"), literal("P", "-p=$(GOMAXPROCS)")))},
		{name: "above, another one is referred to", spec: app(limit("2"), env(procsIs("16"), literal("Q", "1"), literal("P", "$(Q)")))},
		{name: "put together", spec: app(limit("2"), env(literal("N", "16"), procsIs("$(N)"))), quiet: true},
		{name: "twice", differs: twice, spec: app(limit("2"), env(procsIs("2"), procsIs("16")))},
		{name: "a ConfigMap may set it, too", spec: app(env(ref("GOMAXPROCS", "limits.cpu", "1")), "envFrom: [{configMapRef: {name: a}}]")},
		{name: "a ConfigMap may not set it", spec: app(env(ref("GOMAXPROCS", "limits.cpu", "1")), "envFrom: [{prefix: X_, configMapRef: {name: a}}]")},
		{name: "a ConfigMap may set it with its prefix", spec: app(env(ref("GOMAXPROCS", "limits.cpu", "1")), "envFrom: [{prefix: GOMAX, configMapRef: {name: a}}]")},
		{name: "a ConfigMap may set it, repaired", spec: app(limit("2"), env(ref("GOMAXPROCS", "limits.cpu", "1m")), "envFrom: [{configMapRef: {name: a}}]")},
		{name: "from a ConfigMap", spec: app(limit("2"), "env: [{name: GOMAXPROCS, valueFrom: {configMapKeyRef: {name: a, key: b}}}]")},
		{name: "from a field", spec: app(limit("2"), "env: [{name: GOMAXPROCS, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['p']\"}}}]")},
		{name: "GODEBUG", differs: godebug, spec: app(limit("2"), env(literal("GODEBUG", "containermaxprocs=0")))},
		{name: "GODEBUG among others", differs: godebug, spec: app(limit("500m"), env(literal("GODEBUG", "http2client=0,containermaxprocs=0")))},
		{name: "GODEBUG that says both", spec: app(limit("500m"), env(literal("GODEBUG", "containermaxprocs=0,containermaxprocs=1")))},
		{name: "GODEBUG beside GOMAXPROCS", spec: app(limit("2"), env(literal("GODEBUG", "containermaxprocs=0"), procsIs("2")))},
		{name: "GODEBUG without a limit", spec: app(env(literal("GODEBUG", "containermaxprocs=0")))},
		{name: "GODEBUG and a ConfigMap", spec: app(limit("2"), env(literal("GODEBUG", "containermaxprocs=0")), "envFrom: [{configMapRef: {name: a}}]")},
		{name: "GODEBUG under a pod's limit", differs: godebug, spec: "resources: {limits: {cpu: 3}}, " + app(env(literal("GODEBUG", "containermaxprocs=0")))},
		{name: "GODEBUG of updates", differs: godebug, spec: app(limit("2"), env(literal("GODEBUG", "updatemaxprocs=0")))},
		{name: "GODEBUG and what Go ignores", differs: godebug, spec: app(limit("2"), env(literal("GODEBUG", "containermaxprocs=0"), procsIs("0")))},
		{name: "GOMEMLIMIT in Mi", spec: app("resources: {limits: {memory: 200Mi}}", env(ref("GOMEMLIMIT", "limits.memory", "1Mi")))},
		{name: "GOMEMLIMIT in bytes", spec: app("resources: {limits: {memory: 200Mi}}", env(ref("GOMEMLIMIT", "limits.memory", "1")))},
		{name: "GOMEMLIMIT without a divisor", spec: app("resources: {limits: {memory: 200Mi}}", env(ref("GOMEMLIMIT", "limits.memory", "")))},
		{name: "GOMEMLIMIT of a request", spec: app("resources: {limits: {memory: 200Mi}, requests: {memory: 100Mi}}", env(ref("GOMEMLIMIT", "requests.memory", "1")))},
		{name: "GOMEMLIMIT and no limit", spec: app(env(literal("GOMEMLIMIT", "1GiB")))},
	}
	// Every GOMEMLIMIT and every GOGC under a memory limit, with what may set them otherwise.
	for _, limit := range []string{"200Mi", "20Mi", "1500M"} {
		for _, v := range []string{"", "100MiB", "180MiB", "195MiB", "200MiB", "1GiB", "209715200", "209715200B", "204800KiB", "1TiB", "off", "0", "200Mi", "-1", "1.5GiB", "$(X)"} {
			list = append(list, agreeing{name: "GOMEMLIMIT=" + v + " under " + limit, spec: app("resources: {limits: {memory: "+limit+"}}", env(literal("GOMEMLIMIT", v)))})
		}
		for _, v := range []string{"", "100", "101", "110", "200", "1000", "+400", "0400", "099", "off", "-1", "400%", "99999999999999999999", "$(X)"} {
			for name, more := range map[string][]string{
				"":                     {},
				", GOMEMLIMIT":         {literal("GOMEMLIMIT", "100MiB")},
				", an empty one":       {literal("GOMEMLIMIT", "")},
				", one by reference":   {ref("GOMEMLIMIT", "limits.memory", "1Mi")},
				", a limit by its own": {ref("MEMORY_LIMIT", "limits.memory", "1")},
				", another before":     {literal("GOGC", "50")},
			} {
				list = append(list, agreeing{
					name: "GOGC=" + v + name + " under " + limit, spec: app("resources: {limits: {memory: "+limit+"}}", env(append(more, literal("GOGC", v))...)),
				})
			}
			list = append(list,
				agreeing{name: "GOGC=" + v + ", from a ConfigMap under " + limit, spec: app("resources: {limits: {memory: "+limit+"}}", env(literal("GOGC", v)), "envFrom: [{configMapRef: {name: a}}]")},
				agreeing{name: "GOGC=" + v + ", by a command under " + limit, spec: app("resources: {limits: {memory: "+limit+"}}", env(literal("GOGC", v)), "args: [--x, GOMEMLIMIT=1GiB]")},
			)
		}
	}
	// Every value under every limit, in each kind of container.
	values := []string{
		procsIs(""), procsIs("0"), procsIs("1"), procsIs("2"), procsIs("3"), procsIs("4"), procsIs("6"), procsIs("8"), procsIs("16"),
		procsIs("500m"), procsIs("2.5"), procsIs("auto"), procsIs("+2"), procsIs("-1"), procsIs("007"), procsIs("00"), procsIs(" 2"),
		procsIs("2147483647"), procsIs("2147483648"), procsIs("99999999999999999999"),
		ref("GOMAXPROCS", "limits.cpu", "1"), ref("GOMAXPROCS", "limits.cpu", "1m"), ref("GOMAXPROCS", "limits.cpu", ""),
		ref("GOMAXPROCS", "requests.cpu", "1"), ref("GOMAXPROCS", "requests.cpu", "1m"),
	}
	resources := []string{
		"{}", "{requests: {cpu: 100m}}", "{requests: {cpu: 3500m}}", "{limits: {cpu: 0}}", "{limits: {cpu: 1m}}", "{limits: {cpu: 100m}}", "{limits: {cpu: 1}}",
		"{limits: {cpu: 1001m}}", "{limits: {cpu: 1500m}}", "{limits: {cpu: 2}}", "{limits: {cpu: 2500m}}", "{limits: {cpu: 4}}",
		"{limits: {cpu: 8}, requests: {cpu: 100m}}", "{limits: {cpu: 8}, requests: {cpu: 3500m}}", "{limits: {cpu: 8}, requests: {cpu: 0}}", "{limits: {cpu: 64}}",
	}
	for _, value := range values {
		for _, r := range resources {
			c := container("app", "resources: "+r, env(literal("A", "1"), value))
			list = append(list, agreeing{name: value + " " + r, spec: "containers: [" + c + "]"},
				agreeing{name: value + " " + r + " init", spec: "initContainers: [" + c + "], containers: [{name: main, image: x}]"})
			side := strings.Replace(c, "{name: app", "{restartPolicy: Always, name: app", 1)
			list = append(list, agreeing{name: value + " " + r + " sidecar", spec: "initContainers: [" + side + "], containers: [{name: main, image: x}]"})
		}
	}
	return list
}

func podText(spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {a: b}}\nspec: {" + spec + "}\n"
}

// findings is what lint says about a manifest.
func findings(t testing.TB, text string, known lint.Known) []lint.Finding {
	t.Helper()
	set, err := manifest.Read(context.Background(), manifest.Options{Stdin: strings.NewReader(text)}, "-")
	if err != nil || len(set.Workloads) != 1 {
		t.Fatalf("%v, %d workloads in\n%s%v", err, len(set.Workloads), text, set.Problems)
	}
	found, err := lint.Check(t.Context(), set.Workloads[0], known)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// remedied is a pod to which the remedies of findings have been applied.
func remedied(t testing.TB, pod *corev1.Pod, found []lint.Finding) *corev1.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	for _, f := range found {
		for _, r := range f.Remedies {
			if !r.Changes() || f.Rule == "K002" || r.Variable == "GOMEMLIMIT" { // an API server writes a divisor itself, and GOMEMLIMIT is warned of only
				continue
			}
			c := containerOf(pod, f.Container)
			at := -1
			for i, e := range c.Env {
				if e.Name == r.Variable {
					at = i
				}
			}
			set := corev1.EnvVar{Name: r.Variable, Value: r.Value}
			if r.Resource != "" {
				set.ValueFrom = &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: r.Resource, Divisor: resource.MustParse("1")}}
			}
			switch {
			case r.Action == remedy.Remove:
				c.Env = slices.Delete(c.Env, at, at+1)
			case r.Action == remedy.Repair:
				c.Env[at].ValueFrom.ResourceFieldRef.Divisor = resource.MustParse(r.Value)
			case at < 0:
				c.Env = append(c.Env, set)
			default:
				c.Env[at] = set
			}
		}
	}
	return pod
}

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// TestRepairAgrees holds the policy that repairs to the remedies of the same manifest.
func TestRepairAgrees(t *testing.T) {
	c := compileMutating(t, newest, generate(t).mutate["unthrottle-repair"])
	changed := 0
	for _, x := range cases() {
		t.Run(x.name, func(t *testing.T) {
			text := podText(x.spec)
			pod := podOf(t, text)
			want := remedied(t, pod, findings(t, text, lint.Known{}))
			if x.differs != "" {
				if environments(want) == environments(pod) && x.differs != nobodys && x.differs != command {
					t.Errorf("it does not differ: %s", x.differs)
				}
				want = pod
			}
			got := c.mutated(t, request{object: pod.DeepCopy(), resource: "pods"})
			if environments(got) != environments(want) {
				t.Errorf("%s\ngot  %swant %s", text, environments(got), environments(want))
			}
			differs := environments(got) != environments(pod)
			if _, told := got.Annotations[remedy.ChangedKey]; told != differs || got.Annotations["a"] != "b" {
				t.Errorf("annotations %v of a pod that is changed: %v", got.Annotations, differs)
			}
			if differs {
				changed++
			}
			again := c.mutated(t, request{object: got.DeepCopy(), resource: "pods"})
			if environments(again) != environments(got) {
				t.Errorf("%s\na second time it becomes %s", environments(got), environments(again))
			}
		})
	}
	t.Logf("%d pods, of which %d are changed", len(cases()), changed)
}

var thousands = regexp.MustCompile(`(\d),(\d{3})`)

// TestCheckAgrees holds the policy that warns to what lint warns of, in lint's words.
func TestCheckAgrees(t *testing.T) {
	c := compileValidating(t, validates, generate(t).check["unthrottle-check"])
	warned := 0
	for _, x := range cases() {
		t.Run(x.name, func(t *testing.T) {
			text := podText(x.spec)
			said := map[string]string{}
			for _, s := range c.said(t, request{object: podOf(t, text), resource: "pods"}) {
				said[s[:4]] = s
			}
			want := map[string]bool{}
			if !x.quiet {
				for _, f := range findings(t, text, lint.Known{}) {
					if f.Severity < finding.Warning {
						continue
					}
					want[f.Rule] = true
					summary := f.Summary
					for thousands.MatchString(summary) {
						summary = thousands.ReplaceAllString(summary, "$1$2")
					}
					if f.Variable == "GOMEMLIMIT" && f.Rule == "K001" { // CEL multiplies no memory
						summary = "GOMEMLIMIT is"
					}
					for _, part := range []string{f.Rule + " " + f.Verdict, "container " + f.Container + ": " + summary} {
						if !strings.Contains(said[f.Rule], part) {
							t.Errorf("%s\n%q does not say %q", text, said[f.Rule], part)
						}
					}
				}
			}
			for rule, text := range said {
				if warned++; !want[rule] {
					t.Errorf("%s\nit says %q, and lint does not", x.spec, text)
				}
			}
		})
	}
	t.Logf("%d pods, %d warnings", len(cases()), warned)
}

// TestInjectAgrees holds the policy that injects to what is right for a program of Go 1.24, and to what can't go stale.
func TestInjectAgrees(t *testing.T) {
	old := new(binary.Set)
	old.All(binary.Binary{Known: true, From: "/app", Program: &procs.Program{GoVersion: "go1.24.3"}})
	all := compileMutating(t, newest, generate(t, func(o *Options) { o.Inject = InjectAll }).mutate["unthrottle-inject"])
	const restart = "resizePolicy: [{resourceName: memory, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: RestartContainer}]"
	const job = ", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]"
	const never = ", labels: {unthrottle.dev/inject: never-resized}"
	injected := 0
	for _, value := range []string{"", literal("A", "1"), procsIs("3"), procsIs(""), literal("GODEBUG", "containermaxprocs=0"), literal("GODEBUG", "x=1")} {
		for _, l := range []string{"", "100m", "1", "1001m", "2", "2500m", "64"} {
			for _, policy := range []string{"", restart, strings.ReplaceAll(restart, "RestartContainer", "NotRequired")} {
				for _, meta := range []string{"", job, never, ", labels: {unthrottle.dev/inject: \"false\"}", ", annotations: {unthrottle.dev/ignore: K013}"} {
					parts := []string{}
					if l != "" {
						parts = append(parts, limit(l))
					}
					if value != "" {
						parts = append(parts, env(value))
					}
					if policy != "" {
						parts = append(parts, policy)
					}
					text := "apiVersion: v1\nkind: Pod\nmetadata: {name: x" + meta + "}\nspec: {" + app(parts...) + "}\n"
					pod := podOf(t, text)
					want := pod
					milli := containerOf(pod, "app").Resources.Limits.Cpu().MilliValue()
					if (policy == restart && milli > 1000 && meta == "" || meta == job || meta == never) && !strings.Contains(value, "GOMAXPROCS") {
						var missing []lint.Finding
						for _, f := range findings(t, text, lint.Known{Binaries: old}) {
							if f.Rule == "K013" {
								missing = append(missing, f)
							}
						}
						want = remedied(t, pod, missing)
					}
					got := all.mutated(t, request{object: pod.DeepCopy(), resource: "pods", namespace: &corev1.Namespace{}})
					// Where Go 1.24 has GODEBUG, the policy knows no version, and leaves alone what speaks of the limit.
					if strings.Contains(value, "containermaxprocs") {
						want = pod
					}
					if environments(got) != environments(want) {
						t.Errorf("%s\ngot  %swant %s", text, environments(got), environments(want))
					}
					if environments(got) != environments(pod) {
						injected++
					}
				}
			}
		}
	}
	if injected == 0 {
		t.Error("nothing was injected")
	}
	t.Logf("injected in %d pods", injected)
}

// TestOthers holds the list of programs that are not Go programs to package lint's.
func TestOthers(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../lint/facts.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "others" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			text, _ := strconv.Unquote(e.(*ast.BasicLit).Value)
			theirs = append(theirs, text)
		}
		return false
	})
	if len(theirs) == 0 || !slices.Equal(theirs, otherPrograms) {
		t.Errorf("lint has %q", theirs)
	}
	for _, n := range otherPrograms {
		if regexp.QuoteMeta(n) != n {
			t.Errorf("%q is not itself in a regular expression", n)
		}
	}
}

// No option may end a text of an expression.
func TestCheckOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Name = "A" }, `"A" is not a name`},
		{func(o *Options) { o.ExemptNamespaces = []string{"a b"} }, "namespace"},
		{func(o *Options) { o.ExemptContainers = []string{"a'"} }, "container"},
		{func(o *Options) { o.ExemptLabels = []Label{{"a", "b'"}} }, "label"},
		{func(o *Options) { o.ExemptLabels = []Label{{"", ""}} }, "label"},
		{func(o *Options) { o.Config = Config{"a", ""} }, "ConfigMap"},
		{func(o *Options) { o.Mutate, o.Validate = false, false }, "nothing"},
	} {
		o := Default()
		c.change(&o)
		if err := Write(new(strings.Builder), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
