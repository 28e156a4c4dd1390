package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// A server is an API server that gives preset answers.
type server struct {
	warnings      []string
	made          int    // status of the pod
	said          string // its body
	configuration string // "": none
	labels        string // of the namespace
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := func(code int, reason, message string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q, "message": %q}`, code, reason, message)
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + r.URL.RequestURI() {
	case "POST /api/v1/namespaces/shop/pods?dryRun=All":
		body, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(body) {
			status(http.StatusBadRequest, "BadRequest", "no JSON")
			return
		}
		for _, text := range s.warnings {
			w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
		}
		if s.made != http.StatusCreated {
			status(s.made, "Forbidden", s.said)
			return
		}
		w.WriteHeader(http.StatusCreated)
		w.Write(body)
	case "GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/unthrottle-webhook":
		switch s.configuration {
		case "":
			status(http.StatusNotFound, "NotFound", `mutatingwebhookconfigurations "unthrottle-webhook" not found`)
		case "forbidden":
			status(http.StatusForbidden, "Forbidden", `mutatingwebhookconfigurations "unthrottle-webhook" is forbidden: User "me" cannot get it`)
		default:
			io.WriteString(w, s.configuration)
		}
	case "GET /api/v1/namespaces/shop":
		fmt.Fprintf(w, `{"metadata": {"labels": {%s}}}`, s.labels)
	default:
		status(http.StatusTeapot, "Unknown", r.Method+" "+r.URL.RequestURI())
	}
}

func TestProbe(t *testing.T) {
	const (
		rules = `"namespaceSelector": {"matchExpressions": [{"key": "unthrottle.dev/ignore", "operator": "NotIn", "values": ["all"]}]}`
		there = `"clientConfig": {"caBundle": "YQ==", "service": {"namespace": "tools", "name": "unthrottle-webhook"}}`
		ready = `{"webhooks": [{` + there + `, ` + rules + `}]}`
	)
	for name, c := range map[string]struct {
		server
		said, err, hint string
	}{
		"it warns":              {server{warnings: []string{"another's", `unthrottle: container "app": wrong`}, made: 201}, `container "app": wrong`, "", ""},
		"others refuse the pod": {server{warnings: []string{`unthrottle: wrong`}, made: 403, said: "exceeded quota"}, "wrong", "", ""},
		"it could not look":     {server{warnings: []string{"unthrottle did not look at this pod: there was no time for it"}, made: 201}, "", "did not look at the pod: there was no time for it", "its log"},
		"refused":               {server{made: 403, said: `pods "a" is forbidden: User "me" cannot create resource "pods"`}, "", `User "me" cannot create resource`, "kubectl auth can-i create pods -n shop"},
		"none is installed":     {server{made: 201}, "", "no webhook is installed", "docs/webhook.md"},
		"nobody may look":       {server{made: 201, configuration: "forbidden"}, "", "why is not known", "kubectl auth can-i get mutatingwebhookconfigurations/unthrottle-webhook"},
		"it has no webhooks":    {server{made: 201, configuration: `{"webhooks": []}`}, "", "has no webhooks", "install it again"},
		"no JSON":               {server{made: 201, configuration: `{"webhooks": [`}, "", "the answer of the API server", ""},
		"another's rules":       {server{warnings: []string{"unthrottled: no"}, made: 201, configuration: ready}, "", "did not reach the Service unthrottle-webhook in time", "kubectl -n tools get pods,endpointslices"},
		"no caBundle":           {server{made: 201, configuration: strings.Replace(ready, "YQ==", "", 1)}, "", "no caBundle yet", "kubectl -n tools get pods,endpointslices"},
		"left alone":            {server{made: 201, configuration: ready, labels: `"unthrottle.dev/ignore": "all"`}, "", "leaves the namespace shop alone", "-n NAME"},
		"at a URL":              {server{made: 201, configuration: `{"webhooks": [{"clientConfig": {"caBundle": "YQ==", "url": "https://192.0.2.1"}}]}`}, "", "did not reach its Service", "its URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(&c.server)
			defer s.Close()
			config := &rest.Config{Host: s.URL}
			cluster.Prepare(config, 0)
			client, err := cluster.Place{Config: config}.Client()
			if err != nil {
				t.Fatal(err)
			}
			said, err := probeWebhook(t.Context(), client, "unthrottle-webhook", "shop")
			if said != c.said || (err == nil) != (c.err == "") {
				t.Fatalf("%q, %v; want %q, %q", said, err, c.said, c.err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.err) || !slices.ContainsFunc(append(hint.Of(err), ""), func(h string) bool { return strings.Contains(h, c.hint) })) {
				t.Errorf("%v, hints %q; want %q, %q", err, hint.Of(err), c.err, c.hint)
			}
		})
	}
}
