package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// fakeCluster serves the files of a directory as an API server, and as a Prometheus, until the script ends, and writes a kubeconfig that
// leads there: cluster DIRECTORY KUBECONFIG [tls | CONTEXT]. A file's name is the path with _ for /, and .json at its end; a list without a
// file is empty. What is not JSON is given as is, and what begins with a status code and a blank is an error. URL is its address. The file
// requests has a line for each request, with what it says about the caller. With tls, ca.crt has the authority; its name is example.com. With
// the name of a context that is the only one, and the file is requests-CONTEXT.
func fakeCluster(ts *testscript.TestScript, neg bool, args []string) {
	tls := len(args) == 3 && args[2] == "tls"
	if neg || len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: cluster DIRECTORY KUBECONFIG [tls | CONTEXT]")
	}
	dir, context := ts.MkAbs(args[0]), ""
	log := ts.MkAbs("requests")
	if len(args) == 3 && !tls {
		context = args[2]
		log += "-" + context
	}
	requests, err := os.Create(log)
	ts.Check(err)
	ts.Defer(func() { requests.Close() })
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.Path
		for _, name := range []string{"Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"} {
			if values := r.Header[name]; len(values) > 0 {
				line += " " + name + ": " + strings.Join(values, ",")
			}
		}
		fmt.Fprintln(requests, line) // one write, which goes to the end
		name := strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", "_")
		if r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=unthrottle-agent" {
			switch {
			case strings.HasSuffix(r.URL.Path, "/daemonsets"):
			case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/unthrottle/"):
				name = "agents"
			case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"): // as is
			default:
				name = "strangers"
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(name, ":", "-")+".json"))
		if err != nil {
			data = []byte(`{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`)
		}
		if strings.HasSuffix(r.URL.Path, "/serviceaccounts/unthrottle-reader/token") {
			data = []byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"for agents alone"}}`)
		}
		if r.URL.Path == "/apis" {
			data = []byte(`{"kind":"APIGroupList","groups":[{"name":"apps","preferredVersion":{"version":"v1"}},{"name":"batch","preferredVersion":{"version":"v1"}}]}`)
		}
		if r.URL.Path == "/api/v1/query" {
			data = []byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`)
			// A query begins with what it makes of the series, such as max by (namespace, pod, container) (METRIC{…}).
			if _, rest, ok := strings.Cut(r.FormValue("query"), ") ("); ok {
				metric, _, _ := strings.Cut(rest, "{")
				if text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(metric, "(", "_")+".json")); err == nil {
					data = text
				}
			}
		}
		code := http.StatusOK
		if n, _ := fmt.Sscanf(string(data), "%d ", &code); n == 1 {
			data = data[4:]
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write(data)
	}))
	if tls {
		s.StartTLS()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("ca.crt"), ca, 0o600))
	} else {
		s.Start()
	}
	ts.Defer(s.Close)
	ts.Setenv("URL", s.URL)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: test, cluster: {server: %q%s}}, {name: gone, cluster: {server: \"http://127.0.0.1:1\"}}]\n"+
		"users: [{name: alice, user: {token: alices}}]\n"+
		"contexts: [{name: here, context: {cluster: test}}, {name: other, context: {cluster: gone, namespace: elsewhere}}]\ncurrent-context: here\n", s.URL, map[bool]string{true: ", certificate-authority: ca.crt"}[tls])
	if context != "" {
		text = fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: %[1]q, cluster: {server: %[2]q}}], contexts: [{name: %[1]q, context: {cluster: %[1]q}}]}\n", context, s.URL)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
	_, err = io.WriteString(ts.Stdout(), s.URL+"\n")
	ts.Check(err)
}
