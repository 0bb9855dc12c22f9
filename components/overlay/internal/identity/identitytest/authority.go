// Package identitytest makes cluster CAs and SVIDs for tests.
package identitytest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// Authority is a cluster CA.
type Authority struct {
	Cluster string
	Pool    *x509.CertPool
	PEM     []byte

	cert *x509.Certificate
	key  ed25519.PrivateKey
}

// NewAuthority makes the CA of a cluster.
func NewAuthority(t testing.TB, cluster string) *Authority {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cluster},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{
		Cluster: cluster, Pool: x509.NewCertPool(), key: key,
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	return a
}

// Root gives the CA's own certificate.
func (a *Authority) Root() *x509.Certificate { return a.cert }

// ID names a Slot of the cluster.
func (a *Authority) ID(group, slot string) identity.ID {
	return identity.ID{Cluster: a.Cluster, Group: group, Slot: slot}
}

// Key makes a Boot's key.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Issue makes the SVID of a new Boot; change may spoil it.
func (a *Authority) Issue(t testing.TB, id identity.ID, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	return a.IssueFor(t, id, Key(t), change...)
}

// IssueFor makes an SVID for a Boot's key.
func (a *Authority) IssueFor(t testing.TB, id identity.ID, key *ecdsa.PrivateKey, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	name, err := url.Parse(id.String())
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "svid"}, URIs: []*url.URL{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, c := range change {
		c(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
