package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"time"

	"cadre.dev/core/secret"
)

// Validity of issued certificates. The backdating tolerates clocks that are slightly slow.
//
// Members renew after 7 minutes at the latest, so they work for more than an hour without any
// coordinator. An evicted Boot that is cut off from all coordinators passes as admitted for the
// same time, with members that are cut off as well. Members that reach a coordinator learn of the
// eviction at once.
const (
	LeafTTL  = 75 * time.Minute
	Backdate = 5 * time.Minute
)

// SimulatedOrganization is the subject's organization in every certificate that rests on evidence
// under another root than Intel's, which makes the certificate recognizable.
const SimulatedOrganization = "SIMULATED"

// ErrKeyForbidden reports a key that no SVID is issued for (CSR_FORBIDDEN).
var ErrKeyForbidden = errors.New("CSR_FORBIDDEN: the key is not a P-256 key")

// Subject is the identity in an SVID. The issuer takes it from the records, and the holder has no
// influence on it.
type Subject struct {
	Group, Slot string
	// DNSNames are for coordinators only.
	DNSNames []string
	// Simulated marks the certificate.
	Simulated bool
}

// The CA's validity is a constant, because the certificate must be byte-identical on every
// coordinator and at every start.
var (
	caNotBefore = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	caNotAfter  = time.Date(2055, 1, 1, 0, 0, 0, 0, time.UTC)
)

// CA issues the cluster's certificates. Safe for concurrent use.
type CA struct {
	cluster string
	key     secret.Value // an ed25519.PrivateKey
	cert    *x509.Certificate
	pem     []byte
}

// newCA makes the CA of a seed. Ed25519 signatures have no randomness, so equal seeds give equal
// bytes. The subject includes the cluster ID, which distinguishes two sets of coordinators of one
// app; another cluster ID also gives another seed.
func newCA(cluster, id string, seed []byte) (*CA, error) {
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	digest := sha256.Sum256(public)
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(digest[:16]),
		Subject:               pkix.Name{CommonName: "cadre " + cluster + " CA", SerialNumber: id},
		NotBefore:             caNotBefore,
		NotAfter:              caNotAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		SubjectKeyId:          digest[:20],
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: cluster}},
	}
	der, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign cluster CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back cluster CA: %w", err)
	}
	return &CA{cluster: cluster, key: secret.New(key), cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// PEM returns the CA bundle.
func (c *CA) PEM() []byte { return c.pem }

// BundleSHA256 returns the digest that coordinator statements carry.
func (c *CA) BundleSHA256() [32]byte { return sha256.Sum256(c.pem) }

// Pool returns a pool with the CA as its only root.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	return pool
}

// SVID issues the identity certificate of a Slot for a Boot's public key, which must be a P-256
// key: ErrKeyForbidden. There is no certificate request, so the holder cannot set names, usages or
// extensions. The only URI SAN is the SPIFFE ID.
func (c *CA) SVID(public crypto.PublicKey, subject Subject, now time.Time) (der []byte, notAfter time.Time, err error) {
	if key, ok := public.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, time.Time{}, fmt.Errorf("issue SVID of %s: %w", subject.Slot, ErrKeyForbidden)
	}
	for _, name := range []string{c.cluster, subject.Group, subject.Slot} {
		if !nameForm.MatchString(name) {
			return nil, time.Time{}, fmt.Errorf("issue SVID: name %.80q is not one label of a-z, 0-9 and inner dashes", name)
		}
	}
	template := leaf(subject.Slot, subject.Simulated, now)
	template.URIs = []*url.URL{{Scheme: "spiffe", Host: c.cluster, Path: "/" + subject.Group + "/" + subject.Slot}}
	template.DNSNames = subject.DNSNames
	der, err = c.sign(template, public)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("issue SVID of %s: %w", subject.Slot, err)
	}
	return der, template.NotAfter, nil
}

// nameForm is one part of a SPIFFE ID.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ConsulTLS issues a certificate with a fresh key for the internal RPC of a coordinator's Consul
// server. The name "server.<dc>.consul" allows the server to take part in Raft
// (verify_server_hostname).
func (c *CA) ConsulTLS(node, datacenter string, simulated bool, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make Consul key of %s: %w", node, err)
	}
	template := leaf(node, simulated, now)
	template.DNSNames = []string{"server." + datacenter + ".consul", "localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := c.sign(template, key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("issue Consul certificate of %s: %w", node, err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode Consul key of %s: %w", node, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// SignStatement returns the Ed25519 signature of a text. The text begins with a word of its kind, so
// it cannot be read as a certificate, which begins with a byte of DER.
func (c *CA) SignStatement(text []byte) []byte {
	return ed25519.Sign(ed25519.PrivateKey(c.key.Reveal()), text)
}

func leaf(name string, simulated bool, now time.Time) *x509.Certificate {
	subject := pkix.Name{CommonName: name}
	if simulated {
		subject.Organization = []string{SimulatedOrganization}
	}
	return &x509.Certificate{
		Subject:     subject,
		NotBefore:   now.Add(-Backdate),
		NotAfter:    now.Add(LeafTTL),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

func (c *CA) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial := make([]byte, 16)
	if _, err := rand.Read(serial); err != nil {
		return nil, err
	}
	serial[0] &= 0x7f
	template.SerialNumber = new(big.Int).SetBytes(serial)
	return x509.CreateCertificate(rand.Reader, template, c.cert, public, ed25519.PrivateKey(c.key.Reveal()))
}
