package certs

import (
	"context"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/process/hostile"
)

// TestHostileAnswers: no matter what answers in the API server's place, the webhook's token goes nowhere else, and a call ends.
func TestHostileAnswers(t *testing.T) {
	for _, a := range hostile.Answers() {
		t.Run(a.Name, func(t *testing.T) {
			sink := hostile.NewSink(t)
			s := a.Serve(t, sink, true)
			dir := t.TempDir()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			for name, data := range map[string][]byte{"ca.crt": ca, "token": []byte("secret"), "namespace": []byte("unthrottle")} {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			u, _ := url.Parse(s.URL)
			env := map[string]string{"KUBERNETES_SERVICE_HOST": u.Hostname(), "KUBERNETES_SERVICE_PORT": u.Port()}
			c, _, err := InCluster(func(name string) string { return env[name] }, dir)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var out metav1.PartialObjectMetadata
			err = c.do(ctx, "PATCH", "/api/v1/namespaces/unthrottle/secrets/a", asPatch, []operation{}, &out)
			if n, last := sink.Asked(); n > 0 {
				t.Errorf("another server was asked: %s", last)
			}
			if a.Leads && err == nil {
				t.Error("no error")
			}
		})
	}
}
