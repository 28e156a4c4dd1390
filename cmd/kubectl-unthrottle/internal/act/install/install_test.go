package install

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/alert"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

const chart = "../../../../../deploy/charts/unthrottle-agent/files/"

// generated are the files that are made of rules and of the dashboard.
func generated(t *testing.T) map[string]string {
	t.Helper()
	write := func(from alert.From, called string, as alert.Format) string {
		var b bytes.Buffer
		o := alert.Default()
		o.From, o.Name, o.As = from, called, as
		if as == alert.Object {
			o.Labels = map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "unthrottle"}
		}
		if err := alert.Write(&b, o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	rules, object := write(alert.Agents, name, alert.File), write(alert.Agents, name, alert.Object)
	return map[string]string{
		"base/rules.yaml":     configMap("unthrottle-rules", nil, "unthrottle.rules.yaml", rules),
		"base/programs.yaml":  configMap("unthrottle-rules-programs", nil, "unthrottle.programs.yaml", write(alert.Programs, alert.NameOfPrograms, alert.File)),
		"base/dashboard.yaml": configMap("unthrottle-dashboard", map[string]string{"grafana_dashboard": "1"}, "unthrottle.json", string(alert.Dashboard)),
		"base/dashboard-programs.yaml": configMap("unthrottle-dashboard-programs", map[string]string{"grafana_dashboard": "1"}, "unthrottle-programs.json",
			string(alert.ProgramsDashboard)),
		"operator/rules.yaml":    object,
		"operator/programs.yaml": write(alert.Programs, alert.NameOfPrograms, alert.Object),
		chart + "rules.yaml":     rules,
		chart + "dashboard.json": string(alert.Dashboard),
	}
}

func configMap(name string, more map[string]string, key, text string) string {
	labels := map[string]string{"app.kubernetes.io/name": "unthrottle-agent", "app.kubernetes.io/part-of": "unthrottle"}
	for k, v := range more {
		labels[k] = v
	}
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "unthrottle", "labels": labels},
		"data":     map[string]string{key: text},
	})
	if err != nil {
		panic(err)
	}
	return "# Written by go test ./internal/act/install -update; what it is made of is in internal/act/alert.\n" + b.String()
}

func TestGenerated(t *testing.T) {
	for file, want := range generated(t) {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what alert makes now (%v); -update writes it", file, err)
		}
	}
}

// everything is all that can be installed at once: with the operator and without are not the same.
var everything = Options{Namespace: "unthrottle", Rules: true, Dashboard: true}

func TestObjects(t *testing.T) {
	operator := everything
	operator.Operator = true
	programs := Options{Namespace: "unthrottle", Rules: true, Programs: true}
	programsOperator := programs
	programsOperator.Operator, programsOperator.Dashboard = true, true
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Namespace: "unthrottle"}, "Namespace/unthrottle ServiceAccount/unthrottle-agent ClusterRole/unthrottle-agent ClusterRoleBinding/unthrottle-agent " +
			"ClusterRole/unthrottle-audit ServiceAccount/unthrottle-reader ClusterRole/unthrottle-reader ClusterRoleBinding/unthrottle-reader Role/unthrottle-audit NetworkPolicy/unthrottle-agent PriorityClass/unthrottle-agent DaemonSet/unthrottle-agent"},
		{programs, "Namespace/unthrottle ConfigMap/unthrottle-rules-programs"},
		{programsOperator, "Namespace/unthrottle PrometheusRule/unthrottle-programs ConfigMap/unthrottle-dashboard-programs"},
		{everything, "Namespace/unthrottle ServiceAccount/unthrottle-agent ClusterRole/unthrottle-agent ClusterRoleBinding/unthrottle-agent " +
			"ClusterRole/unthrottle-audit ServiceAccount/unthrottle-reader ClusterRole/unthrottle-reader ClusterRoleBinding/unthrottle-reader Role/unthrottle-audit NetworkPolicy/unthrottle-agent ConfigMap/unthrottle-rules ConfigMap/unthrottle-dashboard PriorityClass/unthrottle-agent DaemonSet/unthrottle-agent"},
		{operator, "Namespace/unthrottle ServiceAccount/unthrottle-agent ClusterRole/unthrottle-agent ClusterRoleBinding/unthrottle-agent " +
			"ClusterRole/unthrottle-audit ServiceAccount/unthrottle-reader ClusterRole/unthrottle-reader ClusterRoleBinding/unthrottle-reader Role/unthrottle-audit NetworkPolicy/unthrottle-agent ConfigMap/unthrottle-dashboard PriorityClass/unthrottle-agent DaemonSet/unthrottle-agent ServiceAccount/unthrottle-scraper Secret/unthrottle-scraper ClusterRole/unthrottle-scraper ClusterRoleBinding/unthrottle-scraper PodMonitor/unthrottle-agent PrometheusRule/unthrottle-agent"},
	} {
		objects, err := Objects(c.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range objects {
			got = append(got, o.GetKind()+"/"+o.GetName())
			kindOf(o)
			for _, label := range strings.Split(selector, ",") {
				key, value, _ := strings.Cut(label, "=")
				if o.GetLabels()[key] != value {
					t.Errorf("%s %s lacks the label %s, so uninstall would not find it", o.GetKind(), o.GetName(), label)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.o, strings.Join(got, " "), c.want)
		}
	}
	// Each file is a part of some installation, and of the base or of what is for the operator.
	used := slices.Concat(everything.parts(), operator.parts(), programs.parts(), programsOperator.parts())
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, "kustomization.yaml") && !slices.Contains(used, path) {
			t.Errorf("%s is never installed", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAdapt(t *testing.T) {
	o := everything
	o.Namespace, o.Image = "watch", "registry.example.com:5000/agent@sha256:0123"
	var b strings.Builder
	if err := Write(&b, o); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"namespace: unthrottle": 0, "namespace: watch": 9, "name: watch\n": 1, "image: registry.example.com:5000/agent@sha256:0123": 1, "ghcr.io": 0,
	} {
		if got := strings.Count(b.String(), text); got != want {
			t.Errorf("%q is there %d times, want %d", text, got, want)
		}
	}
	for _, no := range []bool{false, true} {
		b.Reset()
		if err := Write(&b, Options{Namespace: "unthrottle", NoEvents: no}); err != nil {
			t.Fatal(err)
		}
		right, off := strings.Contains(b.String(), "- events\n"), strings.Contains(b.String(), "- --events=false\n")
		if right == no || off != no {
			t.Errorf("no events %t: the right is there %t, and the flag %t", no, right, off)
		}
	}
	for _, bad := range []Options{{}, {Namespace: "A"}, {Namespace: "a", Image: "a b"}, {Namespace: "a", Image: "-a"}, {Namespace: "a", Programs: true}, {Namespace: "a", Programs: true, Rules: true, Image: "a"}} {
		if err := Write(nil, bad); err == nil {
			t.Errorf("no error for %+v", bad)
		}
	}
}

// TestLeast holds what an agent may do to what it needs.
func TestLeast(t *testing.T) {
	objects, err := Objects(Options{Namespace: "unthrottle"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		switch o.GetKind() + "/" + o.GetName() {
		case "ClusterRole/unthrottle-agent":
			if got := fmt.Sprint(o.Object["rules"]); got != "[map[apiGroups:[] resources:[pods] verbs:[list watch]] map[apiGroups:[] resources:[events] verbs:[create]] "+
				"map[apiGroups:[authentication.k8s.io] resources:[tokenreviews] verbs:[create]] map[apiGroups:[authorization.k8s.io] resources:[subjectaccessreviews] verbs:[create]]]" {
				t.Errorf("the agent may %s", got)
			}
		case "ClusterRole/unthrottle-audit":
			for _, word := range []string{"create", "update", "patch", "delete", "secrets", "*", "exec", "proxy"} {
				if got := fmt.Sprint(o.Object["rules"]); strings.Contains(got, word) {
					t.Errorf("people may %s: %s", word, got)
				}
			}
		case "Role/unthrottle-audit":
			if got := fmt.Sprint(o.Object["rules"]); got != "[map[apiGroups:[] resources:[pods/proxy] verbs:[get]] map[apiGroups:[] resourceNames:[unthrottle-reader] resources:[serviceaccounts/token] verbs:[create]]]" {
				t.Errorf("people may %s", got)
			}
		case "ClusterRole/unthrottle-reader":
			if got := fmt.Sprint(o.Object["rules"]); got != "[map[nonResourceURLs:[/unthrottle/processes /unthrottle/explain /metrics] verbs:[get]]]" {
				t.Errorf("who asks the agents may %s", got)
			}
		case "DaemonSet/unthrottle-agent":
			spec := o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			c := spec["containers"].([]any)[0].(map[string]any)
			security := fmt.Sprint(c["securityContext"])
			for _, want := range []string{"privileged:false", "readOnlyRootFilesystem:true", "allowPrivilegeEscalation:false", "drop:[ALL]", "add:[DAC_READ_SEARCH SYS_PTRACE]", "type:RuntimeDefault"} {
				if !strings.Contains(security, want) {
					t.Errorf("it lacks %s: %s", want, security)
				}
			}
			if spec["hostNetwork"] != nil || spec["hostIPC"] != nil || spec["volumes"] != nil || spec["hostPID"] != true {
				t.Errorf("of the node it has %v", spec)
			}
		}
	}
}
