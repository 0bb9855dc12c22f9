package attestsim

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	seedFile = "attestation-seed"
	rootFile = "attestation-root.pem"
	seedSize = 32
)

// Cloud is a simulated manufacturer with its hosts and its KMS. All keys come from one seed, so a
// reopened Cloud makes the same keys, roots and measurements. It is safe for concurrent use.
type Cloud struct {
	// constant after OpenCloud
	seed    []byte
	rootKey *ecdsa.PrivateKey
	root    *x509.Certificate
	rootPEM []byte
	kms     *kms

	mu    sync.Mutex
	hosts map[string]*host // guarded by mu
	// registered counts the later registrations of a machine.
	registered map[string]int // guarded by mu
}

// OpenCloud opens the Cloud in dir, and makes it if there is none. dir gets mode
// 0700 and the files in it 0600: the seed is the whole cloud's secret.
func OpenCloud(dir string) (*Cloud, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open simulated cloud: %w", err)
	}
	seed, err := keepFile(filepath.Join(dir, seedFile), newSeed)
	if err != nil {
		return nil, fmt.Errorf("open simulated cloud: seed: %w", err)
	}
	if len(seed) != seedSize {
		return nil, fmt.Errorf("open simulated cloud: %s has %d bytes, not %d; remove the folder to start a new cloud", seedFile, len(seed), seedSize)
	}
	c := &Cloud{seed: seed, hosts: map[string]*host{}, registered: map[string]int{}}
	if c.rootKey, err = deriveP256(seed, "root-ca"); err != nil {
		return nil, fmt.Errorf("open simulated cloud: root key: %w", err)
	}
	// The certificate is kept too: it is a literal in measured compose files, and
	// another release of the encoder must not change it.
	c.rootPEM, err = keepFile(filepath.Join(dir, rootFile), func() ([]byte, error) { return makeRoot(c.rootKey) })
	if err != nil {
		return nil, fmt.Errorf("open simulated cloud: root certificate: %w", err)
	}
	if c.root, err = parsePEMCertificate(c.rootPEM); err != nil {
		return nil, fmt.Errorf("open simulated cloud: %s: %w", rootFile, err)
	}
	if !c.rootKey.PublicKey.Equal(c.root.PublicKey) {
		return nil, fmt.Errorf("open simulated cloud: %s and %s do not belong together", seedFile, rootFile)
	}
	if c.kms, err = newKMS(seed); err != nil {
		return nil, fmt.Errorf("open simulated cloud: KMS: %w", err)
	}
	return c, nil
}

// RootPEM is the root that a verifier must trust to accept this Cloud's quotes.
func (c *Cloud) RootPEM() []byte { return append([]byte(nil), c.rootPEM...) }

// KeyProviderID is the id of the key-provider event: hex of the DER
// SubjectPublicKeyInfo of the KMS root CA key. The name is "kms".
func (c *Cloud) KeyProviderID() string { return hex.EncodeToString(c.kms.caSPKI) }

// KMSPublicKey is the compressed secp256k1 public key that signs for the KMS:
// app keys and the keys for encrypted environments (33 bytes).
func (c *Cloud) KMSPublicKey() []byte { return c.kms.root.PubKey().SerializeCompressed() }

func newSeed() ([]byte, error) {
	seed := make([]byte, seedSize)
	_, err := rand.Read(seed)
	return seed, err
}

// keepFile returns the content of path, and first creates a missing file. Concurrent callers read
// the same content.
func keepFile(path string, create func() ([]byte, error)) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	content, err = create()
	if err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return nil, err
	}
	// Link refuses to replace: a loser of the race reads the winner's file.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}
