// Package certificate keeps the rendezvous' own TLS certificate: from files that
// are read again when they change, or self-signed where there are none.
package certificate

import (
	"bytes"
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
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	selfSignedLife  = 2 * 365 * 24 * time.Hour
	selfSignedRenew = 30 * 24 * time.Hour
	certName        = "rendezvous.pem"
	keyName         = "rendezvous-key.pem"
)

// errPair reports files that are no certificate with its key.
var errPair = errors.New("no certificate with its key")

// Source gives the present certificate. Safe for concurrent use.
type Source struct {
	certFile, keyFile string
	log               *slog.Logger
	// CA is the PEM that clients need, set for a self-signed certificate only.
	CA []byte

	mu      sync.RWMutex
	cert    *tls.Certificate
	certPEM []byte
}

// Load reads a certificate and its key.
func Load(certFile, keyFile string, log *slog.Logger) (*Source, error) {
	s := &Source{certFile: certFile, keyFile: keyFile, log: log}
	return s, s.read()
}

// SelfSigned keeps a certificate for names in dir, and makes it where it is
// missing, near its end, or for other names. With dir "" it lives as long as the
// process.
func SelfSigned(dir string, names []string, now time.Time, log *slog.Logger) (*Source, error) {
	if dir == "" {
		certPEM, keyPEM, err := selfSign(names, now, nil)
		if err != nil {
			return nil, err
		}
		cert, err := tls.X509KeyPair(certPEM, keyPEM)
		return &Source{CA: certPEM, cert: &cert, certPEM: certPEM, log: log}, err
	}
	s := &Source{certFile: filepath.Join(dir, certName), keyFile: filepath.Join(dir, keyName), log: log}
	err := s.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errPair) {
		return nil, err
	}
	if err != nil || !s.fits(names, now) {
		if err := s.renew(names, now); err != nil {
			return nil, err
		}
		if err := s.read(); err != nil {
			return nil, err
		}
	}
	s.CA = s.certPEM
	return s, nil
}

// renew writes a new certificate for the key that there is, so that at no time
// the two files do not match. Without a usable key it makes one.
func (s *Source) renew(names []string, now time.Time) error {
	key, err := readKey(s.keyFile)
	if err != nil {
		return err
	}
	certPEM, keyPEM, err := selfSign(names, now, key)
	if err != nil {
		return err
	}
	// The key first: until the certificate follows, they are a mismatch, which
	// the next start mends.
	if key == nil {
		err = replace(s.keyFile, keyPEM)
	}
	if err == nil {
		err = replace(s.certFile, certPEM)
	}
	if err != nil {
		return fmt.Errorf("keep self-signed certificate: %w", err)
	}
	return nil
}

// Get is for tls.Config.GetCertificate.
func (s *Source) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cert, nil
}

// Refresh reads files that have changed. If the new files are unusable, the old
// certificate stays.
func (s *Source) Refresh() {
	if s.certFile == "" {
		return
	}
	b, err := os.ReadFile(s.certFile)
	s.mu.RLock()
	same := bytes.Equal(b, s.certPEM)
	s.mu.RUnlock()
	if err == nil && same {
		return
	}
	if err == nil {
		err = s.read()
	}
	if err != nil {
		s.log.Error("TLS certificate not read again", "error", err)
		return
	}
	s.log.Info("TLS certificate read again")
}

func (s *Source) read() error {
	certPEM, err := os.ReadFile(s.certFile)
	if err != nil {
		return fmt.Errorf("read TLS certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(s.keyFile)
	if err != nil {
		return fmt.Errorf("read TLS key: %w", err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("read TLS certificate %s: %w: %w", s.certFile, errPair, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert, s.certPEM = &cert, certPEM
	return nil
}

// fits reports whether the certificate is for all names and will be for a while.
func (s *Source) fits(names []string, now time.Time) bool {
	leaf := s.cert.Leaf
	if leaf == nil || now.Add(selfSignedRenew).After(leaf.NotAfter) {
		return false
	}
	for _, n := range names {
		if leaf.VerifyHostname(n) != nil {
			return false
		}
	}
	return true
}

// selfSign makes a certificate for key, or for a new one.
func selfSign(names []string, now time.Time, key *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, fmt.Errorf("make TLS key: %w", err)
		}
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make TLS certificate: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "cadre-rendezvous"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedLife),
		// A CA so that it can be given to clients as their only root.
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip, err := netip.ParseAddr(n); err == nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip.AsSlice())
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make TLS certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make TLS key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
