// Package certs issues the certificates of the ends of a measurement.
package certs

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"time"
)

// ServerName is in the certificates that name no identity.
const ServerName = "bench.internal"

// Authority is a CA that lasts as long as a benchmark.
type Authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
	// Roots is the CA's certificate in PEM.
	Roots []byte
}

// Pair is a certificate with its key, in PEM.
type Pair struct {
	Certificate, Key []byte
	// Leaf is the certificate, parsed.
	Leaf *x509.Certificate
}

const lifetime = 24 * time.Hour

// New makes an Authority.
func New() (*Authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return &Authority{cert: cert, key: key, Roots: block("CERTIFICATE", der)}, nil
}

// Issue makes a certificate for both sides of TLS. uri is an identity, or "".
func (a *Authority) Issue(uri string) (Pair, error) {
	if uri == "" {
		return a.issue(&x509.Certificate{DNSNames: []string{ServerName}})
	}
	u, err := url.Parse(uri)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	return a.issue(&x509.Certificate{URIs: []*url.URL{u}})
}

// IssueAddress makes a certificate for a server at an address.
func (a *Authority) IssueAddress(addr netip.Addr) (Pair, error) {
	return a.issue(&x509.Certificate{IPAddresses: []net.IP{addr.AsSlice()}})
}

// issue completes and signs a template with a subject.
func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	template.SerialNumber, template.Subject = serial, pkix.Name{CommonName: "bench"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate: %w", err)
	}
	return Pair{Certificate: block("CERTIFICATE", der), Key: block("PRIVATE KEY", keyDER), Leaf: leaf}, nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
