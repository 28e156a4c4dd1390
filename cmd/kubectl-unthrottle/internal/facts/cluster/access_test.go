package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPods: each pod that was read, with what stands for it, where that is asked for.
func TestPods(t *testing.T) {
	on := func(name, owner, env, node string) string {
		return strings.Replace(pod(name, owner, env), `"spec":{`, fmt.Sprintf(`"spec":{"nodeName":%q,`, node), 1)
	}
	f := &fake{objects: map[string][]string{
		apps + "deployments": {template("api", "", "")},
		apps + "replicasets": {template("api-1", "Deployment/api", "")},
		core + "pods":        {on("api-1-a", "ReplicaSet/api-1", "", "node-1"), on("api-1-b", "ReplicaSet/api-1", two, "node-2"), strings.Replace(pod("bare", "", ""), `"spec":{`, `"spec":{"ephemeralContainers":[{"name":"debugger","image":"d:1"}],`, 1)},
	}}
	o := serve(t, f)
	if found := read(t, o); found.Pods != nil {
		t.Errorf("nobody asked for them: %+v", found.Pods)
	}
	o.Pods = true
	var got []string
	for _, p := range read(t, o).Pods {
		got = append(got, fmt.Sprintf("%s/%s %s on %q of %s %q", p.Namespace, p.Name, p.UID, p.Node, p.Of, p.Ephemeral))
	}
	want := `shop/api-1-a uid-api-1-a on "node-1" of Deployment/api in shop []
shop/api-1-b uid-api-1-b on "node-2" of Pod of Deployment/api in shop []
shop/bare uid-bare on "" of Pod/bare in shop ["debugger"]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestAccess: an answer that just fits is read whole, and one that is larger is an error, as is one that takes too long.
func TestAccess(t *testing.T) {
	o := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			io.WriteString(w, strings.Repeat("x", 1000))
		case "/large":
			io.WriteString(w, strings.Repeat("x", 1001))
		case "/slow":
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, strings.Repeat("x", 1e6))
		}
	}))
	a, err := Open(o, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/fits": "", "/large": ErrTooLarge.Error(), "/slow": "deadline exceeded", "/error": "an error on the server"} {
		body, err := a.Get(t.Context(), path, nil, time.Second)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(body)
			body.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 10_000) || len(data) > 1000 {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
		if path == "/large" && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
	}
	o.Context = "hare"
	if _, err := Open(o, 1000); err == nil {
		t.Error("there is no such context")
	}
}
