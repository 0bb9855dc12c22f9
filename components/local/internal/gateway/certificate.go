package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"cadre.dev/local/internal/durable"
)

const (
	caFile    = "ca.pem"
	caKeyFile = "ca.key"

	caLife      = 10 * 365 * 24 * time.Hour
	caRenew     = 90 * 24 * time.Hour
	certificate = 365 * 24 * time.Hour
)

// CAFile is where Certify leaves the certificate that clients trust.
func CAFile(dir string) string { return filepath.Join(dir, caFile) }

// Certify returns a certificate for every name directly below domain, signed by the CA in dir.
// Certify makes the CA the first time and keeps it, because clients trust it. A CA whose key and
// certificate do not match can sign nothing, and is replaced. The CA can sign for domain alone.
func Certify(dir, domain string, now time.Time) (tls.Certificate, error) {
	ca, key, err := readCA(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoPair) || err == nil && (now.After(ca.NotAfter.Add(-caRenew)) || !permits(ca, domain)) {
		ca, key, err = makeCA(dir, domain, now)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("gateway's CA: %w", err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make serial number: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "*." + domain}, DNSNames: []string{"*." + domain},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificate),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.Raw}, PrivateKey: own}, nil
}

func permits(ca *x509.Certificate, domain string) bool {
	return len(ca.PermittedDNSDomains) == 1 && ca.PermittedDNSDomains[0] == domain
}

func makeCA(dir, domain string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "local cloud gateway " + domain},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{domain},
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	// The key first: users could already have a certificate without its key. A process that is
	// killed between the two writes leaves no matching pair, which the next start detects.
	for _, f := range []struct {
		name, kind string
		der        []byte
		mode       os.FileMode
	}{{caKeyFile, "PRIVATE KEY", keyDER, 0o600}, {caFile, "CERTIFICATE", der, 0o644}} {
		if err := durable.Write(filepath.Join(dir, f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return nil, nil, err
		}
	}
	return readCA(dir)
}

// errNoPair: both files are there, and no CA can be made of them.
var errNoPair = errors.New("key and certificate are no pair")

func readCA(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := os.ReadFile(CAFile(dir))
	if err != nil {
		return nil, nil, err
	}
	secret, err := os.ReadFile(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(cert, secret)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoPair, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s is of another kind than this program makes; remove %s", caKeyFile, dir)
	}
	return pair.Leaf, key, nil
}
