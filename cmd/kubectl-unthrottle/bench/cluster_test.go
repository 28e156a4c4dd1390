//go:build linux

package bench

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

const (
	nodes     = 1_000
	pods      = 10_000
	perOwner  = 10
	customers = 16 // requests at a time while the objects are made
)

// TestCluster: a thousand nodes, and ten thousand pods of a thousand Deployments. The objects are made through the API, without
// controllers and kubelets: lint reads what is specified, and nothing has to bring it about.
func TestCluster(t *testing.T) {
	asked(t)
	c := clustertest.Start(t, clustertest.Options{})
	newMaker(t, c).cluster()
	program := build(t)
	env := []string{"KUBECONFIG=" + c.Kubeconfig}
	measure(t, "lint --cluster -A", "", env, program, "lint", "--cluster", "-A")
}

// cluster makes the objects, and returns the UIDs of the pods by their names.
func (m *maker) cluster() (uids *sync.Map) {
	uids = &sync.Map{}
	m.all(nodes, func(i int) {
		m.create("/api/v1/nodes", fmt.Sprintf(`{"metadata":{"name":"node-%d","labels":{"kubernetes.io/hostname":"node-%d"}}}`, i, i))
	})
	for i := range 40 {
		m.create("/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"team-%d"}}`, i))
	}
	m.all(pods/perOwner, func(i int) {
		in := fmt.Sprintf("team-%d", i%40)
		name := fmt.Sprintf("api-%d", i)
		template := fmt.Sprintf(`{"metadata":{"labels":{"app":%q},"annotations":{"checksum/config":"%032x"}},"spec":%s}`, name, i, podSpec(i))
		spec := fmt.Sprintf(`"spec":{"replicas":%d,"selector":{"matchLabels":{"app":%q}},"template":%s}`, perOwner, name, template)
		owner := m.create("/apis/apps/v1/namespaces/"+in+"/deployments", fmt.Sprintf(`{"metadata":{"name":%q},%s}`, name, spec))
		set := m.create("/apis/apps/v1/namespaces/"+in+"/replicasets",
			fmt.Sprintf(`{"metadata":{"name":"%s-5d8f7",%s},%s}`, name, owned("Deployment", name, owner), spec))
		for n := range perOwner {
			pod := fmt.Sprintf("%s-5d8f7-%d", name, n)
			uids.Store(pod, m.create("/api/v1/namespaces/"+in+"/pods", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q},%s},"spec":%s}`,
				pod, name, owned("ReplicaSet", name+"-5d8f7", set), podSpec(i))))
		}
	})
	return uids
}

func owned(kind, name, uid string) string {
	return fmt.Sprintf(`"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]`, kind, name, uid)
}

// podSpec is what a pod of an everyday chart has.
func podSpec(i int) string {
	env := ""
	switch i % 4 {
	case 0:
		env = `,{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}`
	case 1:
		env = `,{"name":"GOMAXPROCS","value":"8"}`
	}
	return fmt.Sprintf(`{"containers":[{"name":"app","image":"registry.example.com/app-%d:1","args":["--port=8080"],"ports":[{"containerPort":8080,"name":"http"}],`+
		`"env":[{"name":"LOG_FORMAT","value":"json"},{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}%s],`+
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"1500m","memory":"256Mi"}},"readinessProbe":{"httpGet":{"path":"/ready","port":"http"}},`+
		`"volumeMounts":[{"name":"tmp","mountPath":"/tmp"},{"name":"ca","mountPath":"/etc/ca","readOnly":true}]}],`+
		`"nodeName":"node-%d","volumes":[{"name":"tmp","emptyDir":{}},{"name":"ca","projected":{"sources":[{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}]}}],`+
		`"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}`, i, env, i%nodes)
}

// A maker makes objects, many at a time.
type maker struct {
	t      *testing.T
	c      *clustertest.Cluster
	client *http.Client
}

func newMaker(t *testing.T, c *clustertest.Cluster) *maker {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(c.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}, MaxIdleConnsPerHost: customers}
	t.Cleanup(transport.CloseIdleConnections)
	return &maker{t, c, &http.Client{Transport: transport}}
}

func (m *maker) all(n int, one func(i int)) {
	var all sync.WaitGroup
	for first := range customers {
		all.Go(func() {
			for i := first; i < n && !m.t.Failed(); i += customers {
				one(i)
			}
		})
	}
	all.Wait()
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// create makes an object and returns its UID.
func (m *maker) create(path, object string) (uid string) {
	var made struct{ Metadata struct{ UID string } }
	if data := m.send(http.MethodPost, path, object); data != nil {
		if err := json.Unmarshal(data, &made); err != nil {
			m.t.Errorf("creating %s: %v", path, err)
		}
	}
	return made.Metadata.UID
}

// send sends a request and returns the answer, nil where it went wrong.
func (m *maker) send(method, path, object string) []byte {
	request, err := http.NewRequestWithContext(m.t.Context(), method, m.c.URL+path, bytes.NewReader([]byte(object)))
	if err != nil {
		m.t.Error(err)
		return nil
	}
	request.Header.Set("Authorization", "Bearer "+m.c.Token)
	request.Header.Set("Content-Type", map[string]string{http.MethodPatch: "application/merge-patch+json"}[method])
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := m.client.Do(request)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s: %.300s", answer.Status, data)
	}
	if err != nil {
		m.t.Errorf("%s %s: %v", method, path, err)
		return nil
	}
	return data
}
