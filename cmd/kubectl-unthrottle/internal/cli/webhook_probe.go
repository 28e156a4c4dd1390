package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// probePod has a GOMEMLIMIT of 64 bytes, which every mode of the webhook warns of or repairs, and which no policy of ours changes before the
// webhook sees it. No --exempt-container is likely to name its container. Everything else is what a namespace may ask for at its strictest.
const probePod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unthrottle-webhook-probe"}, "spec": {
	"automountServiceAccountToken": false,
	"securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
	"containers": [{"name": "unthrottle-webhook-probe", "image": "example.com/unthrottle-webhook-probe",
		"env": [{"name": "GOMEMLIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}],
		"resources": {"requests": {"cpu": "1m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
		"securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}}]}}`

const anotherNamespace = "-n NAME tries it in another namespace"

// The beginnings of what the webhook says.
const (
	probeSaid   = "unthrottle: "
	probeFailed = "unthrottle did not look at this pod: "
)

// probeWebhook tries out a pod in a namespace, and gives what the webhook of that configuration said, or why it was not asked. The pod is
// tried out on the server's side and never made.
func probeWebhook(ctx context.Context, client rest.Interface, configuration, namespace string) (string, error) {
	r := client.Post().AbsPath("/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods").Param("dryRun", "All").MaxRetries(0).Body([]byte(probePod)).Do(ctx)
	for _, w := range r.Warnings() {
		if text, ok := strings.CutPrefix(w.Text, probeFailed); ok {
			return "", hint.With(errors.New("the webhook was asked, and did not look at the pod: "+text), "try again; its log says more")
		}
		if text, ok := strings.CutPrefix(w.Text, probeSaid); ok {
			return text, nil
		}
	}
	if err := r.Error(); err != nil {
		told := cluster.Explain("trying out a pod in namespace "+namespace, err)
		if apierrors.IsForbidden(err) { // to this user, or by something else that judges pods there
			told = hint.With(told, "kubectl auth can-i create pods -n "+namespace, anotherNamespace)
		}
		return "", told
	}
	return "", whySilent(ctx, client, configuration, namespace)
}

// whySilent is why the webhook said nothing, as far as that can be read.
func whySilent(ctx context.Context, client rest.Interface, configuration, namespace string) error {
	var c struct {
		Webhooks []struct {
			Name         string
			ClientConfig struct {
				CABundle []byte
				Service  *struct{ Namespace, Name string }
			}
			NamespaceSelector *metav1.LabelSelector
		}
	}
	err := getObject(ctx, client, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"+url.PathEscape(configuration), &c)
	switch {
	case apierrors.IsNotFound(err):
		return hint.With(fmt.Errorf("no webhook is installed: there is no MutatingWebhookConfiguration %s", configuration),
			"docs/webhook.md says how to install it, and --configuration NAME names another")
	case err != nil:
		return hint.With(fmt.Errorf("the webhook said nothing; why is not known: %w", cluster.Explain("reading its MutatingWebhookConfiguration "+configuration, err)),
			"kubectl auth can-i get mutatingwebhookconfigurations/"+configuration)
	case len(c.Webhooks) == 0:
		return hint.With(fmt.Errorf("the MutatingWebhookConfiguration %s has no webhooks", configuration), "install it again")
	}
	w := c.Webhooks[0] // of those for new pods
	service := "its Service"
	pods := "look at what answers at its URL"
	if s := w.ClientConfig.Service; s != nil {
		service = "the Service " + s.Name
		pods = fmt.Sprintf("kubectl -n %s get pods,endpointslices -l app.kubernetes.io/name=unthrottle-webhook", s.Namespace)
	}
	var n struct{ Metadata metav1.ObjectMeta }
	if err := getObject(ctx, client, "/api/v1/namespaces/"+url.PathEscape(namespace), &n); err == nil {
		if selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector); err == nil && w.NamespaceSelector != nil && !selector.Matches(labels.Set(n.Metadata.Labels)) {
			return hint.With(fmt.Errorf("the webhook leaves the namespace %s alone", namespace), anotherNamespace)
		}
	}
	if len(w.ClientConfig.CABundle) == 0 {
		return hint.With(errors.New("the API server can't ask the webhook: no caBundle yet, which the webhook writes itself once it runs"), pods)
	}
	return hint.With(fmt.Errorf("the webhook said nothing: the API server did not reach %s in time, or the webhook leaves the namespace %s alone", service, namespace),
		pods, "a private cluster's firewall has to let the API server through to the pods' port 8443")
}

func getObject(ctx context.Context, client rest.Interface, path string, into any) error {
	data, err := cluster.Raw(ctx, client.Get().AbsPath(path).MaxRetries(0))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer of the API server: %w", err)
	}
	return nil
}
