package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// The oldest API servers that each kind of policy is for.
var (
	validates = version.MajorMinor(1, 30)
	mutates   = version.MajorMinor(1, 34)
	newest    = version.MajorMinor(1, 36)
)

// generated is what Write writes, by kind and name.
type generated struct {
	text    string
	mutate  map[string]*admissionv1.MutatingAdmissionPolicy
	check   map[string]*admissionv1.ValidatingAdmissionPolicy
	kinds   []string
	configs []corev1.ConfigMap
}

func generate(t testing.TB, change ...func(*Options)) *generated {
	t.Helper()
	o := Default()
	for _, c := range change {
		c(&o)
	}
	var b strings.Builder
	if err := Write(&b, o); err != nil {
		t.Fatal(err)
	}
	g := &generated{
		text:   b.String(),
		mutate: map[string]*admissionv1.MutatingAdmissionPolicy{}, check: map[string]*admissionv1.ValidatingAdmissionPolicy{},
	}
	for _, part := range strings.Split(g.text, "\n---\n")[1:] {
		var head metav1.TypeMeta
		strict(t, part, &head, false)
		g.kinds = append(g.kinds, head.APIVersion+" "+head.Kind)
		switch head.Kind {
		case "MutatingAdmissionPolicy":
			p := new(admissionv1.MutatingAdmissionPolicy)
			strict(t, part, p, true)
			g.mutate[p.Name] = p
		case "ValidatingAdmissionPolicy":
			p := new(admissionv1.ValidatingAdmissionPolicy)
			strict(t, part, p, true)
			g.check[p.Name] = p
		case "MutatingAdmissionPolicyBinding":
			strict(t, part, new(admissionv1.MutatingAdmissionPolicyBinding), true)
		case "ValidatingAdmissionPolicyBinding":
			strict(t, part, new(admissionv1.ValidatingAdmissionPolicyBinding), true)
		case "ConfigMap":
			var c corev1.ConfigMap
			strict(t, part, &c, true)
			g.configs = append(g.configs, c)
		default:
			t.Errorf("a %s", head.Kind)
		}
	}
	return g
}

func strict(t testing.TB, text string, to any, strictly bool) {
	t.Helper()
	read := yaml.Unmarshal
	if strictly {
		read = yaml.UnmarshalStrict
	}
	if err := read([]byte(text), to); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// A compiled policy is one that the API server's own library has compiled.
type compiled struct {
	compiler  *plugincel.CompositedCompiler
	match     []matchCondition
	matches   plugincel.ConditionEvaluator
	mutations []patch.Patcher
	checks    plugincel.ConditionEvaluator
	messages  plugincel.ConditionEvaluator
}

type matchCondition = admissionv1.MatchCondition

// compile compiles everything, and checks its types. An error names the expression.
func compile(t testing.TB, v *version.Version, params bool, match []matchCondition, variables [][2]string, mutations []admissionv1.Mutation, checks []admissionv1.Validation) *compiled {
	t.Helper()
	opts := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(v))
	if err != nil {
		t.Fatal(err)
	}
	mode := environment.NewExpressions // only what this version knows
	for _, v := range variables {
		r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v[0], Expression: v[1]}, opts, mode)
		if r.Error != nil {
			t.Errorf("variable %s: %v", v[0], r.Error)
		}
	}
	c := &compiled{compiler: compiler, match: match}
	var list, says []plugincel.ExpressionAccessor
	for i := range match {
		list = append(list, (*matchconditions.MatchCondition)(&match[i]))
	}
	c.matches = compiler.CompileCondition(list, opts, mode)
	none(t, "match conditions", c.matches.CompilationErrors())
	for _, m := range mutations {
		patching := opts
		patching.HasPatchTypes = true
		e := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, patching, mode)
		none(t, "mutation", e.CompilationErrors())
		c.mutations = append(c.mutations, patch.NewJSONPatcher(e))
	}
	list = nil
	for _, v := range checks {
		list = append(list, &validating.ValidationCondition{Expression: v.Expression})
		says = append(says, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	c.checks, c.messages = compiler.CompileCondition(list, opts, mode), compiler.CompileCondition(says, opts, mode)
	none(t, "validations", c.checks.CompilationErrors())
	none(t, "messages", c.messages.CompilationErrors())
	return c
}

func none(t testing.TB, what string, errs []error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func compileMutating(t testing.TB, v *version.Version, p *admissionv1.MutatingAdmissionPolicy) *compiled {
	t.Helper()
	var variables [][2]string
	for _, v := range p.Spec.Variables {
		variables = append(variables, [2]string{v.Name, v.Expression})
	}
	return compile(t, v, p.Spec.ParamKind != nil, p.Spec.MatchConditions, variables, p.Spec.Mutations, nil)
}

func compileValidating(t testing.TB, v *version.Version, p *admissionv1.ValidatingAdmissionPolicy) *compiled {
	t.Helper()
	var variables [][2]string
	for _, v := range p.Spec.Variables {
		variables = append(variables, [2]string{v.Name, v.Expression})
	}
	return compile(t, v, p.Spec.ParamKind != nil, p.Spec.MatchConditions, variables, nil, p.Spec.Validations)
}

// A request is what the API server is asked for.
type request struct {
	object, old runtime.Object
	resource    string // pods, pods/resize, deployments
	namespace   *corev1.Namespace
	params      runtime.Object
}

func (r request) attributes(t testing.TB) *admission.VersionedAttributes {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(r.object)
	if err != nil {
		t.Fatal(err)
	}
	kind := kinds[0]
	r.object.GetObjectKind().SetGroupVersionKind(kind)
	operation := admission.Create
	if r.old != nil {
		operation = admission.Update
		r.old.GetObjectKind().SetGroupVersionKind(kind)
	}
	resource, sub, _ := strings.Cut(r.resource, "/")
	a := admission.NewAttributesRecord(r.object, r.old, kind, "default", "x", schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource},
		sub, operation, nil, false, nil)
	return &admission.VersionedAttributes{Attributes: a, VersionedKind: kind, VersionedObject: r.object, VersionedOldObject: r.old}
}

// conditions evaluates expressions.
func (r request) conditions(t testing.TB, e plugincel.ConditionEvaluator) []plugincel.EvaluationResult {
	t.Helper()
	a := r.attributes(t)
	asked := plugincel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.VersionedKind))
	results, _, err := e.ForInput(context.Background(), a, asked, plugincel.OptionalVariableBindings{VersionedParams: r.params}, r.namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range results {
		if x.Error != nil {
			t.Fatalf("%v in %s", x.Error, x.ExpressionAccessor.GetExpression())
		}
	}
	return results
}

// reaches reports whether all match conditions hold; else which does not.
func (c *compiled) reaches(t testing.TB, r request) (bool, string) {
	t.Helper()
	for i, x := range r.conditions(t, c.matches) {
		if x.EvalResult.Value() != true {
			return false, c.match[i].Name
		}
	}
	return true, ""
}

// mutated is what a policy makes of a pod.
func (c *compiled) mutated(t testing.TB, r request) *corev1.Pod {
	t.Helper()
	if ok, _ := c.reaches(t, r); !ok {
		return r.object.(*corev1.Pod)
	}
	object := r.object
	for _, m := range c.mutations {
		r.object = object
		a := r.attributes(t)
		next, err := m.Patch(c.compiler.CreateContext(context.Background()), patch.Request{
			MatchedResource: a.GetResource(), VersionedAttributes: a,
			ObjectInterfaces:  admission.NewObjectInterfacesFromScheme(scheme.Scheme),
			OptionalVariables: plugincel.OptionalVariableBindings{VersionedParams: r.params}, Namespace: r.namespace,
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		object = next
	}
	return object.(*corev1.Pod)
}

// said are the messages of validations that do not hold.
func (c *compiled) said(t testing.TB, r request) (all []string) {
	t.Helper()
	if ok, _ := c.reaches(t, r); !ok {
		return nil
	}
	messages := r.conditions(t, c.messages)
	for i, x := range r.conditions(t, c.checks) {
		if x.EvalResult.Value() != true {
			text, _ := messages[i].EvalResult.Value().(string)
			if text == "" || strings.Contains(text, "\n") || len(text) > 5<<10 {
				t.Errorf("message %q", text)
			}
			all = append(all, text)
		}
	}
	return all
}

// podOf reads a pod as the API server does: with the defaults that matter here.
func podOf(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	strict(t, text, pod, true)
	setDefaults(&pod.Spec)
	return pod
}

func setDefaults(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			for name, limit := range c.Resources.Limits {
				if _, ok := c.Resources.Requests[name]; !ok {
					if c.Resources.Requests == nil {
						c.Resources.Requests = corev1.ResourceList{}
					}
					c.Resources.Requests[name] = limit
				}
			}
		}
	}
}

// environments are the env of all containers, to compare and read.
func environments(pod *corev1.Pod) string {
	var b strings.Builder
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			env, _ := json.Marshal(c.Env)
			if len(c.Env) == 0 {
				env = []byte("[]")
			}
			fmt.Fprintf(&b, "%s: %s\n", c.Name, env)
		}
	}
	return b.String()
}

// TestCompiles compiles every expression as the oldest and the newest API server of its kind does.
func TestCompiles(t *testing.T) {
	exempt := func(o *Options) {
		o.ExemptNamespaces, o.ExemptContainers = []string{"b", "a", "b"}, []string{"istio-proxy", "x"}
		o.ExemptLabels = []Label{{"tier", "legacy"}, {"example.com/any", ""}}
	}
	config := func(o *Options) { o.Config = Config{"kube-system", "unthrottle"} }
	for _, c := range []struct {
		name           string
		change         func(*Options)
		mutate, checks int
	}{
		{"default", func(*Options) {}, 1, 2},
		{"exempt", exempt, 1, 2},
		{"nothing exempt", func(o *Options) { o.ExemptNamespaces = nil }, 1, 2},
		{"inject", func(o *Options) { o.Inject = InjectAll }, 2, 2},
		{"config", config, 2, 2},
		{"all", func(o *Options) { exempt(o); config(o); o.API, o.Action, o.Inject = V1Beta1, Deny, InjectLabelled }, 2, 2},
		{"mutate", func(o *Options) { o.Validate = false }, 1, 0},
		{"validate", func(o *Options) { o.Mutate = false; config(o) }, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := generate(t, c.change)
			if len(g.mutate) != c.mutate || len(g.check) != c.checks || strings.Contains(g.text, "<<") || strings.Contains(g.text, "<no") {
				t.Errorf("%d policies that mutate and %d that validate in\n%s", len(g.mutate), len(g.check), g.text)
			}
			for _, p := range g.mutate {
				compileMutating(t, mutates, p)
				compileMutating(t, newest, p)
			}
			for _, p := range g.check {
				compileValidating(t, validates, p)
				compileValidating(t, newest, p)
			}
		})
	}
}
