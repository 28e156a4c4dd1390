package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// A state is what the Secret holds. What is due follows from it, the time, and whether the API servers trust its authority by now.
type state struct {
	authority pair                // signs
	serving   pair                // what the webhook shows
	trusted   []*x509.Certificate // the authority, and earlier ones until they expire
}

// The keys of the Secret. Others read tls.crt, tls.key and ca.crt by these names too.
const (
	keyAuthority    = "authority.crt"
	keyAuthorityKey = "authority.key"
	keyServing      = "tls.crt"
	keyServingKey   = "tls.key"
	keyTrusted      = "ca.crt"
)

// readState takes what the Secret's data has. What can't be read counts as not there, and is recreated.
func readState(data map[string][]byte) state {
	return state{
		authority: readPair(data[keyAuthority], data[keyAuthorityKey]),
		serving:   readPair(data[keyServing], data[keyServingKey]),
		trusted:   readBundle(data[keyTrusted]),
	}
}

func (s state) data() map[string][]byte {
	return map[string][]byte{
		keyAuthority: s.authority.certPEM, keyAuthorityKey: s.authority.keyPEM,
		keyServing: s.serving.certPEM, keyServingKey: s.serving.keyPEM,
		keyTrusted: bundle(s.trusted),
	}
}

// An event is something that was due.
type event string

const (
	madeAuthority   event = "authority made"
	madeCertificate event = "certificate made"
	droppedTrust    event = "expired authority dropped"
	trustedAgain    event = "authority trusted again"
)

// next is the state that there should be now. settled says that all API servers trust the authority: a new one signs nothing
// before. It signs at once only if there is no certificate to show meanwhile.
func (s state) next(names []string, settled bool, now time.Time, l Lives) (next state, events []event, err error) {
	next = s
	next.trusted = slices.Clone(s.trusted)
	next.trusted = slices.DeleteFunc(next.trusted, func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	if len(next.trusted) < len(s.trusted) {
		events = append(events, droppedTrust)
	}
	if a := next.authority; !a.ok() || !maySign(a.Leaf) || due(a.Leaf, now) {
		if next.authority, err = newAuthority("unthrottle webhook", now, l); err != nil {
			return s, nil, err
		}
		events, settled = append(events, madeAuthority), false
	}
	if !contains(next.trusted, next.authority.Leaf) {
		next.trusted = slices.Insert(next.trusted, 0, next.authority.Leaf)
		if !slices.Contains(events, madeAuthority) {
			events = append(events, trustedAgain)
		}
	}
	c := next.serving
	usable := c.ok() && !now.After(c.Leaf.NotAfter) && covers(c.Leaf, names) && signedByOne(c.Leaf, next.trusted)
	if !usable || settled && (due(c.Leaf, now) || c.Leaf.CheckSignatureFrom(next.authority.Leaf) != nil) {
		if next.serving, err = newCertificate(names, next.authority, now, l); err != nil {
			return s, nil, err
		}
		events = append(events, madeCertificate)
	}
	return next, events, nil
}

// maySign reports whether what an authority signs can be trusted: all of it is as signed, by itself, and it is allowed to sign.
func maySign(authority *x509.Certificate) bool {
	return authority.IsCA && authority.CheckSignatureFrom(authority) == nil
}

// due reports whether two thirds of a certificate's time are over.
func due(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3))
}

func covers(c *x509.Certificate, names []string) bool {
	for _, name := range names {
		if c.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

func signedByOne(c *x509.Certificate, authorities []*x509.Certificate) bool {
	return slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return c.CheckSignatureFrom(a) == nil })
}

func contains(all []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(all, c.Equal)
}
