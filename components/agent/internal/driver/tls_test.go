package driver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates of a test; its own is in the file ca.
type authority struct {
	t    *testing.T
	dir  string
	ca   string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	var der []byte
	der, a.key = a.sign(a.cert)
	a.ca = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// sign makes a key and its certificate; the first one signs itself.
func (a *authority) sign(of *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	at := filepath.Join(a.dir, name)
	if err := os.WriteFile(at, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return at
}

// issue gives the files of a certificate, for servers at addrs and for clients, and of its key.
func (a *authority) issue(name string, addrs ...netip.Addr) (cert, key string) {
	a.t.Helper()
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	for _, addr := range addrs {
		of.IPAddresses = append(of.IPAddresses, net.IP(addr.AsSlice()))
	}
	der, private := a.sign(of)
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+"-key.pem", "EC PRIVATE KEY", raw)
}
