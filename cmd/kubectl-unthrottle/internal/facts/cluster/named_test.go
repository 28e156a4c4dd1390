package cluster

import "testing"

func TestNamed(t *testing.T) {
	for text, want := range map[string]string{
		"deployment/api":          "/apis/apps/v1/namespaces/shop/deployments/api",
		"deploy/api":              "/apis/apps/v1/namespaces/shop/deployments/api",
		"Deployment/api":          "/apis/apps/v1/namespaces/shop/deployments/api",
		"deployments.apps/api":    "/apis/apps/v1/namespaces/shop/deployments/api",
		"deployment.v1.apps/api":  "/apis/apps/v1/namespaces/shop/deployments/api",
		"deployments.v1.apps/api": "/apis/apps/v1/namespaces/shop/deployments/api",
		"sts.apps/db":             "/apis/apps/v1/namespaces/shop/statefulsets/db",
		"jobs.v1.batch/once":      "/apis/batch/v1/namespaces/shop/jobs/once",
		"cj/nightly":              "/apis/batch/v1/namespaces/shop/cronjobs/nightly",
		"po/api-1":                "/api/v1/namespaces/shop/pods/api-1",
		"pods.v1./api-1":          "/api/v1/namespaces/shop/pods/api-1",

		"deployments.extensions/api": "", "deployments.v1beta1.apps/api": "", "deployments./api": "", "pods./api": "", "pods.core/api": "",
		"service/api": "", "api": "", "deployment/": "", "/api": "", "deployment/a/b": "", "deployment/a?x=1": "", "": "",
	} {
		got := ""
		if r, name, ok := Named(text); ok {
			got = r.Path("shop") + "/" + name
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
