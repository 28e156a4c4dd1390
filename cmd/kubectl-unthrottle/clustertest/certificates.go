package clustertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are the files of a run, by which its programs know each other.
type certificates struct {
	ca          string // the authority's certificate, which signed the servers' own
	cert, key   string // of both servers, and of the API server as a client of etcd
	accountsKey string // signs the tokens of service accounts
	// The API server's as a client of kubelets: an administrator's.
	adminCert, adminKey string

	authority    *x509.Certificate
	authorityKey *ecdsa.PrivateKey
}

const (
	serverName = "kubernetes.default.svc" // by which pods know the API server
	validFor   = 30 * 24 * time.Hour
)

// makeCertificates writes new certificates and keys to a folder.
func makeCertificates(dir string) (certificates, error) {
	c := certificates{
		ca:          filepath.Join(dir, "ca.crt"),
		cert:        filepath.Join(dir, "server.crt"),
		key:         filepath.Join(dir, "server.key"),
		accountsKey: filepath.Join(dir, "accounts.key"),
		adminCert:   filepath.Join(dir, "admin.crt"),
		adminKey:    filepath.Join(dir, "admin.key"),
	}
	authority := template(1, "clustertest authority")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	server := template(2, serverName)
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", serverName}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceAddress)}
	admin := template(3, "kube-apiserver")
	admin.Subject.Organization = []string{"system:masters"}

	authorityKey, err1 := newKey()
	accountsKey, err2 := newKey()
	if err := errors.Join(err1, err2); err != nil {
		return c, fmt.Errorf("making keys: %w", err)
	}
	c.authority, c.authorityKey = authority, authorityKey
	err := errors.Join(
		writeCertificate(c.ca, authority, authority, authorityKey, authorityKey),
		c.sign(c.cert, c.key, server),
		c.sign(c.adminCert, c.adminKey, admin),
		writeKey(c.accountsKey, accountsKey),
	)
	if err != nil {
		return c, fmt.Errorf("making certificates: %w", err)
	}
	return c, nil
}

// node writes the certificate of a node, which it shows as a server and as a client, and the authority's.
func (c certificates) node(dir, name string, ip net.IP) error {
	node := template(time.Now().UnixNano(), "system:node:"+name)
	node.Subject.Organization = []string{"system:nodes"}
	node.DNSNames, node.IPAddresses = []string{name}, []net.IP{ip}
	authority, err := os.ReadFile(c.ca)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.crt"), authority, 0o644)
	}
	if err == nil {
		err = c.sign(filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key"), node)
	}
	if err != nil {
		return fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	return nil
}

// sign writes a certificate for servers and clients, with a new key.
func (c certificates) sign(cert, key string, of *x509.Certificate) error {
	of.KeyUsage = x509.KeyUsageDigitalSignature
	of.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	own, err := newKey()
	if err != nil {
		return err
	}
	return errors.Join(writeCertificate(cert, of, c.authority, own, c.authorityKey), writeKey(key, own))
}

func template(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // a clock may be set back a little
		NotAfter:     now.Add(validFor),
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeCertificate(path string, of, by *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
