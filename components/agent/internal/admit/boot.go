package admit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// Boot is the identity of this start of the CVM, before its admission.
type Boot struct {
	key *ecdsa.PrivateKey
	// PublicKey is the DER SubjectPublicKeyInfo.
	PublicKey []byte
	// ID is the lower-case hex SHA-256 of PublicKey.
	ID string
	// Certificate is self-signed, for first contact only.
	Certificate tls.Certificate
}

// NewBoot makes a fresh P-256 key.
func NewBoot() (*Boot, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make boot key: %w", err)
	}
	return BootOf(key)
}

// BootOf is the Boot of a P-256 key: the same for each process that has it.
func BootOf(key *ecdsa.PrivateKey) (*Boot, error) {
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode boot key: %w", err)
	}
	sum := sha256.Sum256(spki)
	id := hex.EncodeToString(sum[:])
	now := time.Now()
	// The certificate proves possession only, so its dates allow any clock skew.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "cadre boot " + id[:16]},
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(10 * 365 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make boot certificate: %w", err)
	}
	return &Boot{
		key: key, PublicKey: spki, ID: id,
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// Derive gives 32 bytes that follow from the Boot's key and purpose alone.
func (b *Boot) Derive(purpose string) ([]byte, error) {
	secret, err := b.key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("derive from boot key: %w", err)
	}
	out, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive from boot key: %w", err)
	}
	return out, nil
}
