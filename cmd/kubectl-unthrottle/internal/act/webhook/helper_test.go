package webhook

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// asJSON makes JSON of a pod in YAML, as the API server sends it.
func asJSON(t testing.TB, text string) json.RawMessage {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// podWith is a pod with one container, app, with these lines in it and in its metadata.
func podWith(t testing.TB, container, metadata string) json.RawMessage {
	t.Helper()
	return asJSON(t, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: api\n"+indent(metadata, "  ")+
		"spec:\n  containers:\n  - name: app\n    image: example.com/app\n"+indent(container, "    "))
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if line != "" {
			b.WriteString(by + line + "\n")
		}
	}
	return b.String()
}

// limited is a container with a limit, and GOMAXPROCS from it with a divisor.
func limited(limit, divisor string) string {
	return `
resources: {limits: {cpu: ` + limit + `}}
resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
env: [{name: A, value: b}, {name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "` + divisor + `"}}}]`
}

func literal(limit, value string) string {
	return "resources: {limits: {cpu: " + limit + "}}\nenv: [{name: GOMAXPROCS, value: \"" + value + "\"}]"
}

// reviewOf is a review as the API server sends it.
func reviewOf(t testing.TB, change func(*request), object, old json.RawMessage) []byte {
	t.Helper()
	r := &request{UID: "0815", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "shop", Operation: "CREATE", Object: object, OldObject: old}
	if change != nil {
		change(r)
	}
	data, err := json.Marshal(review{APIVersion: reviewVersion, Kind: reviewKind, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func resizing(r *request) { r.Operation, r.SubResource = "UPDATE", "resize" }

// ask sends a review, and holds the answer to what every answer has.
func ask(t testing.TB, h *Handler, path string, body []byte) response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	var a answer
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v", w.Code, err)
	}
	if !a.Response.Allowed || a.APIVersion != "admission.k8s.io/v1" || a.Kind != "AdmissionReview" ||
		(len(a.Response.Patch) > 0) != (a.Response.PatchType == "JSONPatch") {
		t.Fatalf("%+v", a)
	}
	return a.Response
}

// logged is a handler that writes its log there.
func logged(o Options) (*Handler, *bytes.Buffer) {
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return New(o), &log
}
