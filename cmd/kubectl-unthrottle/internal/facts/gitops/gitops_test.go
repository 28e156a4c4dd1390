package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

func api() *workload.Workload {
	return &workload.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "api", Labels: map[string]string{}, Annotations: map[string]string{}}
}

// TestOf: labels and annotations name an owner, if they are about the object that has them.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		name                string
		labels, annotations string // key=value, …
		want                string // "": none
	}{
		{name: "nothing"},
		{name: "tracked", annotations: tracking + "=web:apps/Deployment:shop/api", want: "Argo CD's Application web"},
		{name: "tracked, of any namespace", annotations: tracking + "=team-a_web:apps/Deployment:shop/api", want: "Argo CD's Application web in team-a"},
		{name: "a copied annotation", annotations: tracking + "=web:apps/Deployment:shop/other"},
		{name: "another kind's annotation", annotations: tracking + "=web:batch/Job:shop/api"},
		{name: "no object in it", annotations: tracking + "=web"},
		{name: "Argo CD's label", labels: argoInstance + "=web", want: "Argo CD's Application web"},
		{name: "an instance that Argo CD manages", labels: instance + "=web," + managedBy + "=argocd", want: "Argo CD's Application web"},
		{name: "an instance of Helm", labels: instance + "=web," + managedBy + "=Helm"},
		{name: "an instance of nobody", labels: instance + "=web"},
		{name: "a Kustomization", labels: kustomizeName + "=apps," + kustomizeIn + "=flux-system", want: "Flux's Kustomization apps in flux-system"},
		{name: "a HelmRelease", labels: helmName + "=api," + helmIn + "=shop", want: "Flux's HelmRelease api in shop"},
		{name: "no name of an object", labels: argoInstance + "=Web App"},
		{name: "a way out", annotations: tracking + "=..:apps/Deployment:shop/api"},
		{name: "a way out by its namespace", labels: kustomizeName + "=apps," + kustomizeIn + "=../../secrets"},
		{name: "too long", labels: argoInstance + "=" + strings.Repeat("a", 300)},
	} {
		w := api()
		fill := func(m map[string]string, text string) {
			for pair := range strings.SplitSeq(text, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok {
					m[key] = value
				}
			}
		}
		fill(w.Labels, c.labels)
		fill(w.Annotations, c.annotations)
		got := ""
		if o := Of(w); o != nil {
			got = o.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A server gives what it has by path, and counts what it is asked for.
type server struct {
	mu    sync.Mutex
	has   map[string]string
	asked []string
}

func (s *server) Get(_ context.Context, path string, _ url.Values, _ time.Duration) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, path)
	if text, ok := s.has[path]; ok {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return nil, errors.New("forbidden")
}

const (
	argoApp  = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/web"
	fluxApp  = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps"
	fluxRepo = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/fleet"
)

// TestRead: the repository is named where the owner says that it has made the object, and what it says looks like it.
func TestRead(t *testing.T) {
	argo := func(source, resources string) map[string]string {
		return map[string]string{argoApp: fmt.Sprintf(`{"spec":{%s},"status":{"resources":[%s]}}`, source, resources)}
	}
	const (
		mine  = `{"group":"apps","version":"v1","kind":"Deployment","namespace":"shop","name":"api","status":"Synced"}`
		where = `"source":{"repoURL":"https://git.example.com/fleet.git","path":"apps/shop","targetRevision":"main"}`
	)
	flux := func(inventory, repository string) map[string]string {
		return map[string]string{
			fluxApp:  fmt.Sprintf(`{"spec":{"path":"./apps/shop","sourceRef":{"kind":"GitRepository","name":"fleet"}},"status":{"inventory":{"entries":[{"id":%q,"v":"v1"}]}}}`, inventory),
			fluxRepo: fmt.Sprintf(`{"spec":{"url":%q,"ref":{"branch":"main"}}}`, repository),
		}
	}
	web, apps := Owner{Tool: ArgoCD, Kind: application, Name: "web"}, Owner{Tool: Flux, Kind: kustomization, Namespace: "flux-system", Name: "apps"}
	const (
		onlyWeb  = "commit it where Argo CD's Application web takes the object from, which reverts what is changed in the cluster alone"
		onlyApps = "commit it where Flux's Kustomization apps in flux-system takes the object from, which reverts what is changed in the cluster alone"
		noSource = "commit it where Argo CD's Application web in argocd takes the object from, which reverts what is changed in the cluster alone"
		thatWeb  = "Argo CD's Application web in argocd reverts what is changed in the cluster alone"
	)
	for _, c := range []struct {
		name string
		of   Owner
		has  map[string]string
		want string // its advice
	}{
		{"nobody may ask", web, nil, onlyWeb},
		{"no JSON", web, map[string]string{argoApp: "<html>"}, onlyWeb},
		{"an Application", web, argo(where, mine), "commit it to https://git.example.com/fleet.git, path apps/shop, revision main: " + thatWeb},
		{"an Application of OpenShift's", web, map[string]string{
			argoApp: argo(where, "")[argoApp], strings.Replace(argoApp, "/argocd/", "/openshift-gitops/", 1): argo(where, mine)[argoApp],
		}, "commit it to https://git.example.com/fleet.git, path apps/shop, revision main: " + strings.Replace(thatWeb, "in argocd", "in openshift-gitops", 1)},
		{"one of a list", web, argo(`"sources":[{"repoURL":"git@example.com:fleet.git","path":"shop"}]`, mine), "commit it to git@example.com:fleet.git, path shop: " + thatWeb},
		{"several sources", web, argo(`"sources":[{"repoURL":"https://a.example.com","path":"x"},{"repoURL":"https://b.example.com","path":"y"}]`, mine), noSource},
		{"a chart", web, argo(`"source":{"repoURL":"https://charts.example.com","chart":"api","targetRevision":"1.2.3"}`, mine), "change the values of chart api in Argo CD's Application web in argocd, which reverts what is changed in the cluster alone"},
		{"an Application that has not made it", web, argo(where, strings.Replace(mine, `"api"`, `"other"`, 1)), onlyWeb},
		{"of another namespace", web, argo(where, strings.Replace(mine, `"shop"`, `"else"`, 1)), onlyWeb},
		{"of another group", web, argo(where, strings.Replace(mine, `"apps"`, `""`, 1)), onlyWeb},
		{"a password", web, argo(strings.Replace(where, "https://", "https://me:secret@", 1), mine), "commit it to https://git.example.com/fleet.git, path apps/shop, revision main: " + thatWeb},
		{"a token in the query", web, argo(strings.Replace(where, "fleet.git", "fleet.git?token=secret#x", 1), mine), "commit it to https://git.example.com/fleet.git, path apps/shop, revision main: " + thatWeb},
		{"a forged line", web, argo(strings.Replace(where, "apps/shop", `a\nerror: b`, 1), mine), noSource},
		{"a Kustomization", apps, flux("shop_api_apps_Deployment", "ssh://git@example.com/fleet"), "commit it to ssh://git@example.com/fleet, path ./apps/shop, revision main: Flux's Kustomization apps in flux-system reverts what is changed in the cluster alone"},
		{"a Kustomization that has not made it", apps, flux("shop_other_apps_Deployment", "https://git.example.com"), onlyApps},
		{"a repository that may not be read", apps, map[string]string{fluxApp: flux("shop_api_apps_Deployment", "")[fluxApp]}, onlyApps},
		{"a HelmRelease", Owner{Tool: Flux, Kind: helmRelease, Namespace: "shop", Name: "api"}, nil, "change the values of Flux's HelmRelease api in shop, which reverts what is changed in the cluster alone"},
	} {
		o := c.of
		Read(t.Context(), &server{has: c.has}, []Made{{&o, "apps/v1", "Deployment", "shop", "api"}})
		if got := o.Advice(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestBounds: an owner of many objects is asked once, and of many owners not all are asked.
func TestBounds(t *testing.T) {
	s := &server{}
	var all []Made
	for i := range 3 * mostOwners {
		all = append(all, Made{&Owner{Tool: ArgoCD, Kind: application, Name: fmt.Sprint("app-", i)}, "apps/v1", "Deployment", "shop", fmt.Sprint(i)})
		all = append(all, Made{&Owner{Tool: ArgoCD, Kind: application, Name: "web"}, "apps/v1", "Deployment", "shop", fmt.Sprint(i)})
	}
	Read(t.Context(), s, all)
	web := 0
	for _, path := range s.asked {
		if path == argoApp {
			web++
		}
	}
	if len(s.asked) != mostOwners*len(argoNamespaces) || web != 1 {
		t.Errorf("%d questions, %d of one", len(s.asked), web)
	}
	large := &server{has: map[string]string{argoApp: `{"spec":{"source":{"repoURL":"https://git.example.com"}},"status":{"resources":[{"name":"` + strings.Repeat("x", mostBytes) + `"}]}}`}}
	o := Owner{Tool: ArgoCD, Kind: application, Name: "web"}
	Read(t.Context(), large, []Made{{&o, "apps/v1", "Deployment", "shop", "api"}})
	if o.Repository != "" {
		t.Errorf("%+v", o)
	}
}
