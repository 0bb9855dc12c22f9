package rendezvous

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

const (
	caFile   = "ca.pem"
	certFile = "tls.crt"
	keyFile  = "tls.key"

	certificateLife = 365 * 24 * time.Hour
	renewBefore     = 30 * 24 * time.Hour
)

// certify leaves a certificate for at in dir, and the CA that signed it. Those of
// an earlier run stay while they are good: members have been given the CA.
func certify(dir string, at netip.Addr, now time.Time) error {
	if pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile)); err == nil {
		_, err := os.Stat(filepath.Join(dir, caFile))
		if err == nil && pair.Leaf.VerifyHostname(at.String()) == nil && now.Before(pair.Leaf.NotAfter.Add(-renewBefore)) {
			return nil
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make ca key: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "local cloud rendezvous"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make ca: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{at.AsSlice()},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{keyFile, "PRIVATE KEY", keyDER}, {certFile, "CERTIFICATE", leafDER}, {caFile, "CERTIFICATE", caDER}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}
