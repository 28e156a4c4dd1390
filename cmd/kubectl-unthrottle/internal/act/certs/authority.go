package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Lives say how long things last. The zero value is as Default.
type Lives struct {
	Authority   time.Duration // of an authority
	Certificate time.Duration // of a certificate that it signs
	Skew        time.Duration // by how much clocks may differ: everything is valid from that long ago
	Settle      time.Duration // for how long an authority is trusted before it signs anything
}

// Default are the lives of things in a cluster.
var Default = Lives{Authority: 365 * 24 * time.Hour, Certificate: 30 * 24 * time.Hour, Skew: time.Hour, Settle: 5 * time.Minute}

// orElse is l with the default in place of what is not set.
func (l Lives) orElse(d Lives) Lives {
	for _, p := range []struct {
		to   *time.Duration
		from time.Duration
	}{{&l.Authority, d.Authority}, {&l.Certificate, d.Certificate}, {&l.Skew, d.Skew}, {&l.Settle, d.Settle}} {
		if *p.to <= 0 {
			*p.to = p.from
		}
	}
	return l
}

// A pair is a certificate with its key, as PEM and ready for use.
type pair struct {
	certPEM, keyPEM []byte
	*tls.Certificate
}

func (p pair) ok() bool { return p.Certificate != nil }

func (p pair) signer() crypto.Signer { s, _ := p.PrivateKey.(crypto.Signer); return s }

// readPair is the pair of two PEM texts, or none.
func readPair(cert, key []byte) pair {
	c, err := parsePair(cert, key)
	if err != nil {
		return pair{}
	}
	return pair{cert, key, c}
}

// newAuthority makes an authority that signs itself.
func newAuthority(name string, now time.Time, l Lives) (pair, error) {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-l.Skew), NotAfter: now.Add(l.Authority),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return sign(t, nil, nil)
}

// newServing makes a server's certificate that it signs itself.
func newServing(name string, now time.Time) (pair, error) {
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: now.Add(-Default.Skew), NotAfter: now.Add(ownLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil, nil)
}

// newCertificate makes a server's certificate. It ends with its authority at the latest.
func newCertificate(names []string, by pair, now time.Time, l Lives) (pair, error) {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotBefore: now.Add(-l.Skew), NotAfter: now.Add(l.Certificate),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if end := by.Leaf.NotAfter; t.NotAfter.After(end) {
		t.NotAfter = end
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	return sign(t, by.Leaf, by.signer())
}

// sign makes a key and a certificate for it, signed by an authority, or self-signed without one.
func sign(t, parent *x509.Certificate, by crypto.Signer) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return pair{}, err
	}
	if parent == nil {
		parent, by = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), by)
	if err != nil {
		return pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	p := pair{
		certPEM: encode(der),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	p.Certificate, err = parsePair(p.certPEM, p.keyPEM)
	return p, err
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// bundle is certificates as PEM, and readBundle its reverse: what isn't a certificate is skipped.
func bundle(all []*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range all {
		b.Write(encode(c.Raw))
	}
	return b.Bytes()
}

func readBundle(text []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
}
