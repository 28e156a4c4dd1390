package certs

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

var (
	began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lives = Lives{Authority: 360 * 24 * time.Hour, Certificate: 30 * 24 * time.Hour, Skew: time.Hour, Settle: time.Hour}
	names = []string{"webhook.unthrottle.svc", "127.0.0.1"}
)

// must is the next state, and what was due.
func must(t *testing.T, s state, settled bool, now time.Time) (state, []event) {
	t.Helper()
	next, events, err := s.next(names, settled, now, lives)
	if err != nil {
		t.Fatal(err)
	}
	return next, events
}

func TestNext(t *testing.T) {
	first, events := must(t, state{}, false, began)
	if !slices.Equal(events, []event{madeAuthority, madeCertificate}) || len(first.trusted) != 1 {
		t.Fatalf("from nothing: %q, %d trusted", events, len(first.trusted))
	}
	if err := first.serving.Leaf.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if from := first.serving.Leaf.NotBefore; !from.Equal(began.Add(-lives.Skew)) {
		t.Errorf("it is valid from %v on", from)
	}
	day := 24 * time.Hour
	renewing := state{authority: first.authority, trusted: first.trusted} // 241 days on, with a fresh certificate of the first authority
	var err error
	if renewing.serving, err = newCertificate(names, first.authority, began.Add(240*day), lives); err != nil {
		t.Fatal(err)
	}
	rotated, events := must(t, renewing, true, began.Add(241*day))
	if !slices.Equal(events, []event{madeAuthority}) || len(rotated.trusted) != 2 {
		t.Fatalf("at two thirds of the authority's life: %q, %d trusted", events, len(rotated.trusted))
	}
	if !rotated.serving.Leaf.Equal(renewing.serving.Leaf) {
		t.Error("a new authority signs before it is trusted")
	}
	unable, err := sign(&x509.Certificate{ // signed with a right key, and what it signs is trusted by no one
		NotBefore: began.Add(-day), NotAfter: began.Add(360 * day), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name    string
		from    state
		settled bool
		at      time.Duration
		want    []event
	}{
		{"nothing is due", first, true, 19 * day, nil},
		{"two thirds of the certificate's life", first, true, 21 * day, []event{madeCertificate}},
		{"the same, and its authority has not settled", first, false, 21 * day, nil},
		{"expired, and its authority has not settled", first, false, 31 * day, []event{madeCertificate}},
		{"a new authority has not settled", rotated, false, 242 * day, nil},
		{"it has", rotated, true, 242 * day, []event{madeCertificate}},
		{"all has expired", first, true, 400 * day, []event{droppedTrust, madeAuthority, madeCertificate}},
		{"the older authority has expired", rotated, true, 361 * day, []event{droppedTrust, madeCertificate}},
		{"the certificate is lost", state{authority: first.authority, trusted: first.trusted}, true, day, []event{madeCertificate}},
		{"the authority is lost", state{serving: first.serving, trusted: first.trusted}, true, day, []event{madeAuthority}},
		{"the authority may sign nothing", state{authority: unable, trusted: first.trusted}, true, day, []event{madeAuthority, madeCertificate}},
		{"trust is lost", state{authority: first.authority, serving: first.serving}, true, day, []event{trustedAgain}},
		{"a clock is a day behind", first, true, -day, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, events := must(t, c.from, c.settled, began.Add(c.at))
			if !slices.Equal(events, c.want) {
				t.Errorf("%q, want %q", events, c.want)
			}
			if again := readState(next.data()); !slices.Equal(again.data()[keyServingKey], next.serving.keyPEM) || len(again.trusted) != len(next.trusted) {
				t.Error("the Secret's data reads otherwise than it was written")
			}
		})
	}

	other := slices.Concat(names, []string{"other"})
	if _, events, err := first.next(other, true, began, lives); err != nil || !slices.Equal(events, []event{madeCertificate}) {
		t.Errorf("for another name: %q, %v", events, err)
	}
}

// FuzzState reads Secrets that someone else has written. The result is a certificate that can be shown.
func FuzzState(f *testing.F) {
	s, _, err := state{}.next(names, false, began, lives)
	if err != nil {
		f.Fatal(err)
	}
	d := s.data()
	f.Add(d[keyAuthority], d[keyAuthorityKey], d[keyServing], d[keyServingKey], d[keyTrusted])
	f.Add(d[keyServing], d[keyServingKey], d[keyServing], d[keyServingKey], d[keyServing])
	f.Add(d[keyAuthority], d[keyServingKey], d[keyAuthority], d[keyAuthorityKey], []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, a, aKey, c, cKey, trusted []byte) {
		s := readState(map[string][]byte{keyAuthority: a, keyAuthorityKey: aKey, keyServing: c, keyServingKey: cKey, keyTrusted: trusted})
		next, _, err := s.next(names, false, began, lives)
		if err != nil {
			t.Skip(err) // a key that may not sign
		}
		if !next.serving.ok() || !contains(next.trusted, next.authority.Leaf) || !covers(next.serving.Leaf, names) || !signedByOne(next.serving.Leaf, next.trusted) {
			t.Error("the certificate is not trusted")
		}
	})
}
