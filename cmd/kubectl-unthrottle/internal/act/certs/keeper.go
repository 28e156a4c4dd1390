package certs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Keeper makes the certificate itself, with an authority of its own, and renews both.
type Keeper struct {
	Client        *Client
	Namespace     string
	Secret        string   // that the replicas share
	Configuration string   // MutatingWebhookConfiguration whose caBundle is kept
	Names         []string // that the certificate is for, and addresses
	Lives         Lives
	Every         time.Duration // how often it is looked after (0: 1 min)
	Log           *slog.Logger
	Now           func() time.Time // nil: time.Now

	current
	published *x509.Certificate // the authority that was found in the configuration last
	since     time.Time         // when it was found there first
}

const everyMinute = time.Minute

// Check says what is wrong with a keeper's settings.
func (k *Keeper) Check() error {
	l := k.Lives.orElse(Default)
	if least := 6 * (l.Settle + k.every()); l.Certificate < least {
		return fmt.Errorf("a certificate for %v does not outlast its own renewal: the least is %v", l.Certificate, least)
	}
	if l.Authority < 3*l.Certificate {
		return fmt.Errorf("an authority for %v is too short for certificates for %v: the least is %v", l.Authority, l.Certificate, 3*l.Certificate)
	}
	return nil
}

func (k *Keeper) every() time.Duration {
	if k.Every > 0 {
		return k.Every
	}
	return everyMinute
}

func (k *Keeper) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// Run looks after the certificate until the context ends. While the API server can't be asked, the certificate stays unchanged.
func (k *Keeper) Run(ctx context.Context) {
	const first = 500 * time.Millisecond
	backoff := first
	for {
		err := k.sync(ctx)
		wait := k.every()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			backoff = first
		case is(err, http.StatusConflict, http.StatusUnprocessableEntity):
			k.Log.Debug("certificate: another replica was faster", "error", err)
			wait = min(wait, first/5)
		default:
			k.failures.Add(1)
			k.Log.Error("certificate not looked after; it is tried again", "error", err)
			wait = min(wait, backoff)
			backoff = min(2*backoff, time.Hour)
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1)) // so that the replicas do not meet
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// sync does what is due. The configuration is read before the Secret: this way, all that another replica has published in the
// one is known from the other, and an older state never replaces a newer one.
func (k *Keeper) sync(ctx context.Context) error {
	conf, confErr := k.configuration(ctx)
	stored, err := k.secret(ctx)
	if err != nil {
		return errors.Join(err, confErr)
	}
	data, err := stored.data()
	if err != nil {
		return fmt.Errorf("the data of Secret %s: %w", k.Secret, err)
	}
	before := readState(data)
	lives := k.Lives.orElse(Default)
	next, events, err := before.next(k.Names, k.settled(before.authority, conf, lives.Settle), k.now(), lives)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	if len(events) > 0 {
		if err := k.store(ctx, stored, next); err != nil {
			return errors.Join(err, confErr)
		}
		for _, e := range events {
			k.Log.Info(string(e), "secret", k.Secret)
		}
	}
	if k.show(next.serving.Certificate) {
		k.Log.Info("certificate loaded", "secret", k.Secret, "expires", next.serving.Leaf.NotAfter.UTC())
	}
	if confErr != nil {
		return confErr
	}
	return k.publish(ctx, conf, bundle(next.trusted))
}

// settled reports whether this replica has seen an authority in the configuration for long enough that every API server has, too.
func (k *Keeper) settled(authority pair, c *admission.MutatingWebhookConfiguration, settle time.Duration) bool {
	if !authority.ok() || !contains(published(c), authority.Leaf) {
		k.published = nil
		return false
	}
	if k.published == nil || !k.published.Equal(authority.Leaf) {
		k.published, k.since = authority.Leaf, k.now()
	}
	return k.now().Sub(k.since) >= settle
}

func (k *Keeper) secret(ctx context.Context) (secret, error) {
	var s secret
	err := k.Client.do(ctx, http.MethodGet, k.secrets()+"/"+k.Secret, "", nil, &s)
	if !is(err, http.StatusNotFound) {
		return s, err
	}
	created := map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metav1.ObjectMeta{Name: k.Secret, Namespace: k.Namespace}}
	if err := k.Client.do(ctx, http.MethodPost, k.secrets(), asJSON, created, &s); err != nil {
		return nil, fmt.Errorf("the Secret is not there, and can't be made: %w", err)
	}
	return s, nil
}

func (k *Keeper) secrets() string { return "/api/v1/namespaces/" + k.Namespace + "/secrets" }

// store writes a state with the resourceVersion that was read, so that it fails if another replica has written since.
func (k *Keeper) store(ctx context.Context, s secret, next state) error {
	data, err := json.Marshal(next.data())
	if err != nil {
		return err
	}
	s["data"] = data
	return k.Client.do(ctx, http.MethodPut, k.secrets()+"/"+k.Secret, asJSON, s, &s)
}

func (k *Keeper) configuration(ctx context.Context) (*admission.MutatingWebhookConfiguration, error) {
	c := &admission.MutatingWebhookConfiguration{}
	return c, k.Client.do(ctx, http.MethodGet, k.configurations(), "", nil, c)
}

func (k *Keeper) configurations() string {
	return "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" + k.Configuration
}

// published are the authorities that all webhooks of the configuration trust.
func published(c *admission.MutatingWebhookConfiguration) (all []*x509.Certificate) {
	for i, w := range c.Webhooks {
		trusted := readBundle(w.ClientConfig.CABundle)
		if i == 0 {
			all = trusted
		}
		all = slices.DeleteFunc(all, func(c *x509.Certificate) bool { return !contains(trusted, c) })
	}
	return all
}

// publish writes the caBundle where it is another one.
func (k *Keeper) publish(ctx context.Context, c *admission.MutatingWebhookConfiguration, bundle []byte) error {
	patch := []operation{{"test", "/metadata/resourceVersion", c.ResourceVersion}}
	for i, w := range c.Webhooks {
		if string(w.ClientConfig.CABundle) != string(bundle) {
			patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), bundle})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	var answer metav1.PartialObjectMetadata
	if err := k.Client.do(ctx, http.MethodPatch, k.configurations(), asPatch, patch, &answer); err != nil {
		return err
	}
	k.Log.Info("caBundle written", "configuration", k.Configuration, "webhooks", len(patch)-1)
	return nil
}
