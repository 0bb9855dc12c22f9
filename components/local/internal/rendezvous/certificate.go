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

	"cadre.dev/local/internal/durable"
)

const (
	caFile   = "ca.pem"
	certFile = "tls.crt"
	keyFile  = "tls.key"

	certificateLife = 365 * 24 * time.Hour
	renewBefore     = 30 * 24 * time.Hour
)

// certify leaves a certificate for at in dir, and its CA. Valid ones of an earlier run stay,
// because members have the CA.
func certify(dir string, at netip.Addr, now time.Time) error {
	if pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile)); err == nil {
		if signedBy(pair.Leaf, filepath.Join(dir, caFile)) && pair.Leaf.VerifyHostname(at.String()) == nil && now.Before(pair.Leaf.NotAfter.Add(-renewBefore)) {
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
		if err := durable.Write(filepath.Join(dir, f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// signedBy reports whether the CA in the file signed leaf: a run that was killed between
// the two leaves the CA of another.
func signedBy(leaf *x509.Certificate, file string) bool {
	raw, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return false
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	return err == nil && leaf.CheckSignatureFrom(ca) == nil
}
